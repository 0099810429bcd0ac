// The only CUDA header that a kernel source includes. It defines the kernel language for nvcc (kernel_cuda.h)
// and for the C++ compiler (kernel_emulated.h), with the same names:
//
//   CUDA's own     __global__ __device__ __shared__ __launch_bounds__ threadIdx blockIdx blockDim gridDim
//                  __syncthreads __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __any_sync
//                  __all_sync __ballot_sync atomicAdd atomicMax atomicCAS uint2 uint4 float2 float4 make_*
//   of both files  launch<kernel>, dynamic_shared, half and bfloat16 pairs, copy_async_*, mma_*, exp2_fast
//
// Rules for both: all 32 lanes take part in a warp operation (mask 0xFFFFFFFF); a block has at most 1024
// threads, whole warps, in x only; __shared__ arrays have constant sizes and no initial values, other shared
// memory is dynamic_shared(); no grid-wide synchronization. Both are compiled without contraction
// (-fmad=false); fused operations are written fmaf().
#pragma once

#include "gpu/launch.h"

// A kernel's entry in the list of all kernels (gpu/launch.h). That launch<kernel> is compiled registers it.
template <auto kernel> static inline const char *kernel_description()
{
    return __PRETTY_FUNCTION__;
}

struct registered_kernel {
    struct kernel_entry entry;

    registered_kernel(const void *function, const char *description)
    {
        kernel_register(&entry, function, description);
    }
};

template <auto kernel> struct kernel_of {
    static registered_kernel registered;
};

template <auto kernel>
registered_kernel kernel_of<kernel>::registered{(const void *)kernel, kernel_description<kernel>()};

#ifdef __CUDACC__
#include "gpu/kernel_cuda.h"
#else
#include "gpu/kernel_emulated.h"
#endif

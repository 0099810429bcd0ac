// The only CUDA header that a kernel source includes. It defines the kernel language for nvcc (kernel_cuda.h)
// and for the C++ compiler (kernel_emulated.h), with the same names:
//
//   CUDA's own     __global__ __device__ __shared__ __launch_bounds__ threadIdx blockIdx blockDim gridDim __syncthreads
//                  __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __any_sync __all_sync __ballot_sync atomicAdd
//                  atomicMax atomicCAS uint2 uint4 float2 float4 make_*
//   of both files  launch, dynamic_shared, half and bfloat16 pairs, copy_async_*, mma_*, exp2_fast
//
// Rules for both: all 32 lanes take part in a warp operation (mask 0xFFFFFFFF); a block has at most 1024
// threads, whole warps, in x only; __shared__ arrays have constant sizes and no initial values, other shared
// memory is dynamic_shared(); no grid-wide synchronization. Both are compiled without contraction
// (-fmad=false); fused operations are written fmaf().
#pragma once

#include <stddef.h>
#include <stdint.h>

struct launch_shape {
    unsigned blocks_x, blocks_y, blocks_z, n_threads; // none is 0: CUDA rejects an empty launch
    size_t shared_bytes;                              // size of dynamic_shared()
};

// CUDA's limits for every compute capability from 8.0 on (CUDA programming guide, technical specifications).
enum {
    LAUNCH_BLOCKS_X_MAX = 0x7FFFFFFF,
    LAUNCH_BLOCKS_YZ_MAX = 65535,
    LAUNCH_THREADS_MAX = 1024,
    LAUNCH_ARGUMENT_BYTES_MAX = 4096,
};

#ifdef __CUDACC__
#include "gpu/kernel_cuda.h"
#else
#include "gpu/kernel_emulated.h"
#endif

// The only CUDA header that a kernel source includes. It defines the kernel language for nvcc
// (gpu/kernels/kernel_cuda.h) and for the C++ compiler (gpu/emulation/kernel.h), with the same names:
//
//   CUDA's own     __global__ __device__ __shared__ __launch_bounds__ threadIdx blockIdx blockDim gridDim
//                  __syncthreads __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __any_sync
//                  __all_sync __ballot_sync __reduce_max_sync atomicAdd atomicMax atomicCAS uint2 uint4
//                  float2 float4 make_*
//                  __threadfence
//   both files     launch<kernel>, launch_overlapped<kernel>, launch_next, launch_wait, dynamic_shared, half
//                  and bfloat16 pairs, copy_async_*, mma_*, exp2_fast, load_published*, prefetch_line,
//                  kept_value; of 9.0 (gpu/kernels/wgmma_cuda.h, gpu/emulation/wgmma.h) barrier_*,
//                  copy_bulk, wgmma*, registers_*
//
// Rules for both: all 32 lanes take part in a warp operation (mask 0xFFFFFFFF); a block has at most 1024
// threads, whole warps, in x only; __shared__ arrays have constant sizes and no initial values, other shared
// memory is dynamic_shared(); no grid-wide synchronization. Both are compiled without contraction
// (-fmad=false); fused operations are written fmaf().
#pragma once

#include "gpu/kernels/launch.h"

// Programmatic dependent launch. A kernel that is enqueued by launch_overlapped<kernel> calls both, in
// every block; threads that touch no memory of other launches may leave the second out:
//
//   launch_next()  the next launch may begin once all blocks have called it or ended. Called first.
//   launch_wait()  returns when the previous launch has ended and its writes are visible. Called before the
//                  kernel reads or writes memory that another launch writes or reads. Before it a kernel may
//                  read what no launch writes: its arguments, weights, and the step's input, except tokens
//                  and histories (launch_resolve).
//
// A launch that has waited for its predecessor has waited for all earlier launches: the predecessor ended
// after its own wait, so by induction all launches before it had ended. So reads follow earlier writes, and
// writes follow earlier reads and writes: later launches reuse memory only after their wait. A kernel without
// these calls is enqueued by launch<kernel>: it begins when its predecessor has ended, and its successor's
// wait returns when it has ended. Both kinds may be mixed. Copies, events, and the begin and end of a graph
// wait for all earlier launches. Without compute capability 9.0, or with device_options.no_overlap, launches
// run one after another.

// A kernel's entry in the list of all kernels (gpu/kernels/launch.h). Compiling launch<kernel> registers it.
template <auto kernel> static inline const char *kernel_description()
{
    return __PRETTY_FUNCTION__;
}

struct registered_kernel {
    struct kernel_entry entry;

    registered_kernel(const void *function, const char *description, bool overlaps)
    {
        entry.overlaps = overlaps;
        kernel_register(&entry, function, description);
    }
};

template <auto kernel, bool overlaps> struct kernel_of {
    static registered_kernel registered;
};

template <auto kernel, bool overlaps>
registered_kernel kernel_of<kernel, overlaps>::registered{(const void *)kernel, kernel_description<kernel>(),
                                                          overlaps};

#ifdef __CUDACC__
#include "gpu/kernels/kernel_cuda.h"
#else
#include "gpu/emulation/kernel.h"
#endif

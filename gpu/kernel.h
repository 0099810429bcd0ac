// What a kernel's source includes and nothing else of CUDA: the language of kernels, for a GPU when nvcc compiles
// (kernel_cuda.h) and for the CPU when a C++ compiler does (kernel_emulated.h). Both give the same names:
//
//   CUDA's own     __global__ __device__ __shared__ __launch_bounds__ threadIdx blockIdx blockDim gridDim __syncthreads
//                  __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __any_sync __all_sync __ballot_sync atomicAdd
//                  atomicMax atomicCAS uint2 uint4 float2 float4 make_*
//   of both files  launch, dynamic_shared, half and bfloat16 pairs, copy_async_*, mma_*, exp2_fast: see there
//
// Rules that keep the two alike: every lane of a warp takes part in a warp's operation (mask 0xFFFFFFFF); a block is at most
// 1024 threads of whole warps, in x alone; __shared__ arrays have constant sizes and no initial values, the rest comes
// from dynamic_shared(); no device-wide synchronisation. Both are compiled without contraction of products and sums: what is
// fused is written fmaf().
#pragma once

#include <stddef.h>
#include <stdint.h>

struct launch_shape {
    unsigned blocks_x, blocks_y, blocks_z, n_threads; // none of them 0: an empty launch is an error of CUDA's
    size_t shared_bytes; // what dynamic_shared() points at; a launch asks for much of it
};

// CUDA's, of every compute capability from 8.0 on (CUDA programming guide, technical specifications).
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

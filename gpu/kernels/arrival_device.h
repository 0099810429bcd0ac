// For kernels: the last block to arrive. Blocks that compute parts of one result store them and count their
// arrival; the last one finds all of them stored. No block waits for another.
#pragma once

#include "gpu/kernels/kernel.h"

// By one thread, after a barrier of those that stored; the others read after a barrier, by load_published.
// True: `n` completes the `n_all` that are counted, and the counter is 0 again.
static __device__ __forceinline__ bool arrive_last(int32_t *arrivals, int32_t n, int32_t n_all)
{
    __threadfence();
    bool is_last = atomicAdd(arrivals, n) == n_all - n;
    if (is_last)
        atomicAdd(arrivals, -n_all);
    __threadfence();
    return is_last;
}

// For kernels: the last block to arrive. Blocks that compute parts of one result store their part and count
// their arrival. When the last block arrives, all parts are stored. No block waits for another.
#pragma once

#include "gpu/kernels/kernel.h"

// Counts `n` arrivals. Returns true if all `n_all` arrivals are complete; the counter is then 0 again. One
// thread calls it, after a barrier with the threads that stored. Another barrier must follow; then threads
// may read the parts by load_published.
static __device__ __forceinline__ bool arrive_last(int32_t *arrivals, int32_t n, int32_t n_all)
{
    __threadfence();
    bool is_last = atomicAdd(arrivals, n) == n_all - n;
    if (is_last)
        atomicAdd(arrivals, -n_all);
    __threadfence();
    return is_last;
}

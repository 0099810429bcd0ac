// Benchmark mode of the kernel tests: a clock, and the number of cores.
#pragma once

#include "engine/machine.h"

#include <time.h>

// One thread's own processor time, so that what else runs on the machine counts less; else the wall clock.
static inline double bench_seconds(int n_threads)
{
    struct timespec now;
    clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int bench_n_threads(void)
{
    return machine_n_cores();
}

// What the benchmark mode of the kernel tests needs: a clock, and the number of cores.
#pragma once

#include "engine/machine.h"

#include <time.h>

static inline double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int bench_n_threads(void)
{
    return machine_n_cores();
}

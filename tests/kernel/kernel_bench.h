// Benchmark mode of the kernel tests: a clock, and the number of cores.
#pragma once

#include "schemas/base/clock.h"
#include "schemas/base/machine.h"

// One thread's own processor time, so that what else runs on the machine counts less; else the wall clock.
static inline double bench_seconds(int n_threads)
{
    return 1e-9 * (double)(n_threads == 1 ? clock_thread_ns() : clock_ns());
}

static inline int bench_n_threads(void)
{
    return machine_n_cores();
}

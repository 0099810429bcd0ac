// Processor cores and memory available to this process. On Linux they are limited by the affinity mask and
// control groups; elsewhere the C library reports them.
// Thread: any.
#pragma once

#include <stdint.h>

// Number of physical cores in the process's affinity mask, limited to the control group's quota (rounded up).
// At least 1.
int machine_n_cores(void);

// Bytes that the process may still allocate: the minimum of the system's available memory, the rest of the
// control group's limit and the rest of the address space limit (RLIMIT_AS). 0: unknown.
uint64_t machine_available_bytes(void);

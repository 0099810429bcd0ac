// What the machine grants this process: processor cores and memory, as affinity and control groups leave
// them. Linux; elsewhere what the C library tells. Thread: any.
#pragma once

#include <stdint.h>

// Cores this process may run on: one for each physical core in its affinity, at most the control group's
// quota rounded up. 1 or more.
int machine_n_cores(void);

// Bytes the process may still take: what the system has available and what is left of the control group's
// limit and of the limit of its address space (RLIMIT_AS), whichever is less. 0: unknown.
uint64_t machine_memory_available(void);

// Race detector for emulated kernels, independent of the order in which threads run. Kernels compiled with
// -fsanitize=thread call a function for every load and store. This library, in place of the thread
// sanitizer's runtime, reports two accesses to one byte, at least one of them a store, that CUDA does not
// order:
//
//   threads of a block   are ordered by __syncthreads, lanes of a warp also by __syncwarp. Shuffles, votes
//                        and mma exchange registers and do not order memory (CUDA programming guide, warp
//                        shuffle functions)
//   blocks of a launch   are not ordered
//   warps of a block     are ordered by barrier_named too, if they meet there
//   mbarriers            order accesses before an arrival before accesses after a wait for its phase
//                        (order.h)
//   atomics              do not race with each other
//   copies               (copy_async_16) store at any time between the call and the wait
//   bulk copies          store at any time until their phase completes; a wait for the phase is ordered after
//   wgmma                loads at any time from when its four warps issue it until a warp waits for it, which
//                        is ordered after the loads of all four. What it loads is stored by bulk copies, or
//                        before a shared_fence_async() of the storing thread (that the fence precedes the
//                        barrier is not checked)
//
// Of a launch that may begin before the launches before it have ended (launch_overlapped), a thread that has not
// called launch_wait must store nothing outside of shared memory, and load nothing that a launch since the last copy,
// event or border of a graph has stored: such an access is reported too. For asynchronous copies it counts when
// they are issued.
//
// For each byte the last store and the last loads are recorded; of several loads since a barrier only whether
// they were by one thread, one warp or more, so a report names one of them. A race that an atomic hides from
// a later load is missed. In blocks with mbarriers, named barriers or wgmma two loads are recorded, the first
// and the last that are not ordered: a store that races only with a third is missed.
//
// Thread: one at a time, as gpu/emulation/emulate.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emulate_access { EMULATE_LOADS, EMULATE_STORES, EMULATE_UPDATES }; // EMULATE_UPDATES: atomic operations

struct emulate_race {
    const void *address;
    enum emulate_access before, now;
    unsigned thread_before, thread_now, block_before, block_now;
    bool early; // now is before its thread's launch_wait, and before is an earlier launch's, or nobody's
};

// Callback for races; NULL, the default: an assert fails.
void emulate_races_report_to(void (*receive)(const struct emulate_race *race));

#ifdef __cplusplus
}
#endif

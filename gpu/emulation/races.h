// Race detector for emulated kernels, independent of the order in which threads run. Kernels compiled with
// -fsanitize=thread call a function for every load and store. This library, in place of the thread
// sanitizer's runtime, reports two accesses to one byte, at least one of them a store, that CUDA does not
// order:
//
//   threads of a block   are ordered by __syncthreads, lanes of a warp also by __syncwarp. Shuffles, votes
//                        and mma exchange registers and do not order memory (CUDA programming guide, warp
//                        shuffle functions)
//   blocks of a launch   are not ordered
//   warps of a block     are ordered also by a barrier_named at which they meet
//   mbarriers            order accesses before an arrival before accesses after a wait for its phase
//                        (order.h)
//   atomics              do not race with each other
//   copies               (copy_async_16) may store at any time between the call and the wait
//   bulk copies          may store at any time until their phase completes; a wait for the phase is ordered
//                        after them
//   wgmma                may load at any time from its issue by its four warps until a warp waits for it; the
//                        wait is ordered after the loads of all four. What it loads must have been stored by
//                        bulk copies, or before a shared_fence_async() of the storing thread (not checked:
//                        that the fence precedes the barrier)
//
// A launch may begin before earlier launches have ended (launch_overlapped). Its threads must not, before
// their launch_wait, store outside of shared memory, nor load what an earlier launch has stored since the
// last copy, event, or begin or end of a graph. Such an access is reported too. Asynchronous copies are
// checked at their issue.
//
// Recorded for each byte: its last store and its last loads. Of several loads since a barrier it is recorded
// only whether one thread, one warp or several warps made them, so a report names one of them. Not found: a
// race of a load with a store, if an atomic operation on the byte came between. In blocks with mbarriers,
// named barriers or wgmma two loads are recorded, the first and the last that are not ordered. Not found: a
// store that races only with a third.
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
    bool early; // the access came before the thread's launch_wait
};

// Sets the callback for races. NULL, the default: a race fails an assert.
void emulate_races_report_to(void (*receive)(const struct emulate_race *race));

#ifdef __cplusplus
}
#endif

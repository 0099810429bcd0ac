// Finds races of emulated kernels whichever way threads happen to run: kernels that are compiled with gcc's
// or clang's -fsanitize=thread tell of every load and store, and this library (in place of the thread
// sanitizer's own) looks whether two of them, one at least a store, touch the same byte without an order that
// CUDA gives:
//
//   threads of a block   are ordered by __syncthreads; lanes of a warp by __syncwarp too. Shuffles, votes and products of fragments
//                        exchange registers and order no memory (CUDA programming guide, warp shuffle functions)
//   blocks of a launch   are not ordered; only atomics may meet
//   atomics              among themselves are no race
//   copies               (copy_async_16) store from when they are asked for until they are waited for
//
// Each byte has its last store and its last loads; of several loads since the last barrier only whether they
// are one thread's, one warp's or more is kept, so a race with a store may be told with one of them. A race
// that an atomic hides from a later load is missed.
//
// Thread: one at a time, as gpu/emulate.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emulate_access { EMULATE_LOADS, EMULATE_STORES, EMULATE_UPDATES }; // the last: an atomic operation

struct emulate_race {
    const void *address;
    enum emulate_access before, now;
    unsigned thread_before, thread_now, block_before, block_now;
};

// Whom to tell of races; NULL, as at first: an assert fails.
void emulate_races_tell(void (*tell)(const struct emulate_race *race));

#ifdef __cplusplus
}
#endif

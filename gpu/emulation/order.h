// The happens-before order of an emulated block's threads, as vector clocks. It covers synchronization other
// than __syncthreads, which gpu/emulation/races.c knows from counts. An actor is a thread, all bulk copies of
// one mbarrier, or all wgmma of one warpgroup. Each actor counts its own time. An access of actor x at time t
// happened before the running thread's next access if that thread's clock has t or more for x.
//
// A block keeps clocks from its first mbarrier, named barrier or wgmma on, and only if accesses are watched.
// Otherwise all functions do nothing, and clocks are NULL.
//
// Thread: one at a time, as gpu/emulation/emulate.h.
#pragma once

#include "gpu/emulation/emulate.h"

enum {
    EMULATE_ACTOR_COPIES = EMULATE_THREADS_MAX, // the copies of the first barrier; other barriers follow
    EMULATE_ACTOR_WGMMA = EMULATE_ACTOR_COPIES + EMULATE_BARRIERS_MAX,
    EMULATE_ACTORS = EMULATE_ACTOR_WGMMA + EMULATE_THREADS_MAX / 128,
};

struct emulate_clock {
    uint32_t times[EMULATE_ACTORS];
    struct emulate_clock *next; // in the list of unused clocks
};

// A meeting of threads. gathered: the joined clocks of threads that have arrived so far. complete: the joined
// clocks of the last complete meeting.
struct emulate_order {
    struct emulate_clock *gathered, *complete;
};

// Begins a block. All clocks of the previous block become invalid. Clocks are kept only if is_watched.
void emulate_order_begin(unsigned n_threads, bool is_watched);
void emulate_order_start(void); // starts to keep clocks
struct emulate_clock *emulate_order_now(unsigned thread);

struct emulate_clock *emulate_clock_create(void);
void emulate_clock_destroy(struct emulate_clock *clock);
void emulate_clock_join(struct emulate_clock *into, const struct emulate_clock *from);
void emulate_clock_meet(struct emulate_clock *into, const struct emulate_clock *with); // what both saw
// Everything the thread has done so far is ordered before accesses that acquire `into`.
void emulate_clock_release(struct emulate_clock *into, unsigned thread);

void emulate_order_arrive(struct emulate_order *order, unsigned thread);
void emulate_order_complete(struct emulate_order *order);
void emulate_order_leave(const struct emulate_order *order, unsigned thread);

// The happens-before order of an emulated block's threads, as vector clocks. It covers synchronization other
// than __syncthreads, which gpu/emulation/races.c knows from counts. An actor is a thread, all bulk copies of one
// mbarrier, or all wgmma of one warpgroup. It counts its times; an access at time t of actor x happened
// before what now runs if now's clock has t or more for x.
//
// A block's clocks are kept from its first mbarrier, named barrier or wgmma on, and only if somebody watches
// accesses. Elsewhere all functions do nothing, and clocks are NULL.
//
// Thread: one at a time, as gpu/emulation/emulate.h.
#pragma once

#include "gpu/emulation/emulate.h"

enum {
    EMULATE_ACTOR_COPIES = EMULATE_THREADS_MAX, // of the first barrier
    EMULATE_ACTOR_WGMMA = EMULATE_ACTOR_COPIES + EMULATE_BARRIERS_MAX,
    EMULATE_ACTORS = EMULATE_ACTOR_WGMMA + EMULATE_THREADS_MAX / 128,
};

struct emulate_clock {
    uint32_t times[EMULATE_ACTORS];
    struct emulate_clock *next; // unused ones
};

// Of threads that meet: what those that arrived had seen, and the same of the last completed meeting.
struct emulate_order {
    struct emulate_clock *gathered, *complete;
};

// Of a block; all clocks of the one before become invalid. is_watched: somebody watches accesses.
void emulate_order_begin(unsigned n_threads, bool is_watched);
void emulate_order_start(void); // to keep clocks
struct emulate_clock *emulate_order_now(unsigned thread);

struct emulate_clock *emulate_clock_create(void);
void emulate_clock_destroy(struct emulate_clock *clock);
void emulate_clock_join(struct emulate_clock *into, const struct emulate_clock *from);
void emulate_clock_meet(struct emulate_clock *into, const struct emulate_clock *with); // what both have seen
// Everything the thread has done so far is ordered before accesses that acquire `into`.
void emulate_clock_release(struct emulate_clock *into, unsigned thread);

void emulate_order_arrive(struct emulate_order *order, unsigned thread);
void emulate_order_complete(struct emulate_order *order);
void emulate_order_leave(const struct emulate_order *order, unsigned thread);

// Runs a kernel on the CPU: blocks one after another, a block's threads as fibers that change hands where
// they meet (block barriers, warp operations) and nowhere else. For tests: it finds reads and writes out of
// bounds (with the address sanitizer), threads that do not meet (an assert), barriers that are missing
// (threads run in order or in reverse order, which must not show) and copies that were not waited for.
//
// Thread: one at a time, the one that runs the emulated stream.
#pragma once

#include "gpu/emulate_races.h"

#include <stdint.h>

enum {
    EMULATE_THREADS_MAX = 1024, // of a block
    EMULATE_EXCHANGE_BYTES = 48, // that a lane gives to a warp's operation: a product's 12 items as floats
    EMULATE_SHARED_BYTES_MAX = 227 << 10, // of a block, as of compute capability 9.0
    EMULATE_COPIES_MAX = 4096,  // asynchronous copies of a thread that have not arrived
};

struct emulate_shape {
    unsigned x, y, z;
};

// What a running thread sees.
struct emulate_fiber {
    struct emulate_shape thread, block, block_shape, grid_shape;
    unsigned char *shared;
};

#ifdef __cplusplus
extern "C" {
#endif

// Runs `thread(context)` once for every thread of every block. n_threads: a multiple of 32. Shared memory has
// just the size asked for and begins as all ones.
void emulate_run(struct emulate_shape grid, unsigned n_threads, size_t shared_bytes, void (*thread)(void *context),
                 void *context);
// Threads run from the last to the first: a barrier that is missing shows in one of the orders.
void emulate_reverse(bool reverse);

// For gpu/emulate_races.c: who touches some memory of the device just now. False: no kernel does, or it is
// the thread's own.
struct emulate_moment {
    uint32_t launch, block, thread;    // launches from 1 on
    uint32_t n_barriers, n_warp_syncs; // that the thread has passed
    bool shared;                       // the block's memory
};

bool emulate_moment_of(const void *memory, struct emulate_moment *moment);
// Whom to tell what is touched in place of a kernel: by copies and atomics.
void emulate_watch(void (*watcher)(const void *memory, size_t size, enum emulate_access access));

// The rest is for kernels (gpu/kernel_emulated.h).

struct emulate_fiber *emulate_fiber_now(void);
void emulate_block_meet(void);
void emulate_warp_meet(void);
void emulate_update(const void *memory, size_t size); // before an atomic operation
// All lanes of the warp give `size` bytes and see everybody's: [32][EMULATE_EXCHANGE_BYTES], until the next
// exchange but one.
const void *emulate_warp_exchange(const void *mine, size_t size);

void emulate_check_aligned(const void *address, size_t bytes); // a vector load's
void emulate_copy(void *shared, const void *global, bool valid);
void emulate_copies_commit(void);
void emulate_copies_wait(int n_left);

float emulate_half_float(uint16_t half);
uint16_t emulate_half(double value); // nearest even, from any double
uint16_t emulate_bfloat(float value);
void emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat);

#ifdef __cplusplus
}
#endif

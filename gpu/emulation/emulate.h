// Runs a kernel on the CPU, for tests: blocks one after another, the threads of a block as fibers that switch
// only at barriers, warp operations and waits. It detects
//
//   accesses out of bounds                         with the address sanitizer
//   divergent barriers and deadlocks               by an assert
//   missing barriers                               other results if threads run in reverse order
//   asynchronous copies and wgmma without a wait   performed at the wait
//
// Thread: one at a time: the thread that runs the emulated stream.
#pragma once

#include "gpu/emulation/races.h"

#include <stdint.h>

enum {
    EMULATE_THREADS_MAX = 1024,           // per block
    EMULATE_EXCHANGE_BYTES = 48,          // operands of a lane in a warp operation; mma has the most
    EMULATE_SHARED_BYTES_MAX = 227 << 10, // per block, the limit of compute capability 9.0
    EMULATE_COPIES_MAX = 4096,            // outstanding asynchronous copies of a thread
    EMULATE_BARRIERS_MAX = 256,           // mbarriers of a block
};

struct emulate_shape {
    unsigned x, y, z;
};

// Built-in variables of the running thread.
struct emulate_fiber {
    struct emulate_shape thread, block, block_shape, grid_shape;
    unsigned char *shared;
    bool early; // true until launch_wait: earlier launches may not have ended
};

#ifdef __cplusplus
extern "C" {
#endif

// Runs `thread(context)` once for every thread of every block. n_threads is a multiple of 32. Shared memory
// has exactly the requested size; its initial bytes are 0xFF.
void emulate_run(struct emulate_shape grid, unsigned n_threads, size_t shared_bytes,
                 void (*thread)(void *context), void *context);
// Ends all launches so far before the next one begins. Called for a copy, an event, and the begin or end of a
// graph.
void emulate_launches_end(void);
// Runs blocks and threads from last to first, and performs bulk copies at their issue instead of at the wait.
// A missing barrier changes the results in one of the two orders.
void emulate_reverse(bool reverse);

// Describes who accesses memory now, for gpu/emulation/races.c. False: no kernel is running, or the memory is
// on a thread's stack.
struct emulate_moment {
    uint32_t launch, block, thread;    // launch: from 1; thread: actor (gpu/emulation/order.h)
    uint32_t n_barriers, n_warp_syncs; // number that the thread has passed
    uint32_t n_barriers_issued;        // for an asynchronous access: n_barriers when it was issued
    uint32_t time;                     // the actor's time
    const struct emulate_clock *clock; // NULL: none is kept
    uint32_t n_fences;                 // shared_fence_async() calls of the thread
    bool shared;                       // the access is to shared memory
    bool early;                        // the thread had not called launch_wait when it issued the access
    uint32_t n_ended;                  // launches that had certainly ended when this one began
};

bool emulate_moment_of(const void *memory, struct emulate_moment *moment);
uint32_t emulate_fences_of(uint32_t thread); // current n_fences of the thread
// Callback for accesses by copies and atomics, which are not instrumented.
void emulate_watch(void (*watcher)(const void *memory, size_t size, enum emulate_access access));

// The functions below are called by emulated kernels (gpu/emulation/kernel.h).

struct emulate_fiber *emulate_fiber_now(void) __attribute__((const)); // does not change while a thread runs
void emulate_block_meet(void);
void emulate_warp_meet(void);
void emulate_barrier_named(int id, int n_threads);
void emulate_update(const void *memory, size_t size); // before an atomic operation
// Exchanges `size` bytes between the lanes of a warp: each lane passes its own, and gets an array of all
// lanes' bytes [32][EMULATE_EXCHANGE_BYTES]. The array is valid until the second next exchange.
const void *emulate_warp_exchange(const void *mine, size_t size);

void emulate_check_aligned(const void *address, size_t bytes); // asserts the alignment of a vector load
void emulate_copy(void *shared, const void *global, bool valid);
void emulate_copies_commit(void);
void emulate_copies_wait(int n_left);

float emulate_half_float(uint16_t half);
uint16_t emulate_half(double value); // rounded to nearest even
uint16_t emulate_bfloat(float value);
// Computes d += a b as the tensor cores of emulate_capability do (gpu/emulation/mma.c).
void emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat);
void emulate_capability(int capability); // 80 or 90; the default is 90
int emulate_capability_now(void);
// Does the work of emulate_mma for 1 to 4 warps: `a` of each lane, b [n_rows][16], and for each lane sums
// [n_rows / 2] in the order of n_rows / 8 mma.
void emulate_mma_rows(float *const *sums, const uint32_t (*a)[4], int n_warps, const uint16_t *b, int n_rows,
                      bool bfloat);

// mbarriers and bulk copies (gpu/emulation/barriers.c), wgmma (gpu/emulation/wgmma.c).
void emulate_barrier_init(uint64_t *word, uint32_t n_arrivals);
void emulate_barrier_init_fence(void);
void emulate_barrier_expect(uint64_t *word, uint32_t n_bytes);
void emulate_barrier_arrive(uint64_t *word);
void emulate_barrier_wait(uint64_t *word, uint32_t parity);
void emulate_copy_bulk(void *shared, const void *global, uint32_t n_bytes, uint64_t *word);
void emulate_shared_fence_async(void);
void emulate_registers(unsigned n, bool raise); // setmaxnreg (gpu/emulation/registers.c)
uint64_t emulate_wgmma_rows(const void *shared);
void emulate_wgmma_fence(void);
void emulate_wgmma(float *d, const uint32_t a[4], uint64_t rows, int n_rows, bool bfloat);
void emulate_wgmma_commit(void);
void emulate_wgmma_wait(int n_left);

#ifdef __cplusplus
}
#endif

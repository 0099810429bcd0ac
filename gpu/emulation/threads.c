// The threads of the running block, as fibers: scheduling, meetings, waits, and who accesses memory now.
#include "gpu/emulation/order.h"
#include "gpu/emulation/run.h"
#include "gpu/emulation/switch.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    WARP = EMULATE_WARP,
    NAMED_BARRIERS = 16,     // 0 is __syncthreads
    STACK_BYTES = 256 << 10, // an instrumented kernel without optimization uses a tenth of it
    // Stacks are 81 pages apart (256 + 68 KiB), and each begins 9 cache lines lower than the previous one.
    // With equal low address bits all stacks of a block would map to the same sets of the caches and of the
    // TLB.
    GUARD_BYTES = 68 << 10,
    STACK_SHIFT_BYTES = 9 * 64,
    STACK_SHIFTS = 64,
};

// For functions that run at each switch and access only this file's memory. Sanitizer checks there could not
// find a fault of a kernel, but would cost time.
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

struct warp {
    struct emulate_event meeting;
    struct emulate_order order; // order of __syncwarp
    size_t size;                // bytes that each lane passes to the current exchange
    _Alignas(16) unsigned char exchange[2][WARP][EMULATE_EXCHANGE_BYTES]; // index: generation & 1
};

struct fiber {
    struct emulate_fiber seen; // first member, the only part that kernels know
    struct emulate_switch state;
    const struct emulate_event *awaited; // NULL: can run
    unsigned awaited_generation;
    bool ended;
    uint32_t n_barriers, n_warp_syncs, n_fences;
};

// Global, because CUDA's threadIdx and similar variables are implicit.
static struct emulated_run {
    struct fiber fibers[EMULATE_THREADS_MAX];
    struct warp warps[EMULATE_THREADS_MAX / WARP];
    struct emulate_event block;
    struct {
        struct emulate_event event;
        struct emulate_order order;
        int n_threads;
    } named[NAMED_BARRIERS];
    unsigned n_threads, n_ended, current;
    struct emulate_switch caller;
    struct emulate_program program;
    unsigned char *stacks; // reused by later runs
    bool reverse, active;
    struct {
        uint32_t launch, block; // counted from 1; block: within the launch
        uint32_t n_ended;       // launches before the last emulate_launches_end
    } counts;
    struct {
        unsigned char *bytes;
        size_t size;
    } shared;
    struct {
        void (*watcher)(const void *memory, size_t size, enum emulate_access access);
        const struct emulate_asynchronous *asynchronous; // being watched; NULL: the thread's own access
    } watch;
} run;

void emulate_reverse(bool reverse)
{
    run.reverse = reverse;
}

bool emulate_is_reverse(void)
{
    return run.reverse;
}

UNCHECKED struct emulate_fiber *emulate_fiber_now(void)
{
    assert(run.active);
    return &run.fibers[run.current].seen;
}

struct emulate_block emulate_block_now(void)
{
    assert(run.active);
    return (struct emulate_block){.thread = run.current,
                                  .n_threads = run.n_threads,
                                  .n_barriers = run.fibers[run.current].n_barriers,
                                  .shared = run.shared.bytes,
                                  .shared_bytes = run.shared.size,
                                  .reverse = run.reverse};
}

void emulate_shared_fence_async(void)
{
    run.fibers[run.current].n_fences++;
}

uint32_t emulate_fences_of(uint32_t thread)
{
    return run.fibers[thread].n_fences;
}

// --- Who accesses what ---

void emulate_watch(void (*watcher)(const void *memory, size_t size, enum emulate_access access))
{
    run.watch.watcher = watcher;
}

void emulate_watch_access(const void *memory, size_t size, enum emulate_access access)
{
    if (run.watch.watcher)
        run.watch.watcher(memory, size, access);
}

bool emulate_is_watched(void)
{
    return run.watch.watcher;
}

void emulate_watch_asynchronous(const struct emulate_asynchronous *by, const void *memory, size_t size,
                                enum emulate_access access)
{
    run.watch.asynchronous = by;
    emulate_watch_access(memory, size, access);
    run.watch.asynchronous = NULL;
}

void emulate_update(const void *memory, size_t size)
{
    emulate_watch_access(memory, size, EMULATE_UPDATES);
}

static bool is_within(const void *memory, const void *begin, size_t size)
{
    return (uintptr_t)memory >= (uintptr_t)begin && (uintptr_t)memory - (uintptr_t)begin < size;
}

// Static shared arrays of kernels lie in the program's data segment.
extern char __data_start[], _end[];

bool emulate_moment_of(const void *memory, struct emulate_moment *moment)
{
    if (!run.active ||
        is_within(memory, run.stacks, EMULATE_THREADS_MAX * (size_t)(STACK_BYTES + GUARD_BYTES)))
        return false;
    const struct fiber *fiber = &run.fibers[run.current];
    *moment =
        (struct emulate_moment){.launch = run.counts.launch,
                                .block = run.counts.block,
                                .thread = run.current,
                                .n_barriers = fiber->n_barriers,
                                .n_warp_syncs = fiber->n_warp_syncs,
                                .n_barriers_issued = fiber->n_barriers,
                                .time = 1,
                                .clock = emulate_order_now(run.current),
                                .n_fences = fiber->n_fences,
                                .early = fiber->seen.early,
                                .n_ended = run.counts.n_ended,
                                .shared = is_within(memory, run.shared.bytes, run.shared.size) ||
                                          is_within(memory, __data_start, (size_t)(_end - __data_start))};
    if (moment->clock)
        moment->time = moment->clock->times[run.current];
    if (run.watch.asynchronous) {
        moment->thread = run.watch.asynchronous->actor;
        moment->n_barriers_issued = run.watch.asynchronous->n_barriers;
        moment->time = run.watch.asynchronous->time;
        moment->clock = run.watch.asynchronous->clock;
        moment->early = run.watch.asynchronous->early;
    }
    return true;
}

// --- Where threads meet ---

UNCHECKED static bool can_run(const struct fiber *fiber)
{
    return !fiber->ended && (!fiber->awaited || fiber->awaited->generation != fiber->awaited_generation);
}

static struct {
    char text[4096];
    size_t length;
} report;

void emulate_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(report.text + report.length, sizeof report.text - report.length, format, arguments);
    va_end(arguments);
    report.length += n > 0 ? (size_t)n : 0;
    if (report.length >= sizeof report.text)
        report.length = sizeof report.text - 1;
}

void emulate_threads_print(unsigned thread, const struct emulate_event *event)
{
    emulate_report("thread %u waits: ", thread);
    if (event == &run.block)
        emulate_report("__syncthreads, where %u of %u threads are\n", event->n_arrived, run.n_threads);
    for (int id = 0; id < NAMED_BARRIERS; id++)
        if (event == &run.named[id].event)
            emulate_report("barrier_named %d, where %u of %d threads are\n", id, event->n_arrived,
                           run.named[id].n_threads);
    if (event == &run.warps[thread / WARP].meeting)
        emulate_report("a warp operation, where %u of %d lanes are\n", event->n_arrived, WARP);
}

const struct emulate_event *emulate_awaited(unsigned thread)
{
    return run.fibers[thread].ended ? NULL : run.fibers[thread].awaited;
}

void emulate_fail_deadlock(void)
{
    emulate_report("threads wait for others that ended or wait elsewhere");
    __assert_fail(report.text, __FILE__, __LINE__, __func__); // prints the text and aborts, as assert does
}

// Returns the next thread that can run, in round-robin order. The current thread is tried last.
UNCHECKED static unsigned next_runnable(void)
{
    unsigned index = run.current;
    for (;;) {
        for (unsigned i = 0; i < run.n_threads; i++) {
            if (run.reverse)
                index = index > 0 ? index - 1 : run.n_threads - 1;
            else
                index = index + 1 < run.n_threads ? index + 1 : 0;
            if (can_run(&run.fibers[index]))
                return index;
        }
        run.program.none_can_run();
    }
}

UNCHECKED static void resume_fiber(struct emulate_switch *from, unsigned index)
{
    run.current = index;
    run.fibers[index].awaited = NULL;
    if (from != &run.fibers[index].state)
        emulate_switch_to(from, &run.fibers[index].state);
}

UNCHECKED void emulate_wait_for(const struct emulate_event *event)
{
    struct fiber *fiber = &run.fibers[run.current];
    fiber->awaited = event;
    fiber->awaited_generation = event->generation;
    resume_fiber(&fiber->state, next_runnable());
}

UNCHECKED static void meet_threads(struct emulate_event *meeting, unsigned n)
{
    if (++meeting->n_arrived < n) {
        emulate_wait_for(meeting);
        return;
    }
    meeting->n_arrived = 0;
    meeting->generation++;
}

void emulate_block_meet(void)
{
    meet_threads(&run.block, run.n_threads);
    run.fibers[run.current].n_barriers++;
}

void emulate_barrier_named(int id, int n_threads)
{
    assert(id > 0 && id < NAMED_BARRIERS && n_threads > 0 && n_threads % WARP == 0 &&
           (unsigned)n_threads <= run.n_threads);
    assert((run.named[id].event.n_arrived == 0 || run.named[id].n_threads == n_threads) &&
           "threads name unlike numbers of threads at a barrier");
    emulate_order_start();
    unsigned thread = run.current;
    run.named[id].n_threads = n_threads;
    emulate_order_arrive(&run.named[id].order, thread);
    if (run.named[id].event.n_arrived + 1 == (unsigned)n_threads)
        emulate_order_complete(&run.named[id].order);
    meet_threads(&run.named[id].event, (unsigned)n_threads);
    emulate_order_leave(&run.named[id].order, thread);
}

void emulate_warp_meet(void)
{
    struct warp *warp = &run.warps[run.current / WARP];
    emulate_order_arrive(&warp->order, run.current);
    if (warp->meeting.n_arrived + 1 == WARP)
        emulate_order_complete(&warp->order);
    (void)emulate_warp_exchange(NULL, 0);
    emulate_order_leave(&warp->order, run.current);
    run.fibers[run.current].n_warp_syncs++;
}

const void *emulate_warp_exchange(const void *mine, size_t size)
{
    struct warp *warp = &run.warps[run.current / WARP];
    unsigned slot = warp->meeting.generation & 1;
    assert(size <= EMULATE_EXCHANGE_BYTES);
    assert((warp->meeting.n_arrived == 0 || warp->size == size) &&
           "a warp's lanes meet in unlike operations");
    warp->size = size;
    unsigned char *own = warp->exchange[slot][run.current % WARP];
    if (size == 4) // a shuffle: a constant size compiles to no call
        memcpy(own, mine, 4);
    else if (size > 0)
        memcpy(own, mine, size);
    meet_threads(&warp->meeting, WARP);
    return warp->exchange[slot];
}

const void *emulate_warp_gather(const void *mine, size_t size, bool *is_last)
{
    *is_last = run.warps[run.current / WARP].meeting.n_arrived + 1 == WARP;
    return emulate_warp_exchange(mine, size);
}

// Unchecked, because before a call that does not return the address sanitizer clears the shadow of the whole
// stack, which is slow.
UNCHECKED static void fiber_main(void *argument)
{
    struct fiber *fiber = argument;
    run.program.thread(run.program.context);
    run.program.thread_ends(run.current);
    fiber->ended = true;
    if (++run.n_ended == run.n_threads)
        emulate_switch_last(&run.caller);
    run.current = next_runnable();
    run.fibers[run.current].awaited = NULL;
    emulate_switch_last(&run.fibers[run.current].state);
}

// Maps all stacks once. Pages get memory when they are used; guard pages can't be accessed.
static void stacks_map(void)
{
    size_t each = STACK_BYTES + GUARD_BYTES;
    if (run.stacks)
        return;
    run.stacks = mmap(NULL, EMULATE_THREADS_MAX * each, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(run.stacks != MAP_FAILED);
    for (size_t i = 0; i < EMULATE_THREADS_MAX; i++)
        mprotect(run.stacks + i * each, GUARD_BYTES, PROT_NONE);
}

void emulate_threads_begin(const struct emulate_program *program, unsigned n_threads)
{
    assert(n_threads > 0 && n_threads <= EMULATE_THREADS_MAX && n_threads % WARP == 0 && !run.active);
    stacks_map();
    run.n_threads = n_threads;
    run.program = *program;
    run.active = true;
    run.counts.launch++;
    run.counts.block = 0;
}

void emulate_launches_end(void)
{
    run.counts.n_ended = run.counts.launch;
}

void emulate_threads_end(void)
{
    run.active = false;
}

void emulate_threads_run(struct emulate_shape grid, struct emulate_shape block, unsigned char *shared,
                         size_t shared_bytes)
{
    run.shared.bytes = shared;
    run.shared.size = shared_bytes;
    for (unsigned i = 0; i < run.n_threads; i++) {
        struct fiber *fiber = &run.fibers[i];
        fiber->seen = (struct emulate_fiber){{i, 0, 0}, block, {run.n_threads, 1, 1}, grid, shared};
        fiber->awaited = NULL;
        fiber->ended = false;
        fiber->n_barriers = fiber->n_warp_syncs = fiber->n_fences = 0;
        emulate_switch_prepare(&fiber->state,
                               run.stacks + (size_t)i * (STACK_BYTES + GUARD_BYTES) + GUARD_BYTES,
                               STACK_BYTES - i % STACK_SHIFTS * STACK_SHIFT_BYTES, fiber_main, fiber);
    }
    for (unsigned warp = 0; warp < run.n_threads / WARP; warp++)
        run.warps[warp].meeting = (struct emulate_event){0},
        run.warps[warp].order = (struct emulate_order){0};
    run.block = (struct emulate_event){0};
    memset(run.named, 0, sizeof run.named);
    run.n_ended = 0;
    run.counts.block++;
    resume_fiber(&run.caller, run.reverse ? run.n_threads - 1 : 0);
}

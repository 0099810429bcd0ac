// wgmma of emulated kernels (PTX ISA 8, asynchronous warpgroup-level matrix instructions).
//
// All 128 threads of a warpgroup issue an operation together. Operands in registers are copied at the issue.
// b is read, and the sums are computed, as late as possible: when no thread can run and one waits for the
// operation. So a store to b between issue and wait changes the sums. The operation completes for all four
// warps at once, so one thread can announce for all that b is free. From the issue to the thread's own wait
// its d holds NaNs.
//
// wgmma_fence is required before a thread's first wgmma and after each wait. The ISA requires it only if
// registers of the wgmma were accessed since, which the emulation cannot know.
#include "gpu/emulation/order.h"
#include "gpu/emulation/run.h"

#include <assert.h>
#include <string.h>

enum {
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * EMULATE_WARP,
    GROUPS_MAX = EMULATE_THREADS_MAX / GROUP_THREADS,
    IN_FLIGHT_MAX = 64, // operations per warpgroup, and committed groups per thread
    ACCUMULATORS_MAX = 16,
    SUMS_MAX = 128, // sums of a thread in one operation
    ITEMS = 16,     // items in a row of b
};

// A thread's d, as used by operations that the thread has not waited for.
struct accumulator {
    float *d;
    int n, n_operations;
    float sums[SUMS_MAX];
};

struct operation {
    struct emulate_event done; // first member
    int n_issued;              // threads that issued it; 0: unused
    uint64_t rows;
    int n_rows;
    bool bfloat, performed;
    int n_left;                               // threads that have not waited for it
    struct emulate_clock *warps[GROUP_WARPS]; // joined clocks of each warp's threads at the issue
    uint32_t n_barriers;                      // the maximum number that these threads had passed
    struct {
        uint32_t a[4];
        struct accumulator *accumulator;
    } threads[GROUP_THREADS];
};

struct issuer {
    unsigned n_issued, n_done, n_commits;
    unsigned ends[IN_FLIGHT_MAX]; // n_issued at each commit
    bool fenced;
    struct accumulator accumulators[ACCUMULATORS_MAX];
};

static struct issuer issuers[EMULATE_THREADS_MAX];
static struct operation operations[GROUPS_MAX][IN_FLIGHT_MAX];
static uint32_t times[GROUPS_MAX]; // actor time of the warpgroup's last performed operation
static bool is_used;               // the running block uses wgmma

void emulate_wgmma_begin(void)
{
    if (!is_used)
        return;
    is_used = false;
    memset(times, 0, sizeof times);
    for (unsigned i = 0; i < EMULATE_THREADS_MAX; i++) { // the previous block may have had more threads
        issuers[i].n_issued = issuers[i].n_done = issuers[i].n_commits = 0;
        issuers[i].fenced = false;
    }
}

void emulate_wgmma_thread_ends(unsigned thread)
{
    assert(issuers[thread].n_done == issuers[thread].n_issued &&
           "a thread ended before its wgmma were committed and waited for");
}

// --- Accumulators ---

static void fill_with_nans(float *d, int n)
{
    memset(d, 0xFF, (size_t)n * sizeof *d);
}

static bool is_filled_with_nans(const float *d, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &d[i], sizeof bits);
        if (bits != 0xFFFFFFFFu)
            return false;
    }
    return true;
}

static struct accumulator *accumulator_of(struct issuer *issuer, float *d, int n)
{
    struct accumulator *unused = NULL;
    for (struct accumulator *at = issuer->accumulators; at < issuer->accumulators + ACCUMULATORS_MAX; at++) {
        if (at->n_operations == 0) {
            unused = at;
            continue;
        }
        if (at->d == d && at->n == n) {
            assert(is_filled_with_nans(d, n) && "an accumulator is stored to before the wait for its wgmma");
            return at;
        }
        assert((d + n <= at->d || at->d + at->n <= d) && "accumulators of unlike wgmma overlap");
    }
    assert(unused && "too many accumulators in flight");
    unused->d = d;
    unused->n = n;
    memcpy(unused->sums, d, (size_t)n * sizeof *d);
    fill_with_nans(d, n);
    return unused;
}

static void release_accumulator(struct accumulator *accumulator)
{
    if (--accumulator->n_operations > 0)
        return;
    assert(is_filled_with_nans(accumulator->d, accumulator->n) &&
           "an accumulator is stored to before the wait for its wgmma");
    memcpy(accumulator->d, accumulator->sums, (size_t)accumulator->n * sizeof *accumulator->d);
}

// --- Descriptors: as on the device, but with the offset from `shared_base` as address ---

static unsigned char *shared_base(void)
{
    unsigned char *shared = emulate_block_now().shared;
    return shared - (uintptr_t)shared % 1024;
}

static const uint64_t FIELDS = (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
enum { ADDRESS_FIELD = 0x3FFF };

uint64_t emulate_wgmma_rows(const void *shared)
{
    struct emulate_block block = emulate_block_now();
    assert((uintptr_t)shared % 1024 == 0 && "rows of a wgmma are not aligned to 1024 bytes");
    assert((const unsigned char *)shared >= block.shared &&
           (const unsigned char *)shared < block.shared + block.shared_bytes &&
           "rows of a wgmma are outside of dynamic shared memory");
    return (uint64_t)((const unsigned char *)shared - shared_base()) >> 4 | FIELDS;
}

// The 128-byte swizzle: bits 4..6 of the address are XORed with bits 7..9.
static void load_rows(const struct operation *operation, const struct emulate_asynchronous *by, uint16_t *b)
{
    struct emulate_block block = emulate_block_now();
    size_t first = (size_t)(operation->rows & ADDRESS_FIELD) << 4;
    const unsigned char *base = shared_base();
    for (int row = 0; row < operation->n_rows; row++)
        for (int piece = 0; piece < 2; piece++) {
            size_t at = first + (size_t)row * 128 + (size_t)piece * 16;
            at ^= (at >> 7 & 7) << 4;
            const unsigned char *bytes = base + at;
            assert(bytes >= block.shared && bytes + 16 <= block.shared + block.shared_bytes &&
                   "rows of a wgmma are outside of dynamic shared memory");
            emulate_watch_asynchronous(by, bytes, 16, EMULATE_LOADS);
            memcpy(b + row * ITEMS + piece * 8, bytes, 16);
        }
}

// Orders the load after everything that the four warps had seen at the issue. Accesses after a wait are
// ordered after the load.
static void watch_and_load_rows(struct operation *operation, uint16_t *b)
{
    unsigned group = (unsigned)((operation - &operations[0][0]) / IN_FLIGHT_MAX);
    unsigned actor = EMULATE_ACTOR_WGMMA + group;
    struct emulate_clock *seen = emulate_clock_create();
    emulate_clock_join(seen, operation->warps[0]);
    for (int warp = 1; warp < GROUP_WARPS; warp++)
        emulate_clock_meet(seen, operation->warps[warp]);
    struct emulate_asynchronous by = {actor, ++times[group], operation->n_barriers, seen, false};
    load_rows(operation, &by, b);
    emulate_clock_destroy(seen);
    if (operation->warps[0])
        operation->warps[0]->times[actor] = by.time;
}

static void perform_operation(struct operation *operation)
{
    uint16_t b[2 * SUMS_MAX * ITEMS];
    watch_and_load_rows(operation, b);
    uint32_t a[GROUP_THREADS][4];
    float *sums[GROUP_THREADS];
    for (int thread = 0; thread < GROUP_THREADS; thread++) {
        memcpy(a[thread], operation->threads[thread].a, sizeof a[thread]);
        sums[thread] = operation->threads[thread].accumulator->sums;
    }
    emulate_mma_rows(sums, (const uint32_t(*)[4])a, GROUP_WARPS, b, operation->n_rows, operation->bfloat);
    operation->performed = true;
    operation->done.generation++;
}

static struct operation *operation_of(const struct emulate_event *event)
{
    uintptr_t at = (uintptr_t)event, first = (uintptr_t)operations;
    return at >= first && at < first + sizeof operations ? (struct operation *)at : NULL;
}

bool emulate_wgmma_perform(const struct emulate_event *event)
{
    struct operation *operation = operation_of(event);
    if (!operation || operation->n_issued < GROUP_THREADS)
        return false;
    perform_operation(operation);
    return true;
}

void emulate_wgmma_print(const struct emulate_event *event)
{
    const struct operation *operation = operation_of(event);
    if (operation)
        emulate_report("wgmma: %d of %d threads issued it\n", operation->n_issued, GROUP_THREADS);
}

// --- Instructions ---

void emulate_wgmma_fence(void)
{
    unsigned kind = 1;
    (void)emulate_warp_exchange(&kind, sizeof kind);
    issuers[emulate_block_now().thread].fenced = true;
    is_used = true;
    emulate_order_start();
}

void emulate_wgmma(float *d, const uint32_t a[4], uint64_t rows, int n_rows, bool bfloat)
{
    struct emulate_block block = emulate_block_now();
    struct issuer *issuer = &issuers[block.thread];
    unsigned group = block.thread / GROUP_THREADS, in_group = block.thread % GROUP_THREADS;
    assert((group + 1) * GROUP_THREADS <= block.n_threads && "wgmma by less than a warpgroup");
    assert(emulate_capability_now() >= 90 && "wgmma needs compute capability 9.0");
    assert(issuer->fenced && "no wgmma_fence() before the first wgmma, or after a wait");
    assert((rows & ~(uint64_t)ADDRESS_FIELD) == FIELDS && (rows & 7) % 2 == 0 && (rows >> 3 & 7) == 0 &&
           "a wgmma's descriptor is none of 16 items of 8 rows");
    struct {
        uint64_t rows;
        int n_rows, bfloat;
    } mine = {rows, n_rows, bfloat};
    const unsigned char *all = (const unsigned char *)emulate_warp_exchange(&mine, sizeof mine);
    assert(memcmp(all, &mine, sizeof mine) == 0 && "a warp's lanes issue unlike wgmma");
    struct operation *operation = &operations[group][issuer->n_issued % IN_FLIGHT_MAX];
    assert(operation->n_issued < GROUP_THREADS && "too many wgmma in flight");
    if (operation->n_issued == 0) {
        operation->rows = rows;
        operation->n_rows = n_rows;
        operation->bfloat = bfloat;
        operation->performed = false;
        operation->n_left = GROUP_THREADS;
        for (int warp = 0; warp < GROUP_WARPS; warp++)
            operation->warps[warp] = emulate_clock_create();
        operation->n_barriers = 0;
    }
    assert(operation->rows == rows && operation->n_rows == n_rows && operation->bfloat == bfloat &&
           "a warpgroup's warps issue unlike wgmma");
    struct accumulator *accumulator = accumulator_of(issuer, d, n_rows / 2);
    accumulator->n_operations++;
    operation->threads[in_group].accumulator = accumulator;
    memcpy(operation->threads[in_group].a, a, sizeof operation->threads[in_group].a);
    operation->n_issued++;
    if (operation->n_barriers < block.n_barriers)
        operation->n_barriers = block.n_barriers;
    emulate_clock_release(operation->warps[in_group / EMULATE_WARP], block.thread);
    issuer->n_issued++;
}

void emulate_wgmma_commit(void)
{
    unsigned kind = 2;
    (void)emulate_warp_exchange(&kind, sizeof kind);
    struct issuer *issuer = &issuers[emulate_block_now().thread];
    issuer->ends[issuer->n_commits++ % IN_FLIGHT_MAX] = issuer->n_issued;
}

void emulate_wgmma_wait(int n_left)
{
    unsigned kind = 3;
    (void)emulate_warp_exchange(&kind, sizeof kind);
    struct emulate_block block = emulate_block_now();
    struct issuer *issuer = &issuers[block.thread];
    issuer->fenced = false;
    if (issuer->n_commits <= (unsigned)n_left)
        return;
    unsigned end = issuer->ends[(issuer->n_commits - 1 - (unsigned)n_left) % IN_FLIGHT_MAX];
    while (issuer->n_done != end) {
        struct operation *operation =
            &operations[block.thread / GROUP_THREADS][issuer->n_done % IN_FLIGHT_MAX];
        if (!operation->performed)
            emulate_wait_for(&operation->done);
        for (int warp = 0; warp < GROUP_WARPS; warp++)
            emulate_clock_join(emulate_order_now(block.thread), operation->warps[warp]);
        release_accumulator(operation->threads[block.thread % GROUP_THREADS].accumulator);
        if (--operation->n_left == 0) {
            operation->n_issued = 0;
            for (int warp = 0; warp < GROUP_WARPS; warp++)
                emulate_clock_destroy(operation->warps[warp]);
        }
        issuer->n_done++;
    }
}

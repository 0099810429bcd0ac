// That races of kernels are found in either order of threads, and that what CUDA orders is let alone.
#include "gpu/kernels/kernel.h"

#include "gpu/emulation/races.h"

// cmocka wants these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

extern "C" {
#include <cmocka.h>
}
#include <stdint.h>
#include <stdlib.h>

// A stream where everything runs at once.
extern "C" void emulated_stream_submit(void *, struct emulated_work *work)
{
    assert_non_null(work);
    work->run(work);
    free(work);
}

static unsigned n_threads = 64;
static int n_races;
static struct emulate_race first_race;

// Is called in a kernel's place, but is none.
__attribute__((no_sanitize("thread"))) static void count_race(const struct emulate_race *race)
{
    if (n_races++ == 0)
        first_race = *race;
}

// The synchronization of a block's threads between storing an item and loading each other's.
enum order { NOTHING, BARRIER, WARP_BARRIER, SHUFFLE };

static __global__ void pass_on(enum order order, int distance, int *out)
{
    __shared__ int items[64];
    int thread = (int)threadIdx.x;
    items[thread] = thread;
    if (order == BARRIER)
        __syncthreads();
    else if (order == WARP_BARRIER)
        __syncwarp();
    else if (order == SHUFFLE)
        (void)__shfl_xor_sync(0xFFFFFFFFu, thread, 1);
    out[thread] = items[(thread + distance) % 64];
}

// Loads before stores, as where memory is used again.
static __global__ void use_again(enum order order, int *out)
{
    __shared__ int items[64];
    int thread = (int)threadIdx.x;
    items[thread] = thread;
    __syncthreads();
    int item = items[thread ^ 1];
    if (order == BARRIER)
        __syncthreads();
    else if (order == WARP_BARRIER)
        __syncwarp();
    else if (order == SHUFFLE)
        item = __shfl_xor_sync(0xFFFFFFFFu, item, 1);
    items[thread] = item;
    out[thread] = item;
}

static __global__ void copy_ahead(bool waits_first, const int *from, int *out)
{
    int *items = (int *)dynamic_shared();
    int thread = (int)threadIdx.x;
    copy_async_16(items + 4 * thread, from + 4 * thread, true);
    copy_async_commit();
    if (waits_first)
        copy_async_wait<0>();
    __syncthreads();
    out[thread] = items[(4 * thread + 4) % 256];
    copy_async_wait<0>();
}

static __global__ void pass_to_next_block(int *items, int *out)
{
    if (threadIdx.x == 0)
        items[blockIdx.x] = 1;
    if (threadIdx.x == 0)
        out[blockIdx.x] = blockIdx.x > 0 ? items[blockIdx.x - 1] : 0;
}

static __global__ void count_atomically(int *count, int *own)
{
    __shared__ int here;
    if (threadIdx.x == 0)
        here = 0;
    __syncthreads();
    atomicAdd(&here, 1);
    atomicAdd(count, 1);
    __syncthreads();
    own[blockIdx.x * 64 + threadIdx.x] = here;
}

// Two warpgroups multiply by rows that one thread copies to two stages. The last part of a stage they load
// themselves.
enum fault {
    NO_FAULT,
    LOADS_BEFORE_COPY,
    MULTIPLIES_BEFORE_COPY,
    FREES_BEFORE_PRODUCT,
    FREES_BEFORE_LOADS,
    STORES_BEFORE_PRODUCT,
};

enum { GROUPS = 2, STAGES = 2, STEPS = 5, COPIED_BYTES = 8 * 128 + 256, STAGE_BYTES = 2048 };

static __global__ void consume_stages(enum fault fault, const unsigned char *from, float *out)
{
    __shared__ uint64_t full[STAGES], empty[STAGES];
    unsigned char *stages = dynamic_shared();
    stages += -(uintptr_t)stages & 1023;
    int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], GROUPS * 5); // warps that load, groups that multiply
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (thread >= GROUPS * 128) {
        for (int i = 0; i < STEPS && thread % 32 == 0; i++) {
            if (i >= STAGES)
                barrier_wait(&empty[i % STAGES], (i / STAGES - 1) % 2);
            barrier_expect_bytes(&full[i % STAGES], COPIED_BYTES);
            copy_bulk(stages + i % STAGES * STAGE_BYTES, from + i * COPIED_BYTES, COPIED_BYTES,
                      &full[i % STAGES]);
        }
        return;
    }
    float sums[4] = {}, sum = 0;
    for (int i = 0; i < STEPS; i++) {
        const uint32_t a[4] = {0x3C003C00u, 0, 0x3C003C00u, 0};
        unsigned char *stage = stages + i % STAGES * STAGE_BYTES;
        const float *items = (const float *)(stage + 8 * 128);
        if (fault == LOADS_BEFORE_COPY && i == 0)
            sum += items[thread % 64];
        wgmma_fence();
        if (fault == MULTIPLIES_BEFORE_COPY && thread < 128) {
            wgmma<8, false>(sums, a, wgmma_rows(stage));
            barrier_wait(&full[i % STAGES], i / STAGES % 2);
        } else {
            barrier_wait(&full[i % STAGES], i / STAGES % 2);
            wgmma<8, false>(sums, a, wgmma_rows(stage));
        }
        wgmma_commit();
        if (fault != FREES_BEFORE_LOADS)
            sum += items[thread % 64];
        __syncwarp();
        if (thread % 32 == 0)
            barrier_arrive(&empty[i % STAGES]);
        if (fault == FREES_BEFORE_LOADS)
            sum += items[thread % 64];
        if (fault == FREES_BEFORE_PRODUCT && thread % 128 == 0)
            barrier_arrive(&empty[i % STAGES]);
        if (fault == STORES_BEFORE_PRODUCT && thread == 0)
            stage[0] = 1;
        wgmma_wait<0>();
        if (fault != FREES_BEFORE_PRODUCT && thread % 128 == 0)
            barrier_arrive(&empty[i % STAGES]);
    }
    out[thread] = sum + sums[0];
}

// Rows stored by the threads themselves.
static __global__ void store_rows(bool fence, bool meet, float *out)
{
    unsigned char *rows = dynamic_shared();
    rows += -(uintptr_t)rows & 1023;
    int thread = (int)threadIdx.x;
    ((uint64_t *)rows)[thread] = 0x3C003C003C003C00u;
    if (fence)
        shared_fence_async();
    if (meet)
        barrier_named(3, 128);
    const uint32_t a[4] = {0x3C003C00u, 0, 0x3C003C00u, 0};
    float sums[4] = {};
    wgmma_fence();
    wgmma<8, false>(sums, a, wgmma_rows(rows));
    wgmma_commit();
    wgmma_wait<0>();
    out[thread] = sums[0];
}

// Warps 0 and 1 pass items on, by one barrier or two.
static __global__ void pass_by_name(bool both_ways, int *out)
{
    __shared__ int items[32];
    int thread = (int)threadIdx.x;
    for (int i = 0; i < 2; i++) {
        if (thread < 32)
            items[thread] = thread;
        barrier_named(1, 64);
        if (thread >= 32)
            out[thread] = items[63 - thread];
        if (both_ways)
            barrier_named(2, 64);
    }
}

static __global__ void make_items(int *items)
{
    launch_wait();
    items[threadIdx.x] = 1;
}

// What a thread touches before launch_wait.
enum early { WAITS, LOADS_EARLY, STORES_EARLY, ADDS_EARLY, COPIES_EARLY, COPIES_BULK_EARLY, LOADS_OTHER };

static __global__ void touch_early(enum early early, int *made, int *other, int *out)
{
    __shared__ uint64_t full;
    int thread = (int)threadIdx.x, item = 0, *shared = (int *)dynamic_shared();
    if (thread == 0) {
        barrier_init(&full, 1);
        barrier_init_fence();
    }
    __syncthreads();
    shared[128 + thread] = thread; // the block's own memory
    if (early == LOADS_EARLY)
        item = made[thread];
    else if (early == LOADS_OTHER)
        item = other[thread];
    else if (early == STORES_EARLY)
        out[thread] = 1;
    else if (early == ADDS_EARLY)
        atomicAdd(&out[0], 1);
    else if (early == COPIES_EARLY && thread < 16)
        copy_async_16(shared + 4 * thread, made + 4 * thread, true);
    else if (early == COPIES_BULK_EARLY && thread == 0) {
        barrier_expect_bytes(&full, 256);
        copy_bulk(shared, made, 256, &full);
    }
    launch_wait();
    if (early == COPIES_BULK_EARLY)
        barrier_wait(&full, 0);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    if (early != ADDS_EARLY)
        out[thread] = made[thread] + item + shared[128 + thread];
}

template <auto kernel, typename... A> static int races_of(unsigned n_blocks, A... arguments)
{
    int most = 0;
    for (int reverse = 0; reverse < 2; reverse++) {
        n_races = 0;
        emulate_reverse(reverse != 0);
        launch<kernel>({n_blocks, 1, 1, n_threads, 5120}, NULL, arguments...);
        emulate_reverse(false);
        if (reverse)
            assert_int_equal(n_races > 0, most > 0); // whichever runs first
        most = n_races > most ? n_races : most;
    }
    return most;
}

static void threads_of_a_block_need_a_barrier(void **)
{
    int out[64];
    for (int distance = 1; distance < 64; distance += 31) { // mostly within a warp; all in the other one
        assert_true(races_of<pass_on>(1, NOTHING, distance, out) > 0);
        assert_int_equal(first_race.before == EMULATE_STORES || first_race.now == EMULATE_STORES, 1);
        assert_true(races_of<pass_on>(1, WARP_BARRIER, distance, out) > 0);
        assert_int_equal(races_of<pass_on>(1, BARRIER, distance, out), 0);
    }
    assert_int_equal(races_of<pass_on>(1, NOTHING, 0, out), 0);
}

static void lanes_of_a_warp_need_one_too_and_a_shuffle_is_none(void **)
{
    int out[64];
    assert_true(races_of<use_again>(1, NOTHING, out) > 0);
    assert_true(races_of<use_again>(1, SHUFFLE, out) > 0);
    assert_int_equal(races_of<use_again>(1, WARP_BARRIER, out), 0);
    assert_int_equal(races_of<use_again>(1, BARRIER, out), 0);
}

static void a_copy_is_ordered_by_waiting_and_then_a_barrier(void **)
{
    alignas(16) int from[256] = {0};
    int out[64];
    assert_true(races_of<copy_ahead>(1, false, from, out) > 0);
    assert_int_equal(races_of<copy_ahead>(1, true, from, out), 0);
}

static void blocks_of_a_launch_have_no_order(void **)
{
    int items[3] = {0}, out[3 * 64];
    assert_true(races_of<pass_to_next_block>(3, items, out) > 0);
    assert_int_not_equal(first_race.block_before, first_race.block_now);
    assert_int_equal(races_of<pass_to_next_block>(1, items, out), 0);
}

static void atomic_operations_are_no_race_among_themselves(void **)
{
    int count = 0, own[3 * 64];
    assert_int_equal(races_of<count_atomically>(3, &count, own), 0);
    assert_int_equal(count, 2 * 3 * 64);
}

static void phases_of_barriers_order_copies_and_products(void **)
{
    static const struct {
        enum fault fault;
        enum emulate_access before, now;
    } tried[] = {
        {LOADS_BEFORE_COPY, EMULATE_LOADS, EMULATE_STORES},
        {MULTIPLIES_BEFORE_COPY, EMULATE_STORES, EMULATE_LOADS},
        {FREES_BEFORE_PRODUCT, EMULATE_LOADS, EMULATE_STORES},
        {FREES_BEFORE_LOADS, EMULATE_LOADS, EMULATE_STORES},
        {STORES_BEFORE_PRODUCT, EMULATE_LOADS, EMULATE_STORES},
    };
    alignas(16) static unsigned char from[STEPS * COPIED_BYTES];
    static float out[2 * GROUPS * 128];
    n_threads = GROUPS * 128 + 32;
    assert_int_equal(races_of<consume_stages>(2, NO_FAULT, from, out), 0);
    for (const auto &of : tried)
        assert_true(races_of<consume_stages>(1, of.fault, from, out) > 0);
    n_threads = 64;
}

static void wgmma_loads_what_was_stored_before_a_fence_and_a_barrier(void **)
{
    float out[128];
    n_threads = 128;
    assert_int_equal(races_of<store_rows>(1, true, true, out), 0);
    assert_true(out[0] == 16.0f);
    assert_true(races_of<store_rows>(1, false, true, out) > 0);
    assert_true(races_of<store_rows>(1, true, false, out) > 0);
    n_threads = 64;
}

static void before_launch_wait_nothing_is_stored_and_nothing_loaded_that_a_launch_stored(void **)
{
    static const struct {
        enum early early;
        bool is_reported;
    } tried[] = {{WAITS, false},       {LOADS_EARLY, true},       {STORES_EARLY, true}, {ADDS_EARLY, true},
                 {COPIES_EARLY, true}, {COPIES_BULK_EARLY, true}, {LOADS_OTHER, false}};
    alignas(16) int made[64] = {0}, other[64] = {0}, out[64] = {0};
    for (const auto &of : tried)
        for (int reverse = 0; reverse < 2; reverse++)
            for (int border = 0; border < 2; border++) {
                bool loads = of.early != STORES_EARLY && of.early != ADDS_EARLY;
                n_races = 0;
                emulate_reverse(reverse != 0);
                launch_overlapped<make_items>({1, 1, 1, 64, 0}, NULL, made);
                if (border) // a copy, say: what was stored before may be loaded
                    emulate_launches_end();
                launch_overlapped<touch_early>({1, 1, 1, 64, 1024}, NULL, of.early, made, other, out);
                emulate_reverse(false);
                assert_int_equal(n_races > 0, of.is_reported && !(border && loads));
                assert_true(n_races == 0 || first_race.early);
            }
}

static void a_launch_that_does_not_overlap_begins_after_all_before_it(void **)
{
    int made[64] = {0}, out[64] = {0};
    n_races = 0;
    launch_overlapped<make_items>({1, 1, 1, 64, 0}, NULL, made);
    launch<make_items>({1, 1, 1, 64, 0}, NULL, out);
    launch_overlapped<touch_early>({1, 1, 1, 64, 1024}, NULL, LOADS_EARLY, made, made, out);
    assert_int_equal(n_races, 0);
    launch_overlapped<touch_early>({1, 1, 1, 64, 1024}, NULL, LOADS_EARLY, out, made, made);
    assert_true(n_races > 0 && first_race.early); // `out` is the latest one's
}

static void named_barriers_order_those_that_meet(void **)
{
    int out[64];
    assert_int_equal(races_of<pass_by_name>(1, true, out), 0);
    assert_true(races_of<pass_by_name>(1, false, out) > 0);
}

int main()
{
    emulate_races_report_to(count_race);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_block_need_a_barrier),
        cmocka_unit_test(lanes_of_a_warp_need_one_too_and_a_shuffle_is_none),
        cmocka_unit_test(a_copy_is_ordered_by_waiting_and_then_a_barrier),
        cmocka_unit_test(blocks_of_a_launch_have_no_order),
        cmocka_unit_test(atomic_operations_are_no_race_among_themselves),
        cmocka_unit_test(phases_of_barriers_order_copies_and_products),
        cmocka_unit_test(wgmma_loads_what_was_stored_before_a_fence_and_a_barrier),
        cmocka_unit_test(named_barriers_order_those_that_meet),
        cmocka_unit_test(before_launch_wait_nothing_is_stored_and_nothing_loaded_that_a_launch_stored),
        cmocka_unit_test(a_launch_that_does_not_overlap_begins_after_all_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

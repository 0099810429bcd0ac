// That races of kernels are found in either order of threads, and that what CUDA orders is let alone.
#include "gpu/kernel.h"

#include "gpu/emulate_races.h"

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

template <auto kernel, typename... A> static int races_of(unsigned n_blocks, A... arguments)
{
    int most = 0;
    for (int reverse = 0; reverse < 2; reverse++) {
        n_races = 0;
        emulate_reverse(reverse != 0);
        launch<kernel>({n_blocks, 1, 1, 64, 1024}, NULL, arguments...);
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

int main()
{
    emulate_races_report_to(count_race);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_block_need_a_barrier),
        cmocka_unit_test(lanes_of_a_warp_need_one_too_and_a_shuffle_is_none),
        cmocka_unit_test(a_copy_is_ordered_by_waiting_and_then_a_barrier),
        cmocka_unit_test(blocks_of_a_launch_have_no_order),
        cmocka_unit_test(atomic_operations_are_no_race_among_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

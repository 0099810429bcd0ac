// The language of kernels on the CPU: warp operations against plain loops, what the documents say of
// fragments' layouts, and that the faults it is there to find are found.
#include "gpu/kernels/kernel.h"
#include "tests/support/random.h"

// cmocka wants these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

extern "C" {
#include <cmocka.h>
}
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *fault; // of the last launch

// A stream where everything runs at once that a device would run.
extern "C" void emulated_stream_submit(void *, struct emulated_work *work)
{
    assert_non_null(work);
    fault = work->fault;
    if (!fault)
        work->run(work);
    free(work);
}

static uint64_t seed = 5;

static __global__ void note_last(unsigned *last)
{
    if (threadIdx.x == 0)
        *last = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

static void launches_are_bounded_as_on_a_device(void **)
{
    static const struct {
        struct launch_shape shape;
        const char *fault;
    } launches[] = {
        {{1, 1, 1, 32, 0}, NULL},
        {{70000, 1, 1, 32, 0}, NULL},
        {{1, 65535, 1, 32, 0}, NULL},
        {{1, 1, 65535, 32, 0}, NULL},
        {{1, 1, 1, 1024, 0}, NULL},
        {{0, 1, 1, 32, 0}, "an empty launch"},
        {{1, 0, 1, 32, 0}, "an empty launch"},
        {{1, 1, 0, 32, 0}, "an empty launch"},
        {{1, 1, 1, 0, 0}, "an empty launch"},
        {{1, 65536, 1, 32, 0}, "a launch of too many blocks"},
        {{1, 1, 65536, 32, 0}, "a launch of too many blocks"},
        {{1, 1, 1, 1056, 0}, "a launch of too many threads"},
    };
    for (const auto &tried : launches) {
        unsigned last = 0;
        launch<note_last>(tried.shape, NULL, &last);
        if (tried.fault)
            assert_string_equal(fault, tried.fault);
        else
            assert_null(fault);
        assert_int_equal(last, tried.fault
                                   ? 0
                                   : tried.shape.blocks_x * tried.shape.blocks_y * tried.shape.blocks_z - 1);
    }
}

static __global__ void sum_block(const float *items, float *sums, int *order)
{
    __shared__ float parts[4];
    float x = items[blockIdx.x * blockDim.x + threadIdx.x];
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
    int place = atomicAdd(&order[0], 1);
    order[1 + blockIdx.x * blockDim.x + threadIdx.x] = place;
}

static void threads_meet_in_shuffles_and_barriers_in_either_order(void **)
{
    float items[3 * 128], sums[3];
    for (float &item : items)
        item = random_float(&seed);
    for (int reverse = 0; reverse < 2; reverse++) {
        int order[1 + 3 * 128] = {0};
        emulate_reverse(reverse != 0);
        launch<sum_block>({3, 1, 1, 128, 0}, NULL, items, sums, order);
        emulate_reverse(false);
        for (int block = 0; block < 3; block++) {
            double exact = 0;
            for (int i = 0; i < 128; i++)
                exact += (double)items[block * 128 + i];
            assert_float_equal(sums[block], (float)exact, 1e-5f);
        }
        assert_int_equal(order[0], 3 * 128);
    }
}

static __global__ void multiply_fragments(const uint16_t *a, const uint16_t *b, float *d, bool bfloat)
{
    int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    uint32_t fragment_a[4], fragment_b[2];
    float sum[4];
    for (int i = 0; i < 4; i++)
        memcpy(&fragment_a[i], a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8, 4);
    for (int i = 0; i < 2; i++)
        memcpy(&fragment_b[i], b + g * 16 + 2 * t + i * 8, 4);
    for (int i = 0; i < 4; i++)
        sum[i] = d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    bfloat ? mma_bfloat(sum, fragment_a, fragment_b) : mma_half(sum, fragment_a, fragment_b);
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

static void a_product_of_fragments_is_the_product_of_the_matrices(void **)
{
    for (int bfloat = 0; bfloat < 2; bfloat++) {
        uint16_t a[16 * 16], b[8 * 16]; // b by columns
        float d[16 * 8], expected[16 * 8];
        for (uint16_t &item : a)
            item = bfloat ? emulate_bfloat(random_float(&seed)) : emulate_half((double)random_float(&seed));
        for (uint16_t &item : b)
            item = bfloat ? emulate_bfloat(random_float(&seed)) : emulate_half((double)random_float(&seed));
        for (int i = 0; i < 16 * 8; i++) {
            d[i] = random_float(&seed);
            double sum = (double)d[i];
            for (int k = 0; k < 16; k++) {
                uint16_t x = a[i / 8 * 16 + k], y = b[i % 8 * 16 + k];
                sum += bfloat ? (double)__uint_as_float((uint32_t)x << 16) *
                                    (double)__uint_as_float((uint32_t)y << 16)
                              : (double)emulate_half_float(x) * (double)emulate_half_float(y);
            }
            expected[i] = (float)sum;
        }
        launch<multiply_fragments>({1, 1, 1, 32, 0}, NULL, a, b, d, bfloat != 0);
        for (int i = 0; i < 16 * 8; i++)
            assert_float_equal(d[i], expected[i], 1e-6f);
    }
}

// One row of products 2^power[k] (0: none) and an addend, as the tensor cores of two capabilities add them.
struct sum_case {
    float addend, sums[2]; // of 9.0 and 8.0
    struct {
        int k, power, sign;
    } products[4];
};

static const struct sum_case sum_cases[] = {
    // 25 bits below the largest are kept by one, 24 by the other; what is below is dropped, whatever its sign
    {1.0f, {1.0f, 1.0f}, {{0, -26, 1}, {1, -26, 1}, {2, -26, 1}, {3, -26, 1}}},
    {1.0f, {1.0f + 0x1p-23f, 1.0f}, {{0, -25, 1}, {1, -25, 1}, {2, -25, 1}, {3, -25, 1}}},
    {1.0f, {1.0f + 0x1p-22f, 1.0f + 0x1p-22f}, {{0, -24, 1}, {1, -24, 1}, {2, -24, 1}, {3, -24, 1}}},
    {-1.0f, {-1.0f, -1.0f}, {{0, -26, 1}, {1, -26, 1}, {2, -26, 1}, {3, -26, 1}}},
    // the sum is truncated, not rounded
    {1.0f, {1.0f, 1.0f}, {{0, -24, 1}, {1, -25, 1}}},
    {1.0f, {0x1.fffffep-1f, 0x1.fffffep-1f}, {{0, -24, -1}}},
    // what cancels is exact before it is lost: the large ones are in one group of 8
    {0x1p-20f, {0x1p-20f, 0x1p-20f}, {{0, 4, 1}, {1, 4, -1}}},
    {0x1p-22f, {0.0f, 0.0f}, {{0, 4, 1}, {1, 4, -1}}},
    // in two groups of 8, on 8.0, the first sum is rounded to float32 before the second cancels its largest
    // term
    {0.0f, {0x1p-19f, 0x1p-19f}, {{0, 4, 1}, {1, -19, 1}, {8, 4, -1}}},
    {0.0f, {0x1p-20f, 0.0f}, {{0, 4, 1}, {1, -20, 1}, {8, 4, -1}}},
    {0.0f, {0x1p-21f, 0.0f}, {{0, 4, 1}, {1, -21, 1}, {8, 4, -1}}},
    {0.0f, {0.0f, 0.0f}, {{0, 0, 1}, {9, 0, -1}}},
};

static uint16_t half_power(int power)
{
    return emulate_half(ldexp(1.0, power));
}

static void sums_are_truncated_as_on_the_device_of_the_capability(void **)
{
    for (const sum_case &tried : sum_cases)
        for (int way = 0; way < 2; way++) {
            uint16_t a[16 * 16] = {0}, b[8 * 16] = {0};
            float d[16 * 8] = {0};
            d[3 * 8 + 5] = tried.addend;
            for (const auto &product : tried.products)
                if (product.sign) { // 2^power of two halves
                    int first = product.power / 2;
                    a[3 * 16 + product.k] = half_power(first) | (product.sign < 0 ? 0x8000 : 0);
                    b[5 * 16 + product.k] = half_power(product.power - first);
                }
            emulate_capability(way ? 80 : 90);
            launch<multiply_fragments>({1, 1, 1, 32, 0}, NULL, a, b, d, false);
            emulate_capability(90);
            assert_memory_equal(&d[3 * 8 + 5], &tried.sums[way], sizeof(float));
        }
}

static void special_values_go_through_a_sum(void **)
{
    uint16_t a[16 * 16] = {0}, b[8 * 16] = {0};
    float d[16 * 8] = {0};
    a[0] = 0x7C00, b[0] = 0x3C00; // row 0: infinity times 1; row 1: NaN; row 2: infinity times 0 in column 1
    a[16] = 0x7E00;
    a[2 * 16] = 0x7C00;
    d[4 * 8] = INFINITY, d[5 * 8] = 0x1p-149f;
    launch<multiply_fragments>({1, 1, 1, 32, 0}, NULL, a, b, d, false);
    assert_true(isinf(d[0]) && isnan(d[8]) && isinf(d[16]) && isnan(d[17]) && isinf(d[32]));
    assert_true(d[40] == 0x1p-149f && d[48] == 0.0f);
}

static __global__ void copy_pieces(const uint32_t *from, uint32_t *early, uint32_t *late)
{
    unsigned char *shared = dynamic_shared();
    uint32_t *mine = (uint32_t *)shared + threadIdx.x * 8;
    copy_async_16(mine, from + threadIdx.x * 4, true);
    copy_async_commit();
    copy_async_16(mine + 4, from, false);
    copy_async_commit();
    early[threadIdx.x] = mine[0];
    copy_async_wait<1>();
    late[threadIdx.x * 2] = mine[3];
    late[threadIdx.x * 2 + 1] = mine[4];
    copy_async_wait<0>();
    late[threadIdx.x * 2 + 1] += mine[4];
}

static void a_copy_arrives_when_it_is_waited_for(void **)
{
    alignas(16) uint32_t from[32 * 4];
    uint32_t early[32], late[64];
    for (uint32_t i = 0; i < 32 * 4; i++)
        from[i] = i;
    launch<copy_pieces>({1, 1, 1, 32, 32 * 32}, NULL, from, early, late);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(early[i], 0xFFFFFFFFu); // still what the block found
        assert_int_equal(late[2 * i], 4 * i + 3);
        assert_int_equal(late[2 * i + 1], 0xFFFFFFFFu); // the second group came only later, as zeros
    }
}

// What a kernel of wgmma, bulk copies and mbarriers does wrong.
enum misuse {
    NO_MISUSE,
    NO_WAIT_FOR_COPY,
    NO_WAIT_FOR_PRODUCT,
    STORES_BEFORE_WAIT,
    FREES_BEFORE_WAIT,
    COPIES_WITHOUT_WAIT,
    NOBODY_COPIES,
    NOBODY_FREES,
    NO_COMMIT,
    NO_FENCE,
    ONE_WARP_LESS,
    ONE_LANE_LESS,
    UNLIKE_ROWS,
    SECOND_WARP_FIRST,
    TOUCHES_SUMS,
    COPIES_8_BYTES,
    COPIES_FROM_8_BYTES_ON,
    ROWS_NOT_ALIGNED,
    ARRIVES_TWICE,
    NO_INIT,
    NO_INIT_FENCE,
    BAD_PARITY,
    EXPECTS_LESS,
};

enum { STEPS = 5, STAGES = 2, CONSUMERS = 128 };

// d[n_rows / 2][128 threads] of 64 x 64 steps: a [steps][4][128][4], b [steps][n_rows][64] swizzled. Warp 4
// copies b's rows to the stages. Consumers are a warpgroup.
template <int n_rows, bool bfloat>
static __global__ void multiply_in_stages(enum misuse misuse, const uint32_t *a, const uint16_t *b, float *d)
{
    __shared__ uint64_t full[STAGES], empty[STAGES];
    constexpr uint32_t stage_bytes = n_rows * 128;
    unsigned char *stages = dynamic_shared();
    stages += -(uintptr_t)stages & 1023;
    int thread = (int)threadIdx.x;
    if (misuse == SECOND_WARP_FIRST)
        thread = (thread + CONSUMERS) % (CONSUMERS + 32);
    if (thread == 0 && misuse != NO_INIT) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], 4);
        }
        if (misuse != NO_INIT_FENCE)
            barrier_init_fence();
    }
    __syncthreads();
    if (thread >= CONSUMERS) {
        if (thread % 32 > 0 || misuse == NOBODY_COPIES)
            return;
        for (int i = 0; i < STEPS; i++) {
            uint64_t *to = &full[i % STAGES];
            unsigned char *stage = stages + i % STAGES * stage_bytes;
            if (i >= STAGES && misuse != COPIES_WITHOUT_WAIT)
                barrier_wait(&empty[i % STAGES], misuse == BAD_PARITY ? 2 : (i / STAGES - 1) % 2);
            const unsigned char *from = (const unsigned char *)b + (size_t)i * stage_bytes;
            barrier_expect_bytes(to, misuse == EXPECTS_LESS ? stage_bytes - 16 : stage_bytes);
            if (misuse == COPIES_8_BYTES)
                copy_bulk(stage, from, 8, to);
            if (misuse == COPIES_FROM_8_BYTES_ON)
                copy_bulk(stage, from + 8, 16, to);
            copy_bulk(stage, from, stage_bytes / 2, to);
            copy_bulk(stage + stage_bytes / 2, from + stage_bytes / 2, stage_bytes / 2, to);
        }
        return;
    }
    float sums[n_rows / 2] = {}, early = 0;
    for (int i = 0; i < STEPS; i++) {
        unsigned char *stage = stages + i % STAGES * stage_bytes;
        if (misuse != NO_WAIT_FOR_COPY)
            barrier_wait(&full[i % STAGES], i / STAGES % 2);
        if (misuse != NO_FENCE)
            wgmma_fence();
        uint64_t rows = wgmma_rows(stage + (misuse == ROWS_NOT_ALIGNED ? 128 : 0));
        if (misuse == UNLIKE_ROWS && thread >= 96)
            rows += 2;
        for (int step = 0; step < 4; step++) {
            if ((misuse == ONE_WARP_LESS && thread >= 96) || (misuse == ONE_LANE_LESS && thread == 5))
                continue;
            wgmma<n_rows, bfloat>(sums, a + ((i * 4 + step) * CONSUMERS + thread) * 4, rows + 2 * step);
        }
        if (misuse != NO_COMMIT)
            wgmma_commit();
        if (misuse == FREES_BEFORE_WAIT && thread % 32 == 0)
            barrier_arrive(&empty[i % STAGES]);
        if (misuse == STORES_BEFORE_WAIT)
            stage[thread] = 0;
        if (misuse == TOUCHES_SUMS)
            sums[0] = 0;
        if (misuse != NO_WAIT_FOR_PRODUCT || i == STEPS - 1)
            wgmma_wait<0>();
        else
            wgmma_wait<1>();
        wgmma_hold(sums);
        if (misuse == NO_WAIT_FOR_PRODUCT && i == 0)
            early = sums[0];
        if (misuse != FREES_BEFORE_WAIT && misuse != NOBODY_FREES && thread % 32 == 0)
            barrier_arrive(&empty[i % STAGES]);
        if (misuse == ARRIVES_TWICE && thread < 64)
            barrier_arrive(&full[(i + 1) % STAGES]);
    }
    for (int i = 0; i < n_rows / 2; i++)
        d[i * CONSUMERS + thread] = sums[i] + early;
}

// The same by mma, from b [steps][n_rows][64] as it is.
template <int n_rows, bool bfloat>
static __global__ void multiply_by_fragments(const uint32_t *a, const uint16_t *b, float *d)
{
    int thread = (int)threadIdx.x, lane = thread % 32;
    for (int n = 0; n < n_rows / 8; n++) {
        float sums[4] = {};
        for (int step = 0; step < STEPS * 4; step++) {
            const uint16_t *row =
                b + (step / 4 * n_rows + n * 8 + lane / 4) * 64 + step % 4 * 16 + lane % 4 * 2;
            uint32_t fragment[2];
            memcpy(&fragment[0], row, 4);
            memcpy(&fragment[1], row + 8, 4);
            const uint32_t *rows = a + (step * CONSUMERS + thread) * 4;
            bfloat ? mma_bfloat(sums, rows, fragment) : mma_half(sums, rows, fragment);
        }
        for (int i = 0; i < 4; i++)
            d[(n * 4 + i) * CONSUMERS + thread] = sums[i];
    }
}

template <int n_rows, bool bfloat> struct wgmma_data {
    alignas(16) uint16_t b[STEPS * n_rows * 64], swizzled[STEPS * n_rows * 64];
    uint32_t a[STEPS * 4 * CONSUMERS * 4];
    float d[n_rows / 2 * CONSUMERS], expected[n_rows / 2 * CONSUMERS];

    static uint16_t random_item()
    {
        return bfloat ? emulate_bfloat(random_float(&seed)) : emulate_half((double)random_float(&seed));
    }

    wgmma_data()
    {
        for (uint32_t &items : a)
            items = (uint32_t)random_item() << 16 | random_item();
        for (int row = 0; row < STEPS * n_rows; row++)
            for (int i = 0; i < 64; i++) {
                b[row * 64 + i] = random_item();
                swizzled[row * 64 + (i / 8 ^ row % 8) * 8 + i % 8] = b[row * 64 + i];
            }
        launch<multiply_by_fragments<n_rows, bfloat>>({1, 1, 1, CONSUMERS, 0}, NULL, a, b, expected);
    }

    bool multiply(enum misuse misuse, bool reverse)
    {
        memset(d, 0xFF, sizeof d);
        emulate_reverse(reverse);
        launch<multiply_in_stages<n_rows, bfloat>>({1, 1, 1, CONSUMERS + 32, STAGES * n_rows * 128 + 1024},
                                                   NULL, misuse, a, swizzled, d);
        emulate_reverse(false);
        return memcmp(d, expected, sizeof d) == 0;
    }
};

template <int n_rows, bool bfloat> static void compare_wgmma()
{
    wgmma_data<n_rows, bfloat> *data = new wgmma_data<n_rows, bfloat>;
    assert_true(data->multiply(NO_MISUSE, false));
    assert_true(data->multiply(NO_MISUSE, true));
    delete data;
}

static void wgmma_in_stages_is_mma_in_either_order(void **)
{
    compare_wgmma<8, false>();
    compare_wgmma<8, true>();
    compare_wgmma<16, false>();
    compare_wgmma<16, true>();
    compare_wgmma<32, false>();
    compare_wgmma<32, true>();
    compare_wgmma<64, false>();
    compare_wgmma<64, true>();
    compare_wgmma<96, false>();
    compare_wgmma<96, true>();
    compare_wgmma<128, false>();
    compare_wgmma<128, true>();
    compare_wgmma<192, false>();
    compare_wgmma<192, true>();
    compare_wgmma<256, false>();
    compare_wgmma<256, true>();
}

static __global__ void do_nothing(void) {}

static void blocks_of_any_size_between_two_with_wgmma_change_nothing(void **)
{
    wgmma_data<64, false> *data = new wgmma_data<64, false>;
    assert_true(data->multiply(NO_MISUSE, false));
    launch<do_nothing>({1, 1, 1, 32, 0}, NULL);
    assert_true(data->multiply(NO_MISUSE, false));
    delete data;
}

// Products with 8 of 16 rows each, of which one is waited for, beside the product with all.
static __global__ void multiply_halves(const uint32_t *a, const uint16_t *b, float *halves, float *whole)
{
    unsigned char *tile = dynamic_shared();
    tile += -(uintptr_t)tile & 1023;
    int thread = (int)threadIdx.x;
    for (int i = thread; i < 16 * 64; i += (int)blockDim.x)
        ((uint16_t *)tile)[i] = b[i];
    shared_fence_async();
    __syncthreads();
    float sums[2][4] = {}, all[8] = {};
    uint64_t rows = wgmma_rows(tile);
    wgmma_fence();
    for (int half = 0; half < 2; half++) {
        wgmma<8, false>(sums[half], a + thread * 4, rows + 64 * half);
        wgmma<8, false>(sums[half], a + (256 + thread) * 4, rows + 64 * half + 2);
        wgmma_commit();
    }
    wgmma_wait<1>();
    for (int i = 0; i < 4; i++)
        halves[i * 256 + thread] = sums[0][i] + (isnan(sums[1][i]) ? 0.0f : 1.0f);
    wgmma_wait<0>();
    for (int i = 0; i < 4; i++)
        halves[(4 + i) * 256 + thread] = sums[1][i];
    wgmma_fence();
    wgmma<16, false>(all, a + thread * 4, wgmma_rows(tile + 1024) - 64);
    wgmma<16, false>(all, a + (256 + thread) * 4, rows + 2);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 8; i++)
        whole[i * 256 + thread] = all[i];
}

static void wgmma_of_one_group_are_waited_for_while_others_are_in_flight(void **)
{
    static float halves[8 * 256], whole[8 * 256];
    wgmma_data<16, false> *data = new wgmma_data<16, false>;
    for (int reverse = 0; reverse < 2; reverse++) {
        emulate_reverse(reverse != 0);
        launch<multiply_halves>({1, 1, 1, 256, 3072}, NULL, data->a, data->b, halves, whole);
        emulate_reverse(false);
        assert_memory_equal(halves, whole, sizeof halves);
    }
    delete data;
}

// What a child process prints before it aborts; if it does not, whether `run` was right.
static void outcome_of_child(bool (*run)(void *context), void *context, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        dprintf(STDERR_FILENO, run(context) ? "right" : "wrong");
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t n_read;
    while ((n_read = read(ends[0], text + n, size - 1 - n)) > 0)
        n += (size_t)n_read;
    text[n] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
}

struct tried_misuse {
    wgmma_data<64, false> *data;
    enum misuse misuse;
    bool reverse;
};

static bool multiply_with_misuse(void *context)
{
    struct tried_misuse *tried = (struct tried_misuse *)context;
    return tried->data->multiply(tried->misuse, tried->reverse);
}

static void misuses_of_wgmma_are_found(void **)
{
    static const struct {
        enum misuse misuse;
        const char *found[2]; // in forward and reverse order
    } tried[] = {
        {NO_MISUSE, {"right", "right"}},
        {NO_WAIT_FOR_COPY, {"more arrivals in a phase", NULL}},
        {NO_WAIT_FOR_PRODUCT, {"wrong", "wrong"}},
        {STORES_BEFORE_WAIT, {"wrong", "wrong"}},
        {FREES_BEFORE_WAIT, {NULL, "wrong"}},
        {COPIES_WITHOUT_WAIT, {"more arrivals in a phase", "completed and was missed"}},
        {NOBODY_COPIES, {"phase 0 lacks 1 of 1 arrivals", "phase 0 lacks 1 of 1 arrivals"}},
        {NOBODY_FREES, {"phase 0 lacks 4 of 4 arrivals", "phase 0 lacks 4 of 4 arrivals"}},
        {NO_COMMIT, {"committed and waited for", "committed and waited for"}},
        {NO_FENCE, {"no wgmma_fence", "no wgmma_fence"}},
        {ONE_WARP_LESS, {"96 of 128 threads issued", "96 of 128 threads issued"}},
        {ONE_LANE_LESS, {"unlike operations", "unlike operations"}},
        {UNLIKE_ROWS, {"issue unlike wgmma", "issue unlike wgmma"}},
        {SECOND_WARP_FIRST, {"less than a warpgroup", "less than a warpgroup"}},
        {TOUCHES_SUMS, {"an accumulator is stored to", "an accumulator is stored to"}},
        {COPIES_8_BYTES, {"not aligned to 16 bytes", "not aligned to 16 bytes"}},
        {COPIES_FROM_8_BYTES_ON, {"not aligned to 16 bytes", "not aligned to 16 bytes"}},
        {ROWS_NOT_ALIGNED, {"not aligned to 1024 bytes", "not aligned to 1024 bytes"}},
        {ARRIVES_TWICE, {"more arrivals in a phase", "completed and was missed"}},
        {NO_INIT, {"not initialized", "not initialized"}},
        {NO_INIT_FENCE, {"not visible", "not visible"}},
        {BAD_PARITY, {"parity is 0 or 1", "parity is 0 or 1"}},
        {EXPECTS_LESS, {"and -16 bytes", "and -16 bytes"}},
    };
    wgmma_data<64, false> *data = new wgmma_data<64, false>;
    for (const auto &of : tried)
        for (int reverse = 0; reverse < 2; reverse++) {
            char text[4096];
            struct tried_misuse misused = {data, of.misuse, reverse != 0};
            outcome_of_child(multiply_with_misuse, &misused, text, sizeof text);
            if (of.found[reverse] && !strstr(text, of.found[reverse]))
                fail_msg("misuse %d, reverse %d: expected %s, got %s", of.misuse, reverse, of.found[reverse],
                         text);
        }
    delete data;
}

// Four warpgroups of consumers, and one of producers that gives them its registers: of 640 threads each has
// 96 at the start, so that 9,216 are given and 8,192 or 12,288 are asked for.
template <int n_registers> static __global__ void share_registers(void)
{
    if (threadIdx.x >= 512)
        registers_lower<24>();
    else
        registers_raise<n_registers>();
}

static bool share_enough_registers(void *)
{
    launch<share_registers<112>>({1, 1, 1, 640, 0}, NULL);
    return true;
}

static bool share_too_many_registers(void *)
{
    launch<share_registers<120>>({1, 1, 1, 640, 0}, NULL);
    return true;
}

static void registers_that_a_block_does_not_have_are_waited_for(void **)
{
    char text[4096];
    outcome_of_child(share_enough_registers, NULL, text, sizeof text);
    assert_string_equal(text, "right");
    outcome_of_child(share_too_many_registers, NULL, text, sizeof text);
    assert_non_null(strstr(text, "are free in the block"));
}

// Warps 1 and 2 pass items in turn; warp 0 has exited.
static __global__ void pass_items(int *out)
{
    __shared__ int items[32];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp == 0)
        return;
    for (int i = 0; i < 3; i++) {
        if (warp == 1)
            items[lane] = lane + i;
        barrier_named(1, 64);
        if (warp == 2)
            out[i * 32 + lane] = items[31 - lane];
        barrier_named(2, 64);
    }
}

static void named_barriers_are_for_some_warps(void **)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        int out[3 * 32];
        emulate_reverse(reverse != 0);
        launch<pass_items>({1, 1, 1, 96, 0}, NULL, out);
        emulate_reverse(false);
        for (int i = 0; i < 3 * 32; i++)
            assert_int_equal(out[i], 31 - i % 32 + i / 32);
    }
}

static void halves_round_to_nearest_even(void **)
{
    for (uint32_t bits = 0; bits < 0x7C00; bits++) { // every finite one, and the middles between neighbours
        double value = (double)emulate_half_float((uint16_t)bits);
        assert_int_equal(emulate_half(value), bits);
        assert_int_equal(emulate_half(-value), bits | 0x8000);
        if (bits < 0x7BFF) {
            double middle = (value + (double)emulate_half_float((uint16_t)(bits + 1))) / 2;
            assert_int_equal(emulate_half(middle), bits + (bits & 1));
            assert_int_equal(emulate_half(nextafter(middle, 1e9)), bits + 1);
        }
    }
    assert_int_equal(emulate_half(65519.996), 0x7BFF);
    assert_int_equal(emulate_half(65520), 0x7C00);
    assert_int_equal(half2_make(NAN, -INFINITY) >> 16, 0xFC00);
    assert_int_equal(bfloat2_make(1.00390625f, 1.01171875f), 0x3F823F80); // both in the middle
    // 1027 - 1024, 1031 / 2 - 1024
    assert_int_equal(half2_fma(0x64076403u, 0x38003C00u, 0xE400E400u), 0xDFF24200u);
    assert_int_equal(half2_add(0x3C003C00u, 0x3C00BC00u), 0x40000000u);
    assert_int_equal(half2_multiply(0x80003C00u, 0x3C004000u), 0x80004000u);
    assert_int_equal(bytes_pick(0x44332211u, 0x88776655u, 0x7140u), 0x88225511u);
    assert_int_equal(half2_low(0x12345678u), 0x56785678u);
    assert_int_equal(half2_high(0x12345678u), 0x12341234u);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_bounded_as_on_a_device),
        cmocka_unit_test(threads_meet_in_shuffles_and_barriers_in_either_order),
        cmocka_unit_test(a_product_of_fragments_is_the_product_of_the_matrices),
        cmocka_unit_test(sums_are_truncated_as_on_the_device_of_the_capability),
        cmocka_unit_test(special_values_go_through_a_sum),
        cmocka_unit_test(a_copy_arrives_when_it_is_waited_for),
        cmocka_unit_test(wgmma_in_stages_is_mma_in_either_order),
        cmocka_unit_test(wgmma_of_one_group_are_waited_for_while_others_are_in_flight),
        cmocka_unit_test(blocks_of_any_size_between_two_with_wgmma_change_nothing),
        cmocka_unit_test(misuses_of_wgmma_are_found),
        cmocka_unit_test(registers_that_a_block_does_not_have_are_waited_for),
        cmocka_unit_test(named_barriers_are_for_some_warps),
        cmocka_unit_test(halves_round_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

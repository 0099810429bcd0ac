// The language of kernels on the CPU: warp operations against plain loops, what the documents say of
// fragments' layouts, and that the faults it is there to find are found.
#include "gpu/kernel.h"
#include "tests/random.h"

// cmocka wants these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

extern "C" {
#include <cmocka.h>
}
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
        cmocka_unit_test(halves_round_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

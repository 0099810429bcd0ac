// Gated products on the device (or emulated): gate, activation and factor in one launch, and the operand of the
// product behind them.
#include "gpu/emulation/emulate.h"
#include "tests/gpu/product_problem.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

#include <math.h>

// Bytes of an operand and its scales, which are freed.
struct operand_bytes {
    size_t n_items, n_scales;
    float *items, *scales;
};

static struct operand_bytes take_operand(const struct activation_operand *operand)
{
    struct operand_bytes bytes = {activation_operand_bytes(operand->n_rows, operand->n_inputs) / 4,
                                  (size_t)operand->n_rows, NULL, NULL};
    bytes.items = floats_of(operand->items, bytes.n_items);
    bytes.scales = floats_of(operand->scales, bytes.n_scales);
    device_free(device, operand->items);
    device_free(device, operand->scales);
    return bytes;
}

static struct activation_operand next_of(const struct product_problem *problem,
                                         enum activation_operand_form form, int32_t n)
{
    size_t bytes = activation_operand_bytes(n, problem->n_outputs);
    struct activation_operand operand = {form,
                                         n,
                                         problem->n_outputs,
                                         device_allocate(device, bytes),
                                         device_allocate(device, (size_t)n * sizeof(float)),
                                         false};
    device_zero(device, operand.items, bytes);
    return operand;
}

TEST(a_gate_in_the_same_launch_gives_the_bytes_of_one_launch_after_the_other)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_Q8_0, TENSOR_BF16};
    static const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_SWIGLU_CLAMPED, ACTIVATION_GELU,
                                                 ACTIVATION_GELU_TANH};
    static const int32_t counts[] = {1, 8, 9, 16, 17, 33, 90, 100}; // each of the kernels
    uint64_t seed = 11;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product_problem problem =
            problem_make(product_tensor(types[t], 2 * 55, 768, FILL_RANDOM, &seed), 100, 2, &seed);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            if (!shapes_are_wide() &&
                i % 4 != (t + i / 4) % 4) // each count of one type, each type with two activations
                continue;
            struct product_launch call = {.activation = kinds[(t + i) % 4]};
            float *expected = compute_gated(&problem, counts[i], call, false);
            float *y = compute_gated(&problem, counts[i], call, true);
            assert_same_rows(&problem, y, expected, counts[i], 0);
            for (int32_t j = 0; j < counts[i] * problem.y_stride; j++) // nothing beside the result
                assert_true(j % problem.y_stride < 55 || y[j] == 0);
            free(expected);
            free(y);
        }
        problem_free(&problem);
    }
}

// Computes n gated rows, or pairs of experts in `order`, with the operand of the GEMM after them.
static void assert_next_operand(const struct product_problem *problem, int32_t n, const int32_t *order,
                                enum activation_operand_form form, struct product_launch call)
{
    struct activation_operand next = next_of(problem, form, n), own = next_of(problem, form, n);
    int32_t *arrivals = device_allocate(device, (size_t)n * sizeof *arrivals);
    device_zero(device, arrivals, (size_t)n * sizeof *arrivals);
    float *expected = compute_gated(problem, n, call, true);
    struct activation_operand_launch make = {own, problem->device_y, problem->y_stride, order, 1};
    launch_activation_operand(device_stream(device), &make);
    struct operand_bytes own_bytes = take_operand(&own);
    call.next = (struct next_operand){next, arrivals};
    float *y = compute_gated(problem, n, call, true), *left = floats_of((const float *)arrivals, (size_t)n);
    struct operand_bytes bytes = take_operand(&next);
    assert_same_rows(problem, y, expected, n, 0);
    assert_memory_equal(bytes.items, own_bytes.items, bytes.n_items * 4);
    assert_memory_equal(bytes.scales, own_bytes.scales, bytes.n_scales * 4);
    for (int32_t i = 0; i < n; i++)
        assert_true(left[i] == 0.0f); // bits of integers: a small one is a number above 0
    void *all[] = {expected, y, left, bytes.items, bytes.scales, own_bytes.items, own_bytes.scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    device_free(device, arrivals);
}

TEST(the_last_block_of_gated_rows_writes_the_next_operand)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q8_0, TENSOR_BF16};
    static const int32_t inputs[] = {768, 256, 3 * 512}; // blocks of 2, 1 and 3 warps
    static const int32_t counts[] = {1, 3, 8, 9, 16};
    uint64_t seed = 18;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product_problem problem =
            problem_make(product_tensor(types[t], 2 * 331, inputs[t], FILL_RANDOM, &seed), 16, 2, &seed);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            if (product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max,
                                 counts[i], 0))
                continue; // should WGMMA_ROWS_LEAST become 1
            if (!shapes_are_wide() && i % 3 != t)
                continue;
            emulate_reverse(i % 2 == 1);
            assert_next_operand(&problem, counts[i], NULL, i % 2 ? OPERAND_BFLOAT : OPERAND_HALF,
                                (struct product_launch){.device.n_multiprocessors = i % 3 ? 2 : 1000});
        }
        emulate_reverse(false);
        problem_free(&problem);
    }
}

// Where an input's item is stored in the operand: gpu/kernels/kernels.h.
static size_t item_place(const struct activation_operand *operand, int32_t row, int32_t input)
{
    int32_t lane = input % 128 / 32, within = input % 32;
    if (!operand->swizzled)
        return (((size_t)(input / 128 * 4 + within / 8) * (size_t)operand->n_rows + (size_t)row) * 4 +
                (size_t)lane) *
                   8 +
               (size_t)(within % 8);
    int32_t fragment = within / 4, half = input / 128 * 2 + fragment / 4,
            piece = (2 * (fragment % 4) + within % 4 / 2) ^ (row % SWIZZLED_ROWS);
    return ((size_t)half * (size_t)swizzled_rows(operand->n_rows) + (size_t)row) * 64 + (size_t)piece * 8 +
           (size_t)(2 * lane + within % 2);
}

static uint16_t bfloat_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// A result's item with the scale of all rows.
static uint16_t item_of(const struct activation_operand *operand, float result)
{
    float largest = operand->form == OPERAND_HALF ? 65504.0f : 0x1.FEp127f,
          item = fminf(fmaxf(result / operand->scale, -largest), largest);
    return operand->form == OPERAND_HALF ? emulate_half((double)item) : bfloat_of(item);
}

// Computes n gated rows, whose blocks write the operand of the GEMM after them with the scale of all rows: its items
// are those of the results (of pairs of experts in `order`), which are not stored. Counts those that were clamped.
static int assert_scaled_operand(const struct product_problem *problem, int32_t n, const int32_t *order,
                                 enum activation_operand_form form, struct product_launch call)
{
    int n_clamped = 0;
    struct activation_operand next = next_of(problem, form, n);
    next.swizzled = product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max,
                                     n, call.n_experts);
    next.scale = product_next_scale(&(struct product_launch){.gated = true,
                                                             .gated_scale = call.gated_scale,
                                                             .parts[0].n_outputs = problem->n_outputs},
                                    form);
    assert_true(next.scale > 0);
    float *expected = compute_gated(problem, n, call, true);
    call.next = (struct next_operand){next, NULL};
    float *y = compute_gated(problem, n, call, true);
    for (int64_t i = 0; i < problem->n_rows * problem->y_stride; i++)
        assert_true(y[i] == 0); // not stored
    struct operand_bytes bytes = take_operand(&next);
    const uint16_t *items = (const uint16_t *)(const void *)bytes.items;
    for (int32_t row = 0; row < n; row++)
        for (int32_t output = 0; output < problem->n_outputs; output++) {
            uint16_t item = items[item_place(&next, row, output)];
            float result = expected[(order ? order[row] : row) * problem->y_stride + output];
            n_clamped += form == OPERAND_HALF && fabsf(result) / next.scale > 65504;
            if (isfinite(result))
                assert_int_equal(item, item_of(&next, result));
            else
                assert_true((item & 0x7FFF) > (form == OPERAND_HALF ? 0x7C00 : 0x7F80)); // NaN
        }
    void *all[] = {expected, y, bytes.items, bytes.scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return n_clamped;
}

static void check_scaled_operands(const int32_t *counts, size_t n_counts)
{
    static const struct {
        enum tensor_type type;
        int32_t n_outputs, n_multiprocessors;
        enum activation_operand_form form;
    } cases[] = {{TENSOR_BF16, 256, 1, OPERAND_BFLOAT},
                 {TENSOR_Q4_K, 128, 1000, OPERAND_HALF},
                 {TENSOR_F16, 384, 1, OPERAND_BFLOAT},
                 {TENSOR_Q8_0, 256, 1, OPERAND_HALF}};
    uint64_t seed = 19;
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        struct product_problem problem =
            problem_make(product_tensor(cases[t].type, 2 * cases[t].n_outputs, 768, FILL_RANDOM, &seed), 130,
                         2, &seed);
        int n_clamped = 0;
        for (int32_t i = 0; i < problem.n_inputs; i++)
            problem.x[3 * problem.x_stride + i] *= 1e25f; // some of its results are infinite
        problem.x[5 * problem.x_stride] = NAN;
        device_free(device, problem.device_x);
        problem.device_x = on_device(problem.x, (size_t)(130 * problem.x_stride) * sizeof(float));
        for (size_t i = 0; i < n_counts; i++) {
            if (!shapes_are_wide() && i % 4 != t)
                continue;
            emulate_reverse((i / 4 + t) % 2 == 1);
            n_clamped += assert_scaled_operand(&problem, counts[i], NULL, cases[t].form,
                                               (struct product_launch){.gated_scale = 0x1p-12f,
                                                                       .device.n_multiprocessors =
                                                                           cases[t].n_multiprocessors});
        }
        assert_true(cases[t].form == OPERAND_BFLOAT || n_clamped > 0);
        emulate_reverse(false);
        problem_free(&problem);
    }
}

TEST(blocks_of_gated_rows_write_an_operand_whose_scale_is_known)
{
    static const int32_t counts[] = {1, 8, 9, 16, 17, 33, 64, 70, 96, 97, 130}; // each of the kernels
    check_scaled_operands(counts, sizeof counts / sizeof *counts);
}

TEST(blocks_without_wgmma_write_it_too)
{
    static const int32_t counts[] = {17, 40, 70, 9}; // tiles of each number of rows
    struct device *own = device;
    struct error error;
    assert_ok(device_open(&device, &(struct device_options){.no_wgmma = true}, &error), &error);
    assert_ok(device_load_kernels(device, &error), &error);
    check_scaled_operands(counts, sizeof counts / sizeof *counts);
    device_close(device);
    device = own;
}

// Few rows each, and more.
TEST(pairs_of_experts_write_an_operand_whose_scale_is_known)
{
    enum { N_ROWS = 60, N_EXPERTS = 3 };
    static const int32_t firsts[][N_EXPERTS + 1] = {{0, 3, 3, 20}, {0, 3, 3, N_ROWS}};
    uint64_t seed = 21;
    struct product_problem problem =
        problem_make(product_tensor(TENSOR_Q4_0, 2 * N_EXPERTS * 128, 256, FILL_RANDOM, &seed), N_ROWS,
                     2 * N_EXPERTS, &seed);
    for (int i = 0; i < 2; i++) {
        int32_t order[N_ROWS], n = firsts[i][N_EXPERTS];
        for (int32_t j = 0; j < n; j++)
            order[j] = (j * 7 + 3) % n;
        int32_t *device_order = on_device(order, sizeof order),
                *device_first = on_device(firsts[i], sizeof firsts[i]);
        assert_scaled_operand(&problem, n, order, i ? OPERAND_HALF : OPERAND_BFLOAT,
                              (struct product_launch){.gated_scale = 0x1p-8f,
                                                      .n_experts = N_EXPERTS,
                                                      .expert_first = device_first,
                                                      .expert_order = device_order});
        device_free(device, device_order);
        device_free(device, device_first);
    }
    problem_free(&problem);
}

TEST(experts_write_the_next_operand_of_their_pairs)
{
    static const int32_t counts[] = {1, 0, 11, 2, 0, 16, 3, 1}; // on average 5 and 12 rows
    enum { N_ROWS = 34, N_EXPERTS = 8 };
    int32_t order[N_ROWS], first[N_EXPERTS + 1] = {0};
    uint64_t seed = 19;
    for (int32_t i = 0; i < N_ROWS; i++)
        order[i] = (i * 7 + 3) % N_ROWS;
    for (int e = 0; e < N_EXPERTS; e++)
        first[e + 1] = first[e] + counts[e];
    assert_int_equal(first[N_EXPERTS], N_ROWS);
    for (int32_t n_experts = N_EXPERTS; n_experts >= 3; n_experts -= 5) {
        struct product_problem problem =
            problem_make(product_tensor(TENSOR_Q4_0, 2 * n_experts * 40, 256, FILL_RANDOM, &seed), N_ROWS,
                         2 * n_experts, &seed);
        int32_t few[] = {0, 16, 19, N_ROWS}, *device_order = on_device(order, sizeof order),
                *device_first =
                    n_experts == N_EXPERTS ? on_device(first, sizeof first) : on_device(few, sizeof few);
        assert_next_operand(&problem, N_ROWS, device_order, OPERAND_HALF,
                            (struct product_launch){.n_experts = n_experts,
                                                    .expert_first = device_first,
                                                    .expert_order = device_order});
        device_free(device, device_order);
        device_free(device, device_first);
        problem_free(&problem);
    }
}

TEST(experts_have_their_own_gates)
{
    enum { N_ROWS = 40, N_EXPERTS = 3 };
    static const int32_t first[N_EXPERTS + 1] = {0, 3, 3, N_ROWS};
    uint64_t seed = 12;
    int32_t order[N_ROWS];
    for (int32_t i = 0; i < N_ROWS; i++)
        order[i] = (i * 7 + 3) % N_ROWS;
    struct product_problem problem =
        problem_make(product_tensor(TENSOR_Q4_0, 2 * N_EXPERTS * 24, 256, FILL_RANDOM, &seed), N_ROWS,
                     2 * N_EXPERTS, &seed);
    int32_t *device_order = on_device(order, sizeof order), *device_first = on_device(first, sizeof first);
    struct product_launch call = {.n_experts = N_EXPERTS,
                                  .expert_first = device_first,
                                  .expert_order = device_order};
    float *expected = compute_gated(&problem, N_ROWS, call, false),
          *y = compute_gated(&problem, N_ROWS, call, true);
    assert_same_rows(&problem, y, expected, N_ROWS, 0);
    free(expected);
    free(y);
    device_free(device, device_order);
    device_free(device, device_first);
    problem_free(&problem);
}

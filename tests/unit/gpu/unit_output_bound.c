// How large results of gated products can be (gpu/output_bound.h): what is computed from the weights against rows that norms
// make, and the one that reaches it.
#include "gpu/output_bound.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

#include <math.h>

enum { N_INPUTS = 768, N_OUTPUTS = 70 };

static struct tensor vector_tensor(const float *items, uint64_t n)
{
    return (struct tensor){.type = TENSOR_F32,
                           .n_dims = 1,
                           .dims = {n, 1, 1, 1},
                           .data = items,
                           .size_bytes = n * sizeof *items};
}

static float *dequantized(const struct tensor *tensor)
{
    size_t n = tensor->dims[0] * tensor_n_rows(tensor);
    float *items = malloc(n * sizeof *items);
    assert_non_null(items);
    tensor_traits(tensor->type)->dequantize(tensor->data, items, n);
    return items;
}

// The output of one row of weights for the row in its own direction, which has the norm's length.
static double output_of_own_direction(const float *w, const float *weight, const float *bias)
{
    double squares = 0, of_bias = 0;
    for (int i = 0; i < N_INPUTS; i++) {
        squares += (double)(w[i] * weight[i]) * (double)(w[i] * weight[i]);
        of_bias += bias ? (double)w[i] * (double)bias[i] : 0;
    }
    return sqrt((double)N_INPUTS * squares) + fabs(of_bias);
}

TEST(bounds_are_reached_by_the_row_in_the_direction_of_the_weights)
{
    static const enum tensor_type types[] = {TENSOR_F32, TENSOR_BF16, TENSOR_Q8_0, TENSOR_Q4_K,
                                             TENSOR_IQ2_XXS};
    float weight[N_INPUTS], bias[N_INPUTS];
    uint64_t seed = 7;
    struct pool *pool;
    struct error error;
    assert_ok(pool_create(&pool, 2, &error), &error);
    for (int i = 0; i < N_INPUTS; i++) {
        weight[i] = 1 + random_float(&seed) * (i % 50 == 0 ? 20.0f : 0.5f);
        bias[i] = random_float(&seed);
    }
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            struct tensor tensor = product_tensor(types[t], N_OUTPUTS, N_INPUTS, FILL_RANDOM, &seed);
            float *w = dequantized(&tensor);
            struct norm_items norm = {weight, with_bias ? bias : NULL, N_INPUTS};
            double most = 0;
            for (int o = 0; o < N_OUTPUTS; o++)
                most = fmax(most, output_of_own_direction(w + (size_t)o * N_INPUTS, weight,
                                                          with_bias ? bias : NULL));
            struct output_bound bound = output_bound_of_weight(&tensor, &norm, pool),
                                alone = output_bound_of_weight(&tensor, &norm, NULL);
            assert_true(fabs((double)bound.largest / most - 1) < 1e-6);
            assert_true(bound.largest == alone.largest && bound.typical == alone.typical);
            free(w);
            free((void *)tensor.data);
        }
    pool_destroy(pool);
}

// No row that a norm makes has a larger one, and rows of the weights' signs come near.
TEST(no_normed_row_exceeds_the_limit)
{
    float weight[N_INPUTS], x[N_INPUTS];
    uint64_t seed = 9;
    struct tensor tensor = product_tensor(TENSOR_Q4_K, N_OUTPUTS, N_INPUTS, FILL_RANDOM, &seed);
    float *w = dequantized(&tensor);
    for (int i = 0; i < N_INPUTS; i++)
        weight[i] = random_float(&seed);
    struct norm_items norm = {weight, NULL, N_INPUTS};
    double limit = (double)output_bound_of_weight(&tensor, &norm, NULL).largest, most = 0;
    for (int trial = 0; trial < 200; trial++) {
        const float *toward = w + (size_t)(trial % N_OUTPUTS) * N_INPUTS;
        double squares = 0;
        for (int i = 0; i < N_INPUTS; i++) {
            x[i] = trial < 100 ? random_float(&seed) : copysignf(1.0f, toward[i] * weight[i]);
            squares += (double)x[i] * (double)x[i];
        }
        double factor = 1 / sqrt(squares / N_INPUTS); // RMS norm without epsilon, the longest
        for (int o = 0; o < N_OUTPUTS; o++) {
            double sum = 0;
            for (int i = 0; i < N_INPUTS; i++)
                sum += (double)w[o * N_INPUTS + i] * (double)weight[i] * (double)x[i] * factor;
            most = fmax(most, fabs(sum));
        }
    }
    assert_true(most <= limit && most > 0.5 * limit);
    free(w);
    free((void *)tensor.data);
}

TEST(further_scales_of_matrices_count)
{
    float scales[] = {1, -4}, weight[N_INPUTS];
    uint64_t seed = 11;
    for (int i = 0; i < N_INPUTS; i++)
        weight[i] = 1;
    struct norm_items norm = {weight, NULL, N_INPUTS};
    struct tensor tensor = product_tensor(TENSOR_Q8_0, N_OUTPUTS, N_INPUTS, FILL_RANDOM, &seed),
                  second = tensor;
    tensor.n_dims = 3;
    tensor.dims[1] = N_OUTPUTS / 2;
    tensor.dims[2] = 2;
    second.dims[1] = N_OUTPUTS / 2;
    second.data = (const char *)tensor.data + N_OUTPUTS / 2 * tensor_row_bytes(&tensor);
    tensor.scales = scales;
    struct output_bound whole = output_bound_of_weight(&tensor, &norm, NULL),
                        half = output_bound_of_weight(&second, &norm, NULL);
    assert_true(whole.largest == 4 * half.largest && whole.typical >= half.typical);
    free((void *)tensor.data);
}

static void check_no_bounds(const struct tensor *tensor, const struct norm_items *norm)
{
    struct output_bound bound = output_bound_of_weight(tensor, norm, NULL);
    assert_true(bound.largest == 0 && bound.typical == 0);
}

TEST(what_is_not_known_has_no_limit)
{
    float weight[N_INPUTS] = {1};
    uint64_t seed = 13;
    struct norm_items norm = {weight, NULL, N_INPUTS}, narrow = {weight, NULL, N_INPUTS / 2};
    struct tensor tensor = product_tensor(TENSOR_F32, N_OUTPUTS, N_INPUTS, FILL_RANDOM, &seed);
    check_no_bounds(&tensor, NULL);
    check_no_bounds(&tensor, &narrow);
    float *items = (float *)tensor.data; // one row's item among good ones
    for (int i = 0; i < 2; i++) {
        items[3 * N_INPUTS] = i ? NAN : INFINITY;
        check_no_bounds(&tensor, &norm);
    }
    items[3 * N_INPUTS] = 1;
    assert_true(output_bound_of_weight(&tensor, &norm, NULL).largest > 0);
    weight[5] = NAN;
    check_no_bounds(&tensor, &norm);
    free((void *)tensor.data);
}

// The median over the rows, each as long as its weights times the norm's median: outliers do not count.
TEST(typical_outputs_are_those_of_most_rows)
{
    float weight[N_INPUTS], items[5 * N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        weight[i] = i < 10 ? -1000.0f : -0.5f;
    static const float of_rows[5] = {0, 100, 3, 4, 5}; // of the median, 4: 4 * sqrt(768) * 0.5 = 55.4
    for (int i = 0; i < 5 * N_INPUTS; i++)
        items[i] = of_rows[i / N_INPUTS];
    struct norm_items norm = {weight, NULL, N_INPUTS};
    struct tensor tensor = vector_tensor(items, N_INPUTS);
    tensor.n_dims = 2;
    tensor.dims[1] = 5;
    assert_true(output_bound_of_weight(&tensor, &norm, NULL).typical == 32);
    tensor.dims[1] = 1; // zeros
    assert_true(output_bound_of_weight(&tensor, &norm, NULL).typical == 0);
}

TEST(a_vector_s_limit_is_its_largest_item)
{
    float items[5000];
    for (int i = 0; i < 5000; i++)
        items[i] = (float)(i % 7);
    items[4321] = -9.5f;
    struct tensor vector = vector_tensor(items, 5000);
    assert_true(output_bound_of_vector(&vector) == 9.5f);
    items[2] = NAN;
    assert_true(isnan(output_bound_of_vector(&vector)));
}

TEST(scales_are_the_least_power_of_2_that_has_room)
{
    static const struct {
        enum activation_kind activation;
        struct output_bound gate, up;
        float scale;
    } cases[] = {
        {ACTIVATION_SILU, {1, 1}, {1, 1}, 0x1p-14f},   // 1 is below 2
        {ACTIVATION_GELU, {300, 1}, {100, 1}, 1},      // 30,000 is below 2^15
        {ACTIVATION_GELU_TANH, {300, 1}, {120, 1}, 2}, // 36,000 is not
        {ACTIVATION_RELU_SQUARED, {200, 1}, {1, 1}, 2},
        {ACTIVATION_SWIGLU_CLAMPED, {1000, 1}, {1000, 1}, 0x1p-9f}, // 7 * 8
        {ACTIVATION_SWIGLU_CLAMPED, {2, 1}, {1, 1}, 0x1p-12f},      // 2 * 2 is not below 4
        {ACTIVATION_SILU, {0, 0}, {1, 1}, 0},
        {ACTIVATION_SILU, {1, 1}, {0, 0}, 0},
        {ACTIVATION_SILU, {NAN, 1}, {1, 1}, 0},
        {ACTIVATION_SWIGLU_CLAMPED, {1, 1}, {NAN, 1}, 0},
        {ACTIVATION_SWIGLU_CLAMPED, {INFINITY, 1}, {1, 1}, 0},
        {ACTIVATION_SILU, {1e38f, 1e38f}, {1e38f, 1e38f}, 0}, // beyond what scales can be
        {ACTIVATION_SILU, {1e-30f, 1e-30f}, {1e-30f, 1e-30f}, 0x1p-100f},
        {ACTIVATION_SILU, {0x1p13f, 1}, {0x1p11f, 1}, 0x1p10f}, // 2^24 times a typical one, and more
        {ACTIVATION_SILU, {0x1p13f, 1}, {0x1p12f, 1}, 0},
        {ACTIVATION_SILU, {0x1p13f, 2}, {0x1p12f, 1}, 0x1p11f},
        {ACTIVATION_SILU, {1, 1}, {1, 0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float scale = output_bound_scale(cases[i].activation, &cases[i].gate, &cases[i].up);
        if (scale != cases[i].scale)
            fail_msg("case %zu: %a, expected %a", i, (double)scale, (double)cases[i].scale);
    }
}

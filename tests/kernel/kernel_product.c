// The product kernels: plain C against exact arithmetic, every fast version against plain C byte for byte.
// `kernel_product --bench [TYPE|all [THREADS]]` measures them instead (product_bench.c).
#include "engine/cpu/product/memory.h"
#include "engine/cpu/product/packed.h"
#include "engine/file/mapped_file.h"
#include "tests/kernel/product_bench.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

#include <math.h>
#include <unistd.h>

static struct product_level levels[PRODUCT_LEVELS];
static struct pool *pool; // of 1 thread

// Rows are computed in passes of up to 96: one test goes past two of them.
enum { ROWS_MAX = 200, EACH_ROWS = 40, PADDING = 7 };

enum x_fill { X_RANDOM, X_ZERO, X_EXTREME, X_HUGE, X_TINY, X_NAN, X_FILLS };

static const char *const x_fill_names[X_FILLS] = {"random", "zero", "extreme", "huge", "tiny", "nan"};

static float x_value(enum x_fill fill, uint64_t *seed)
{
    float value = random_float(seed);
    switch (fill) {
    case X_ZERO:
        return 0;
    case X_EXTREME: // every quant is 127 or -127
        return value < 0 ? -1.0f : 1.0f;
    case X_HUGE:
        return value * 0x1p120f;
    case X_TINY:
        return value * 0x1p-130f;
    case X_NAN:
        return random_bits(seed) % 512 == 0 ? (value < 0 ? NAN : INFINITY) : value;
    default:
        return value * value * value; // a few larger ones in each block
    }
}

// x [ROWS_MAX, n_inputs + PADDING], what is between the rows poisoned.
static float *x_create(int32_t n_inputs, enum x_fill fill, uint64_t *seed)
{
    float *x = malloc(ROWS_MAX * (size_t)(n_inputs + PADDING) * sizeof *x);
    for (int r = 0; r < ROWS_MAX; r++)
        for (int32_t i = 0; i < n_inputs + PADDING; i++)
            x[(int64_t)r * (n_inputs + PADDING) + i] = i < n_inputs ? x_value(fill, seed) : NAN;
    return x;
}

static struct memory_stack memory; // the weights of one test

static struct packed *pack(const struct tensor *tensor)
{
    struct packed *packed;
    struct error error = {0};
    assert_ok(packed_create(&packed, tensor, &memory, pool, &error), &error);
    return packed;
}

static struct prepared prepare_parts(const struct product_level *level, const float *x, int32_t n_rows,
                                     int32_t n_inputs, unsigned forms, int n_parts)
{
    struct prepared prepared;
    struct error error = {0};
    assert_ok(prepared_create(&prepared, n_rows, n_inputs, n_parts, pool_n_threads(pool), &error), &error);
    prepared_set(&prepared, &level->kernels, pool, x, n_inputs + PADDING, n_rows, n_inputs, forms);
    return prepared;
}

static struct prepared prepare_rows(const struct product_level *level, const float *x, int32_t n_rows,
                                    int32_t n_inputs, unsigned forms)
{
    return prepare_parts(level, x, n_rows, n_inputs, forms, 1);
}

// NaNs are equal whatever their sign: which operand's NaN survives is the compiler's choice.
static bool bits_equal(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void exact_product(const struct tensor *tensor, const float *x, int32_t o, double *product,
                          double *x_magnitude, double *term_magnitude)
{
    int32_t n_inputs = (int32_t)tensor->dims[0];
    float *weights = malloc((size_t)n_inputs * sizeof *weights);
    tensor_traits(tensor->type)
        ->dequantize((const uint8_t *)tensor->data + (uint64_t)o * tensor_row_bytes(tensor), weights,
                     (size_t)n_inputs);
    *product = *x_magnitude = *term_magnitude = 0;
    for (int32_t i = 0; i < n_inputs; i++) {
        double block_maximum = 0;
        for (int32_t k = i / PRODUCT_BLOCK * PRODUCT_BLOCK;
             k < n_inputs && k / PRODUCT_BLOCK == i / PRODUCT_BLOCK; k++)
            block_maximum = fmax(block_maximum, fabs((double)x[k]));
        *product += (double)weights[i] * x[i];
        *x_magnitude += fabs((double)weights[i]) * block_maximum;
        *term_magnitude += fabs((double)weights[i] * x[i]);
    }
    free(weights);
}

// An item of x is off by at most half a quant step, absolute maximum / 254, which is the absolute maximum of what
// a second part quantizes; or by a bfloat16's 2^-9 of itself. The rest is float32 rounding, of numbers no larger
// than 64 block maxima a weight (a K-quant's scale and minimum nearly cancel).
static void check_errors(int n_parts)
{
    enum { OUTPUTS = 19, ROWS = 3 };
    uint64_t seed = 1;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        int32_t n_inputs = tensor_traits(*type)->block_items == 1 ? 301 : 512;
        struct tensor tensor = product_tensor(*type, OUTPUTS, n_inputs, FILL_RANDOM, &seed);
        struct packed *packed = pack(&tensor);
        float *x = x_create(n_inputs, X_RANDOM, &seed);
        struct prepared prepared = prepare_parts(&levels[0], x, ROWS, n_inputs, packed_form(packed), n_parts);
        float y[ROWS][OUTPUTS];
        struct product_task task = {packed, NULL, y[0], OUTPUTS};
        product_run(&levels[0].kernels, pool, &task, 1, &prepared);
        for (int r = 0; r < ROWS; r++) {
            for (int o = 0; o < OUTPUTS; o++) {
                double exact, x_magnitude, term_magnitude;
                exact_product(&tensor, x + r * (n_inputs + PADDING), o, &exact, &x_magnitude,
                              &term_magnitude);
                double bound = 64 * 0x1p-23 * x_magnitude;
                if (packed_form(packed) == PRODUCT_QUANTS)
                    bound += x_magnitude / pow(254, n_parts);
                if (packed_form(packed) == PRODUCT_BFLOATS)
                    bound += 0x1p-9 * term_magnitude;
                if (!(fabs(y[r][o] - exact) <= bound))
                    fail_msg("%s row %d output %d: %g, exactly %g, bound %g", tensor_traits(*type)->name, r,
                             o, (double)y[r][o], exact, bound);
            }
        }
        prepared_finish(&prepared);
        packed_destroy(packed);
        free(x);
        free((void *)tensor.data);
    }
}

TEST(plain_product_is_within_its_error_bound_of_exact_arithmetic)
{
    check_errors(1);
}

TEST(with_activations_of_16_bits_the_error_bound_is_254_times_smaller)
{
    check_errors(2);
}

// One type, shape and filling: each fast level's y for 1..ROWS_MAX rows, padding included, against plain C's.
static void compare_levels(enum tensor_type type, int32_t n_outputs, int32_t n_inputs, enum product_fill fill,
                           enum x_fill x_fill, const int *row_counts, uint64_t *seed)
{
    int64_t y_stride = n_outputs + PADDING;
    size_t y_items = ROWS_MAX * (size_t)y_stride;
    struct tensor tensor = product_tensor(type, n_outputs, n_inputs, fill, seed);
    struct packed *packed = pack(&tensor);
    float *x = x_create(n_inputs, x_fill, seed);
    float *bias = malloc((size_t)n_outputs * sizeof *bias);
    float *expected = malloc(2 * y_items * sizeof *expected), *y = expected + y_items;
    for (int32_t o = 0; o < n_outputs; o++)
        bias[o] = random_float(seed);
    for (const int *n_rows = row_counts; *n_rows; n_rows++) {
        const float *maybe_bias = *n_rows % 2 ? bias : NULL;
        for (int l = 0; l < PRODUCT_LEVELS; l++) {
            if (!levels[l].present || !levels[l].kernels.product[type])
                continue;
            struct prepared prepared = prepare_rows(&levels[l], x, *n_rows, n_inputs, packed_form(packed));
            float *out = l == 0 ? expected : y;
            for (size_t i = 0; i < y_items; i++)
                out[i] = 12345.0f;
            levels[l].kernels.product[type](packed, 0, packed->n_panels, &prepared, 0, *n_rows, out, y_stride,
                                            maybe_bias);
            prepared_finish(&prepared);
            if (!bits_equal(out, expected, y_items))
                fail_msg("%s %s: %d x %d, %d rows, weights filled %d, x %s: not plain C's bytes",
                         levels[l].name, tensor_traits(type)->name, n_outputs, n_inputs, *n_rows, fill,
                         x_fill_names[x_fill]);
            for (int r = 0; r < ROWS_MAX; r++)
                for (int64_t o = r < *n_rows ? n_outputs : 0; o < y_stride; o++)
                    if (out[r * y_stride + o] != 12345.0f)
                        fail_msg("%s %s: wrote beside its rows", levels[l].name, tensor_traits(type)->name);
        }
    }
    free(expected);
    free(bias);
    free(x);
    packed_destroy(packed);
    free((void *)tensor.data);
}

// Activations of 16 bits: y of the rows [begin, begin + n_rows) of x.
static void run_parts(const struct product_level *level, const struct packed *packed, const float *x,
                      int32_t n_rows, const float *bias, float *y, int64_t y_stride)
{
    const struct packed_shape shape = packed_shape(packed);
    struct prepared prepared = prepare_parts(level, x, n_rows, shape.n_inputs, packed_form(packed), 2);
    struct product_task task = {packed, bias, y, y_stride};
    product_run(&level->kernels, pool, &task, 1, &prepared);
    prepared_finish(&prepared);
}

// Each level's y against plain C's; each row alone against the row among others.
static void compare_parts(enum tensor_type type, int32_t n_outputs, int32_t n_inputs, float scale,
                          enum x_fill x_fill, uint64_t *seed)
{
    static const int row_counts[] = {ROWS_MAX, 65, 7, 4, 3, 2, 1};
    int64_t y_stride = n_outputs + PADDING;
    size_t y_items = ROWS_MAX * (size_t)y_stride;
    struct tensor tensor = product_tensor(type, n_outputs, n_inputs, FILL_RANDOM, seed);
    struct packed *packed = pack(&tensor);
    packed->scale = scale;
    float *x = x_create(n_inputs, x_fill, seed);
    float *bias = malloc((size_t)n_outputs * sizeof *bias);
    float *expected = calloc(2 * y_items, sizeof *expected), *y = expected + y_items;
    for (int32_t o = 0; o < n_outputs; o++)
        bias[o] = random_float(seed);
    run_parts(&levels[0], packed, x, ROWS_MAX, bias, expected, y_stride);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
        for (int l = 0; l < PRODUCT_LEVELS; l++) {
            const int first = i % 2 ? ROWS_MAX - row_counts[i] : 0;
            const size_t n_items = (size_t)row_counts[i] * (size_t)y_stride;
            if (!levels[l].present || !levels[l].kernels.product[type])
                continue;
            memset(y, 0, y_items * sizeof *y);
            run_parts(&levels[l], packed, x + (int64_t)first * (n_inputs + PADDING), row_counts[i], bias, y,
                      y_stride);
            if (!bits_equal(y, expected + first * y_stride, n_items))
                fail_msg("%s %s: %d x %d, %d rows, x %s: not plain C's bytes of the whole batch",
                         levels[l].name, tensor_traits(type)->name, n_outputs, n_inputs, row_counts[i],
                         x_fill_names[x_fill]);
            for (size_t at = n_items; at < y_items; at++)
                assert_true(y[at] == 0.0f);
        }
    free(expected);
    free(bias);
    free(x);
    packed_destroy(packed);
    free((void *)tensor.data);
}

// Plain C takes minutes under the address sanitizer. Many rows are in the test of every number of rows.
#ifdef __SANITIZE_ADDRESS__
#define ROW_COUNTS(first, second, third, fourth) first, third
#else
#define ROW_COUNTS(...) __VA_ARGS__
#endif

// More than one pass of panels and of rows, a scale of the whole weight, infinities and NaNs in x.
TEST(activations_of_16_bits_give_the_same_bytes_at_every_level_alone_and_in_a_batch)
{
    uint64_t seed = 7;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        const bool is_float = tensor_traits(*type)->block_items == 1;
        compare_parts(*type, 19, is_float ? 301 : 768, 1.0f, X_RANDOM, &seed);
        compare_parts(*type, 213, 256, 0.375f, X_RANDOM, &seed);
    }
    for (int fill = 0; fill < X_FILLS; fill++)
        compare_parts(TENSOR_Q4_K, 40, 512, 1.0f, (enum x_fill)fill, &seed);
}

// Outputs: five whole panels and a part, so that tiles of two and of three panels leave some.
TEST(fast_product_gives_plain_c_s_bytes_for_every_number_of_rows)
{
    static const int many[] = {63, 64, 65, 96, 97, 130, ROWS_MAX};
    enum { MANY = sizeof many / sizeof *many };
    int row_counts[EACH_ROWS + MANY + 1] = {0};
    for (int i = 0; i < EACH_ROWS; i++)
        row_counts[i] = i + 1;
    memcpy(row_counts + EACH_ROWS, many, sizeof many);
    uint64_t seed = 2;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++)
        compare_levels(*type, 85, 256, FILL_RANDOM, X_RANDOM, row_counts, &seed);
}

TEST(fast_product_gives_plain_c_s_bytes_for_every_shape)
{
    static const int row_counts[] = {ROW_COUNTS(1, 5, 33, 101), 0};
    static const int32_t outputs[] = {1, 15, 16, 17, 31, 32, 33, 64, 100};
    static const int32_t inputs[][4] = {
        {1, 2, 33, 4160}, {32, 96, 1088, 4160}, {64, 192, 1088, 4160}, {256, 768, 2304, 4352}};
    uint64_t seed = 3;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        uint32_t items = tensor_traits(*type)->block_items;
        for (size_t i = 0; i < 4; i++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
                if (i < 2 || o % 4 == 3) // the long ones with a few numbers of outputs
                    compare_levels(*type, outputs[o],
                                   inputs[items == 1    ? 0
                                          : items == 32 ? 1
                                          : items == 64 ? 2
                                                        : 3][i],
                                   FILL_RANDOM, X_RANDOM, row_counts, &seed);
    }
}

TEST(fast_product_gives_plain_c_s_bytes_for_worst_case_values)
{
    static const int row_counts[] = {ROW_COUNTS(1, 3, 8, 40), 0};
    uint64_t seed = 4;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++)
        for (int fill = FILL_RANDOM; fill <= FILL_INFINITE; fill++)
            for (int x_fill = 0; x_fill < X_FILLS; x_fill++)
                compare_levels(*type, 56, 512, (enum product_fill)fill, (enum x_fill)x_fill, row_counts,
                               &seed);
}

// Item i of the only row, as bfloat16.
static uint32_t bfloat_at(const struct prepared *prepared, const struct product_kernels *kernels, int i)
{
    if (kernels->bfloats_apart) {
        uint32_t word = prepared->bfloats[i * PREPARED_ROWS];
        assert_int_equal(word & 0xFFFF, 0);
        return word >> 16;
    }
    uint32_t pair = prepared->bfloats[i / 2 * PREPARED_ROWS];
    return i % 2 == 0 ? pair >> 16 : pair & 0xFFFF;
}

TEST(quantizing_gives_plain_c_s_bytes)
{
    enum { N_MAX = 300 };
    uint64_t seed = 5;
    for (int32_t n = 1; n <= N_MAX; n++) {
        enum x_fill fill = (enum x_fill)(n % X_FILLS);
        float *x = malloc((size_t)n * sizeof *x); // its end is watched by the address sanitizer
        for (int32_t i = 0; i < n; i++)
            x[i] = n % 7 ? x_value(fill, &seed)
                         : (float)(random_bits(&seed) % 255) - 127.0f + 0.5f * (float)(i % 2);
        struct prepared expected = {0};
        for (int l = 0; l < PRODUCT_LEVELS; l++) {
            if (!levels[l].present)
                continue;
            struct prepared prepared;
            struct error error = {0};
            assert_ok(prepared_create(&prepared, 1, n, 1, 1, &error), &error);
            prepared_set(&prepared, &levels[l].kernels, pool, x, n, 1, n, PRODUCT_QUANTS | PRODUCT_BFLOATS);
            if (l == 0) {
                expected = prepared;
                continue;
            }
            for (int32_t b = 0; b < prepared.n_blocks; b++) {
                const struct prepared_block *block = &prepared.blocks[b], *plain = &expected.blocks[b];
                assert_memory_equal(block->quants[0], plain->quants[0], PRODUCT_BLOCK);
                assert_true(bits_equal(&block->scales[0], &plain->scales[0], 1));
                assert_int_equal(block->minus_sums[0], plain->minus_sums[0]);
                assert_int_equal(block->minus_half_sums[0][0], plain->minus_half_sums[0][0]);
                assert_int_equal(block->minus_half_sums[1][0], plain->minus_half_sums[1][0]);
                for (int i = b * PRODUCT_BLOCK; i < (b + 1) * PRODUCT_BLOCK; i++)
                    assert_int_equal(bfloat_at(&prepared, &levels[l].kernels, i),
                                     bfloat_at(&expected, &levels[0].kernels, i));
            }
            prepared_finish(&prepared);
        }
        prepared_finish(&expected);
        free(x);
    }
}

// 2^-126, the smallest normal number, less 2^-152 is rounded to it and stays; 2^-127 becomes 0.
TEST(sum_of_bfloats_is_rounded_before_it_is_flushed)
{
    enum { OUTPUTS = 2, INPUTS = 32, ROWS = 5 };
    const float first = 0x1p-63f, second[OUTPUTS] = {0x1p-76f, 0x1p-51f}, expected[OUTPUTS] = {0x1p-126f, 0};
    uint16_t weights[OUTPUTS][INPUTS] = {{0}};
    float x[ROWS][INPUTS + PADDING] = {{0}};
    for (int o = 0; o < OUTPUTS; o++) {
        memcpy(&weights[o][0], (const char *)&first + 2, 2);
        memcpy(&weights[o][1], (const char *)&second[o] + 2, 2);
    }
    for (int r = 0; r < ROWS; r++) {
        x[r][0] = 0x1p-63f;
        x[r][1] = -0x1p-76f;
    }
    struct tensor tensor = {.name = TEXT("tiny"),
                            .type = TENSOR_BF16,
                            .n_dims = 2,
                            .dims = {INPUTS, OUTPUTS, 1, 1},
                            .size_bytes = sizeof weights,
                            .data = (const uint8_t *)weights};
    struct packed *packed = pack(&tensor);
    for (int l = 0; l < PRODUCT_LEVELS; l++) {
        if (!levels[l].present || !levels[l].kernels.product[TENSOR_BF16])
            continue;
        struct prepared prepared = prepare_rows(&levels[l], x[0], ROWS, INPUTS, PRODUCT_BFLOATS);
        float y[ROWS][OUTPUTS];
        levels[l].kernels.product[TENSOR_BF16](packed, 0, 1, &prepared, 0, ROWS, y[0], OUTPUTS, NULL);
        for (int r = 0; r < ROWS; r++)
            if (memcmp(y[r], expected, sizeof expected) != 0)
                fail_msg("%s: %a and %a", levels[l].name, (double)y[r][0], (double)y[r][1]);
        prepared_finish(&prepared);
    }
    packed_destroy(packed);
}

// The same rows, many at once over pools of several threads and one by one.
TEST(row_does_not_depend_on_the_other_rows_or_the_threads)
{
    enum { OUTPUTS = 200, INPUTS = 512 };
    uint64_t seed = 6;
    float *x = x_create(INPUTS, X_RANDOM, &seed);
    float *alone = malloc(2 * EACH_ROWS * OUTPUTS * sizeof *alone), *together = alone + EACH_ROWS * OUTPUTS;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        struct tensor tensor = product_tensor(*type, OUTPUTS, INPUTS, FILL_RANDOM, &seed);
        struct packed *packed = pack(&tensor);
        for (int l = 0; l < PRODUCT_LEVELS; l++) {
            if (!levels[l].present || !levels[l].kernels.product[*type])
                continue;
            for (int r = 0; r < EACH_ROWS; r++) {
                struct prepared one =
                    prepare_rows(&levels[l], x + r * (INPUTS + PADDING), 1, INPUTS, packed_form(packed));
                struct product_task task = {packed, NULL, alone + r * OUTPUTS, OUTPUTS};
                product_run(&levels[l].kernels, pool, &task, 1, &one);
                prepared_finish(&one);
            }
            for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
                struct pool *threads;
                struct error error = {0};
                assert_ok(pool_create(&threads, n_threads, &error), &error);
                struct prepared all = prepare_rows(&levels[l], x, EACH_ROWS, INPUTS, packed_form(packed));
                struct product_task task = {packed, NULL, together, OUTPUTS};
                product_run(&levels[l].kernels, threads, &task, 1, &all);
                assert_memory_equal(together, alone, EACH_ROWS * OUTPUTS * sizeof *alone);
                prepared_finish(&all);
                pool_destroy(threads);
            }
        }
        packed_destroy(packed);
        free((void *)tensor.data);
    }
    free(alone);
    free(x);
}

// Kernels that multiply tiles of 16 rows get pieces that begin and end within tiles.
TEST(piece_of_rows_has_the_bytes_of_the_whole_product)
{
    enum { OUTPUTS = 40, INPUTS = 768 };
    static const int32_t begins[] = {0, 4, 12, 16, 52, 100}, ends[] = {ROWS_MAX, 199, 180, 176, 133};
    enum { N_BEGINS = sizeof begins / sizeof *begins, N_ENDS = sizeof ends / sizeof *ends };
    static float whole[ROWS_MAX][OUTPUTS], y[ROWS_MAX][OUTPUTS];
    uint64_t seed = 16;
    float *x = x_create(INPUTS, X_RANDOM, &seed);
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        struct tensor tensor = product_tensor(*type, OUTPUTS, INPUTS, FILL_RANDOM, &seed);
        struct packed *packed = pack(&tensor);
        for (int l = 1; l < PRODUCT_LEVELS; l++) {
            if (!levels[l].present || !levels[l].kernels.product[*type])
                continue;
            struct prepared prepared = prepare_rows(&levels[l], x, ROWS_MAX, INPUTS, packed_form(packed));
            struct product_task task = {packed, NULL, whole[0], OUTPUTS};
            product_run(&levels[l].kernels, pool, &task, 1, &prepared);
            for (int i = 0; i < N_BEGINS * N_ENDS; i++) {
                const int32_t begin = begins[i % N_BEGINS], end = ends[i / N_BEGINS];
                memset(y, 0, sizeof y);
                levels[l].kernels.product[*type](packed, 0, packed->n_panels, &prepared, begin, end, y[0],
                                                 OUTPUTS, NULL);
                assert_memory_equal(y[begin], whole[begin], (size_t)(end - begin) * sizeof *y);
                for (int32_t r = 0; r < ROWS_MAX; r++)
                    assert_true((r >= begin && r < end) || y[r][0] == 0.0f);
            }
            prepared_finish(&prepared);
        }
        packed_destroy(packed);
        free((void *)tensor.data);
    }
    free(x);
}

TEST(group_of_products_is_each_product_by_itself)
{
    enum { INPUTS = 256, ROWS = 5 };
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_BF16, TENSOR_F16};
    static const int32_t outputs[] = {64, 17, 300, 1};
    uint64_t seed = 7;
    float *x = x_create(INPUTS, X_RANDOM, &seed);
    for (int l = 0; l < PRODUCT_LEVELS; l++) {
        bool has_all = levels[l].present;
        for (int t = 0; t < PRODUCT_TASKS_MAX; t++)
            has_all = has_all && levels[l].kernels.product[types[t]];
        if (!has_all)
            continue;
        struct product_task tasks[PRODUCT_TASKS_MAX];
        float y[PRODUCT_TASKS_MAX][ROWS * 300], alone[ROWS * 300];
        struct tensor tensors[PRODUCT_TASKS_MAX];
        unsigned forms = 0;
        for (int t = 0; t < PRODUCT_TASKS_MAX; t++) {
            tensors[t] = product_tensor(types[t], outputs[t], INPUTS, FILL_RANDOM, &seed);
            tasks[t] = (struct product_task){pack(&tensors[t]), NULL, y[t], outputs[t]};
            forms |= packed_form(tasks[t].weight);
        }
        struct prepared prepared = prepare_rows(&levels[l], x, ROWS, INPUTS, forms);
        product_run(&levels[l].kernels, pool, tasks, PRODUCT_TASKS_MAX, &prepared);
        for (int t = 0; t < PRODUCT_TASKS_MAX; t++) {
            struct product_task task = tasks[t];
            task.y = alone;
            product_run(&levels[l].kernels, pool, &task, 1, &prepared);
            assert_memory_equal(y[t], alone, (size_t)(ROWS * outputs[t]) * sizeof *alone);
            packed_destroy((struct packed *)tasks[t].weight);
            free((void *)tensors[t].data);
        }
        prepared_finish(&prepared);
    }
    free(x);
}

// Sign masks of 7 bits are completed to 8, and 3-bit scales to 4, so the types that have them grow most.
TEST(packed_weight_is_little_larger_than_the_file_s)
{
    uint64_t seed = 8;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        const bool grows = *type == TENSOR_IQ2_XXS || *type == TENSOR_IQ2_XS;
        struct tensor tensor = product_tensor(*type, 256, 1024, FILL_RANDOM, &seed);
        struct packed *packed = pack(&tensor);
        assert_true(packed_bytes(packed) * 100 <= tensor.size_bytes * (grows ? 107 : 105));
        assert_int_equal(packed_shape(packed).n_outputs, 256);
        assert_int_equal(packed_shape(packed).n_inputs, 1024);
        packed_destroy(packed);
        free((void *)tensor.data);
    }
}

TEST(every_type_with_arithmetic_is_tested_here)
{
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const enum tensor_type *tested = product_types;
        while (*tested != TENSOR_TYPE_COUNT && *tested != (enum tensor_type)type)
            tested++;
        for (int l = 0; l < PRODUCT_LEVELS; l++)
            if (levels[l].kernels.product[type])
                assert_int_equal(*tested, type);
        if (*tested == (enum tensor_type)type)
            for (int l = 0; l < 3; l++)
                assert_true(!levels[l].present || levels[l].kernels.product[type]);
    }
}

TEST(product_is_multiplied_by_the_tensor_s_scale_before_the_bias)
{
    enum { INPUTS = 256, OUTPUTS = 37, ROWS = 5 };
    uint64_t seed = 12;
    struct tensor tensor = product_tensor(TENSOR_NVFP4, OUTPUTS, INPUTS, FILL_RANDOM, &seed);
    float *x = x_create(INPUTS, X_RANDOM, &seed);
    struct prepared prepared = prepare_rows(&levels[0], x, ROWS, INPUTS, PRODUCT_QUANTS);
    float scale = 0.3f, bias[OUTPUTS], plain[ROWS][OUTPUTS], y[ROWS][OUTPUTS];
    for (int o = 0; o < OUTPUTS; o++)
        bias[o] = random_float(&seed);
    struct product_task task = {pack(&tensor), NULL, plain[0], OUTPUTS};
    product_run(&levels[0].kernels, pool, &task, 1, &prepared);
    packed_destroy((struct packed *)task.weight);
    tensor.scales = &scale;
    tensor.one_scale = true;
    task = (struct product_task){pack(&tensor), bias, y[0], OUTPUTS};
    product_run(&levels[0].kernels, pool, &task, 1, &prepared);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUTPUTS; o++)
            assert_true(y[r][o] == plain[r][o] * scale + bias[o]);
    packed_destroy((struct packed *)task.weight);
    prepared_finish(&prepared);
    free(x);
    free((void *)tensor.data);
}

// A mapped file with the tensor's bytes after three others.
static struct mapped_file tensor_file_create(const struct tensor *tensor)
{
    char path[] = "/tmp/sheaf-product-XXXXXX";
    struct mapped_file file;
    struct error error = {0};
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *out = fdopen(descriptor, "wb");
    assert_int_equal(fwrite("abc", 1, 3, out), 3);
    assert_int_equal(fwrite(tensor->data, 1, tensor->size_bytes, out), tensor->size_bytes);
    assert_int_equal(fclose(out), 0);
    assert_ok(mapped_file_open(&file, path, &error), &error);
    remove(path);
    return file;
}

// Tasks are of several panels where there are many, and the last panel and the last task are smaller.
TEST(weight_read_from_its_file_is_packed_as_one_in_memory)
{
    static const int32_t outputs[] = {1, 16, 19, 8 * 16, 8 * 16 + 1, 13 * 16 - 1, 40 * 16 + 5};
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_Q8_0, TENSOR_F32};
    struct pool *pools[2];
    struct error error = {0};
    uint64_t seed = 9;
    for (int i = 0; i < 2; i++)
        assert_ok(pool_create(&pools[i], i + 1, &error), &error);
    for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            struct tensor tensor = product_tensor(types[t], outputs[n], 512, FILL_RANDOM, &seed);
            struct packed *expected = pack(&tensor);
            struct mapped_file file = tensor_file_create(&tensor);
            struct tensor in_file = tensor;
            in_file.data = file.data + 3;
            in_file.file = &file;
            for (int i = 0; i < 2; i++) {
                struct packed *packed;
                assert_ok(packed_create(&packed, &in_file, &memory, pools[i], &error), &error);
                assert_int_equal(packed->data_bytes, expected->data_bytes);
                assert_memory_equal(packed->data, expected->data, expected->data_bytes);
                packed_destroy(packed);
            }
            mapped_file_close(&file);
            packed_destroy(expected);
            free((void *)tensor.data);
        }
    for (int i = 0; i < 2; i++)
        pool_destroy(pools[i]);
}

TEST(type_without_arithmetic_is_refused_by_name)
{
    struct tensor tensor = {
        .name = TEXT("blk.0.attn_q.weight"), .type = TENSOR_I64, .n_dims = 2, .dims = {32, 32, 1, 1}};
    struct packed *packed;
    struct error error = {0};
    assert_int_equal(packed_create(&packed, &tensor, &memory, pool, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_UNKNOWN_TYPE);
    assert_string_equal(error.text, "tensor blk.0.attn_q.weight: no arithmetic for type I64");
    assert_null(packed);
}

TEST(row_that_is_no_whole_number_of_blocks_is_refused)
{
    static const uint8_t zeros[210 * 4];
    struct tensor tensor = {
        .name = TEXT("w"), .type = TENSOR_Q6_K, .n_dims = 2, .dims = {257, 2, 1, 1}, .data = zeros};
    struct packed *packed;
    struct error error = {0};
    assert_int_equal(packed_create(&packed, &tensor, &memory, pool, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_MODEL_FILE);
    tensor.dims[0] = 512;
    assert_ok(packed_create(&packed, &tensor, &memory, pool, &error), &error);
    packed_destroy(packed);
}

TEST(weights_stand_apart_from_page_borders_and_are_zero)
{
    // the last but one needs its own mapping
    static const size_t sizes[] = {1, 4096, 4097, 3 << 20, 300 << 20, 5};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *taken[N];
    for (int i = 0; i < N; i++) {
        taken[i] = memory_stack_take(&memory, sizes[i]);
        assert_non_null(taken[i]);
        assert_int_equal((uintptr_t)taken[i] % 4096, 0);
        assert_int_equal(taken[i][0] | taken[i][sizes[i] - 1], 0);
        taken[i][0] = taken[i][sizes[i] - 1] = (unsigned char)(i + 1);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(taken[i][0], i + 1);
        assert_int_equal(taken[i][sizes[i] - 1], i + 1);
    }
    for (size_t below = 0; below < 8192; below++) // which would be small when rounded up
        assert_null(memory_stack_take(&memory, SIZE_MAX - below));
    assert_null(memory_stack_take(&memory, SIZE_MAX / 2));
}

static int free_buffers(void **unused)
{
    memory_stack_finish(&memory);
    return 0;
}

TEST_FIXTURE(NULL, free_buffers);

int main(int argc, char **argv)
{
    product_levels_fill(levels);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return product_bench(levels, argc > 2 && strcmp(argv[2], "all") != 0 ? argv[2] : NULL,
                             argc > 3 ? atoi(argv[3]) : 0);
    struct error error;
    if (pool_create(&pool, 1, &error) != STATUS_OK)
        return 1;
    for (int l = 0; l < PRODUCT_LEVELS; l++)
        if (!levels[l].present)
            print_message("skipped: this processor has no %s\n", levels[l].name);
    int failed = cases_run();
    pool_destroy(pool);
    return failed;
}

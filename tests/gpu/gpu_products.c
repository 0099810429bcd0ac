// Products on the device (or emulated) against double precision, and the promise that a row's result depends
// on that row alone: every number of rows gives the bytes of every other.
#include "engine/file/dequantize.h"
#include "gpu/device.h"
#include "gpu/emulate.h"
#include "gpu/kernels.h"
#include "gpu/kernels_rows.h"
#include "gpu/tiles.h"
#include "tests/kernel/product_data.h"

// cmocka wants these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct device *device;

static bool open_device(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK &&
                  device_load_kernels(device, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    return opened;
}

static void wait_for_device(void)
{
    struct error error;
    if (device_wait(device, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void *on_device(const void *items, size_t size)
{
    void *memory = device_allocate(device, size), *pinned = device_pin(device, size);
    assert_non_null(memory);
    assert_non_null(pinned);
    memcpy(pinned, items, size);
    device_upload(device, memory, pinned, size);
    wait_for_device();
    device_unpin(device, pinned);
    return memory;
}

static float *floats_of(const float *memory, size_t n)
{
    float *pinned = device_pin(device, n * sizeof *pinned), *items = malloc(n * sizeof *items);
    assert_non_null(pinned);
    device_download(device, pinned, memory, n * sizeof *pinned);
    wait_for_device();
    memcpy(items, pinned, n * sizeof *items);
    device_unpin(device, pinned);
    return items;
}

// One weight with rows to multiply, on both sides. Strides of x and y are 4 floats more than needed.
struct product_problem {
    struct tensor tensor;
    enum tensor_type type; // as packed
    int32_t n_rows, n_outputs, n_inputs, n_matrices;
    int64_t x_stride, y_stride;
    float *weights; // dequantized [n_matrices][n_outputs][n_inputs]
    float *x, *bias;
    float *device_x, *device_bias, *device_y;
    void *device_tiles;
};

static float *random_rows(int64_t n_rows, int64_t n, int64_t stride, uint64_t *seed)
{
    float *rows = malloc((size_t)(n_rows * stride) * sizeof *rows);
    for (int64_t i = 0; i < n_rows * stride; i++)
        rows[i] = i % stride < n ? random_float(seed) * (i % 11 == 0 ? 30.0f : 1.0f) : NAN;
    return rows;
}

static struct product_problem problem_make(struct tensor tensor, int32_t n_rows, int32_t n_matrices,
                                           uint64_t *seed)
{
    struct product_problem problem = {.tensor = tensor, .n_rows = n_rows, .n_matrices = n_matrices};
    problem.n_inputs = (int32_t)tensor.dims[0];
    problem.n_outputs = (int32_t)tensor.dims[1] / n_matrices;
    if (n_matrices > 1) {
        problem.tensor.n_dims = 3;
        problem.tensor.dims[1] = (uint64_t)problem.n_outputs;
        problem.tensor.dims[2] = (uint64_t)n_matrices;
    }
    problem.type = tiles_type(&problem.tensor);
    size_t n_weights = (size_t)(n_matrices * problem.n_outputs) * (size_t)problem.n_inputs;
    problem.weights = malloc(n_weights * sizeof(float));
    tensor_traits(tensor.type)->dequantize(tensor.data, problem.weights, n_weights);
    problem.x_stride = (problem.n_inputs + 3) / 4 * 4 + 4;
    problem.y_stride = (problem.n_outputs + 3) / 4 * 4 + 4;
    problem.x = random_rows(n_rows, problem.n_inputs, problem.x_stride, seed);
    problem.bias = random_rows(1, (int64_t)n_matrices * problem.n_outputs,
                               (int64_t)n_matrices * problem.n_outputs, seed);
    uint64_t matrix_bytes = tiles_bytes(problem.type, problem.n_outputs, problem.n_inputs);
    char *tiles = malloc((size_t)n_matrices * matrix_bytes);
    for (int32_t i = 0; i < n_matrices; i++) // in two pieces
        for (int64_t begin = 0, end = 1; begin < tiles_panels(problem.n_outputs);
             begin = end, end = tiles_panels(problem.n_outputs))
            tiles_pack(tiles + (size_t)i * matrix_bytes, problem.type, &problem.tensor, i, begin, end);
    problem.device_tiles = on_device(tiles, (size_t)n_matrices * matrix_bytes);
    free(tiles);
    problem.device_x = on_device(problem.x, (size_t)(n_rows * problem.x_stride) * sizeof(float));
    problem.device_bias = on_device(problem.bias, (size_t)(n_matrices * problem.n_outputs) * sizeof(float));
    problem.device_y = device_allocate(device, (size_t)(n_rows * problem.y_stride) * sizeof(float));
    assert_non_null(problem.device_y);
    return problem;
}

static void problem_free(struct product_problem *problem)
{
    free((void *)problem->tensor.data);
    free(problem->weights);
    free(problem->x);
    free(problem->bias);
    device_free(device, problem->device_x);
    device_free(device, problem->device_bias);
    device_free(device, problem->device_y);
    device_free(device, problem->device_tiles);
}

static enum activation_operand_form form_of(enum tensor_type type)
{
    return type == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF;
}

// Multiplies rows [first, first + n), or with `rows` those rows, through the kernels that n picks; y from row
// 0 on.
static float *problem_compute(const struct product_problem *problem, int32_t first, int32_t n,
                              const int32_t *rows, struct product_launch product)
{
    const float *x = problem->device_x + first * problem->x_stride;
    struct activation_operand operand = {
        form_of(problem->type),
        n,
        problem->n_inputs,
        device_allocate(device, activation_operand_bytes(n, problem->n_inputs)),
        device_allocate(device, (size_t)n * sizeof(float)),
        product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max, n,
                         product.n_experts),
        product.next.out.swizzled ? product.next.out.scales : NULL};
    struct activation_operand_launch make = {operand, x, problem->x_stride, rows, 1};
    device_zero(device, problem->device_y, (size_t)(problem->n_rows * problem->y_stride) * sizeof(float));
    launch_activation_operand(device_stream(device), &make);
    product.type = problem->type;
    product.x = operand;
    product.floats.items = x;
    product.floats.stride = problem->x_stride;
    product.floats.rows = rows;
    product.floats.rows_divisor = 1;
    product.device.shared_bytes_max = device_facts(device)->shared_bytes_max;
    if (product.device.n_multiprocessors == 0) // a block for each set of panels; or few blocks with several
        product.device.n_multiprocessors = n % 2 == 0 ? 0 : 1;
    if (product.n_parts == 0) {
        product.n_parts = 1;
        product.parts[0] = (struct product_part){problem->device_tiles, problem->device_bias,
                                                 problem->device_y, problem->y_stride, problem->n_outputs};
    }
    launch_product(device_stream(device), &product);
    float *y = floats_of(problem->device_y, (size_t)(problem->n_rows * problem->y_stride));
    device_free(device, operand.items);
    device_free(device, operand.scales);
    return y;
}

// The rows of `first` through both weights, by launch_products.
static void compute_pair(const struct product_problem *first, const struct product_problem *second, int32_t n)
{
    const struct product_problem *problems[] = {first, second};
    struct activation_operand operand = {
        OPERAND_HALF,
        n,
        first->n_inputs,
        device_allocate(device, activation_operand_bytes(n, first->n_inputs)),
        device_allocate(device, (size_t)n * sizeof(float)),
        product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max, n, 0)};
    struct activation_operand_launch make = {operand, first->device_x, first->x_stride, NULL, 1};
    launch_activation_operand(device_stream(device), &make);
    struct product_launch products[2];
    for (int i = 0; i < 2; i++) {
        const struct product_problem *problem = problems[i];
        device_zero(device, problem->device_y, (size_t)(problem->n_rows * problem->y_stride) * sizeof(float));
        products[i] =
            (struct product_launch){.type = problem->type,
                                    .n_parts = 1,
                                    .parts = {{problem->device_tiles, problem->device_bias, problem->device_y,
                                               problem->y_stride, problem->n_outputs}},
                                    .x = operand,
                                    .device.shared_bytes_max = device_facts(device)->shared_bytes_max,
                                    .device.n_multiprocessors = n % 2 == 0 ? 0 : 1};
    }
    launch_products(device_stream(device), products, 2);
    wait_for_device();
    device_free(device, operand.items);
    device_free(device, operand.scales);
}

// `size` grows by the terms' squares, what the square of a sum of as many independent terms is on the
// average: a sum whose terms happen to cancel is not asked to be more precise than they are.
static double exact_product(const struct product_problem *problem, int32_t matrix, int32_t row,
                            int32_t output, double *size)
{
    double sum = (double)problem->bias[matrix * problem->n_outputs + output];
    const float *w = problem->weights + ((int64_t)matrix * problem->n_outputs + output) * problem->n_inputs;
    *size += sum * sum;
    for (int32_t k = 0; k < problem->n_inputs; k++) {
        double term = (double)w[k] * (double)problem->x[row * problem->x_stride + k];
        sum += term;
        *size += term * term;
    }
    return sum;
}

// Normalized mean squared error that rounding weights and x once each explains, with some room.
static double error_bound(enum tensor_type packed)
{
    return packed == TENSOR_F32 ? 1e-13 : packed == TENSOR_BF16 ? 1e-5 : 5e-7;
}

static void assert_near_exact(const struct product_problem *problem, const float *y, int32_t n_rows,
                              const char *what)
{
    double wrong = 0, size = 0;
    for (int32_t row = 0; row < n_rows; row++)
        for (int32_t output = 0; output < problem->n_outputs; output++) {
            double off =
                (double)y[row * problem->y_stride + output] - exact_product(problem, 0, row, output, &size);
            wrong += off * off;
        }
    if (!(wrong <= error_bound(problem->type) * size))
        fail_msg("%s %s: normalized mean squared error %g, at most %g",
                 tensor_traits(problem->tensor.type)->name, what, wrong / size, error_bound(problem->type));
}

// Three chunks, the last one short; a panel and rows that are not full; blocks that end inside a group.
static int32_t odd_inputs(enum tensor_type type)
{
    int32_t items = (int32_t)tensor_traits(type)->block_items;
    return items == 1 ? 1093 : (1120 + items - 1) / items * items;
}

enum { N_OUTPUTS = 83 };

static void products_of_every_type_are_near_double_precision(void **state)
{
    uint64_t seed = 3;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        struct tensor tensor = product_tensor(*type, N_OUTPUTS, odd_inputs(*type), FILL_RANDOM, &seed);
        struct product_problem problem = problem_make(tensor, 19, 1, &seed);
        for (int32_t n = 3; n <= 19; n += 8) { // few rows, few in two columns, many
            float *y = problem_compute(&problem, 0, n, NULL, (struct product_launch){0});
            assert_near_exact(&problem, y, n, "random");
            // nothing beside the result
            for (int32_t i = 0; i < problem.n_rows * (int32_t)problem.y_stride; i++)
                if (i % problem.y_stride >= N_OUTPUTS || i / problem.y_stride >= n)
                    assert_true(y[i] == 0);
            free(y);
        }
        problem_free(&problem);
    }
}

static void the_file_s_extremes_survive_packing(void **state)
{
    static const enum product_fill fills[] = {FILL_LOWEST, FILL_HIGHEST, FILL_HUGE, FILL_TINY};
    uint64_t seed = 4;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++)
        for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
            struct tensor tensor = product_tensor(*type, 16, 256, fills[i], &seed);
            struct product_problem problem = problem_make(tensor, 2, 1, &seed);
            float *y = problem_compute(&problem, 0, 2, NULL, (struct product_launch){0});
            // Scales that F16's smallest items stand for have few bits, in the file as in the tiles.
            assert_near_exact(&problem, y, 2, "extremes");
            free(y);
            problem_free(&problem);
        }
}

static void assert_same_rows(const struct product_problem *problem, const float *y, const float *all,
                             int32_t n, int32_t first)
{
    for (int32_t row = 0; row < n; row++)
        if (memcmp(y + row * problem->y_stride, all + (first + row) * problem->y_stride,
                   (size_t)problem->n_outputs * sizeof *y) != 0)
            fail_msg("%s: row %d differs when %d are computed together from row %d",
                     tensor_traits(problem->type)->name, first + row, n, first);
}

static void a_row_s_result_is_the_same_bytes_in_every_company(void **state)
{
    static const int32_t counts[] = {1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 66, 96, 97};
    uint64_t seed = 5;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        if (*type != TENSOR_F32 && tile_format(*type).n_groups == 0)
            continue; // packed as one of the others
        struct tensor tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &seed);
        struct product_problem problem = problem_make(tensor, 130, 1, &seed);
        float *all = problem_compute(&problem, 0, 130, NULL, (struct product_launch){0});
        assert_near_exact(&problem, all, 130, "many rows");
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int32_t first = (int32_t)(random_bits(&seed) % (uint32_t)(130 - counts[i]));
            emulate_reverse(i % 2 == 1);
            float *y = problem_compute(&problem, first, counts[i], NULL, (struct product_launch){0});
            assert_same_rows(&problem, y, all, counts[i], first);
            free(y);
        }
        emulate_reverse(false);
        free(all);
        problem_free(&problem);
    }
}

enum { EXPERT_ROWS_MAX = 400, EXPERTS_MAX = 8 };

// Experts of `counts` rows in one launch: each row has the bytes that it has alone.
static void assert_experts_alone(const int32_t *counts, int n_experts, enum tensor_type type,
                                 int32_t n_outputs)
{
    int32_t first[EXPERTS_MAX + 1] = {0}, order[EXPERT_ROWS_MAX], expert_of[EXPERT_ROWS_MAX];
    uint64_t seed = 14;
    for (int e = 0; e < n_experts; e++) {
        first[e + 1] = first[e] + counts[e];
        for (int32_t i = first[e]; i < first[e + 1]; i++)
            expert_of[i] = e;
    }
    int32_t n_rows = first[n_experts];
    assert_true(n_rows <= EXPERT_ROWS_MAX && n_rows % 5 != 0);
    for (int32_t i = 0; i < n_rows; i++)
        order[i] = (i * 5 + 2) % n_rows;
    struct product_problem problem =
        problem_make(product_tensor(type, n_experts * n_outputs, 512, FILL_RANDOM, &seed), n_rows, n_experts,
                     &seed);
    int32_t *device_order = on_device(order, sizeof order), *device_first = on_device(first, sizeof first);
    struct product_launch call = {.n_experts = n_experts,
                                  .expert_first = device_first,
                                  .expert_order = device_order};
    float *y = problem_compute(&problem, 0, n_rows, device_order, call);
    for (int32_t i = 0; i < n_rows * (int32_t)problem.y_stride; i++) // nothing beside the result
        assert_true(i % problem.y_stride < n_outputs || y[i] == 0);
    for (int32_t i = 0; i<n_rows; i += n_rows> 100 ? i % 29 + 1 : i % 7 + 1) {
        int32_t alone_first[EXPERTS_MAX + 1];
        for (int e = 0; e <= n_experts; e++)
            alone_first[e] = e > expert_of[i];
        int32_t *device_alone = on_device(alone_first, sizeof alone_first);
        call.expert_first = device_alone;
        call.expert_order = NULL;
        float *alone = problem_compute(&problem, order[i], 1, NULL, call);
        assert_memory_equal(alone, y + order[i] * problem.y_stride, (size_t)problem.n_outputs * sizeof *y);
        free(alone);
        device_free(device, device_alone);
    }
    free(y);
    device_free(device, device_order);
    device_free(device, device_first);
    problem_free(&problem);
}

// Compute capability 8.6, 8.9 and 12.0 have less than the large rectangles want.
static void blocks_of_little_shared_memory_give_the_same_bytes(void **state)
{
    enum { N_ROWS = 66 };
    static const int32_t counts[] = {8, 9, 17, 65}, experts[] = {3, 0, 65, 17, 33, 1};
    struct device *plenty = device;
    struct error error;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        if (tile_format(*type).n_groups == 0)
            continue; // packed as one of the others, or F32
        uint64_t seed = 13, same_seed = seed;
        struct tensor tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &seed);
        struct product_problem problem = problem_make(tensor, N_ROWS, 1, &seed);
        float *all = problem_compute(&problem, 0, N_ROWS, NULL, (struct product_launch){0});
        problem_free(&problem);
        assert_int_equal(device_open(&device,
                                     &(struct device_options){.shared_bytes_max = PRODUCT_SHARED_BYTES_LEAST},
                                     &error),
                         STATUS_OK);
        tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &same_seed);
        problem = problem_make(tensor, N_ROWS, 1, &same_seed);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            float *y = problem_compute(&problem, 0, counts[i], NULL, (struct product_launch){0});
            assert_same_rows(&problem, y, all, counts[i], 0);
            free(y);
        }
        problem_free(&problem);
        assert_experts_alone(experts, 6, *type, 24);
        device_close(device);
        device = plenty;
        free(all);
    }
}

// Of x [rows][heads][inputs and two more], each head through its matrix, to y [rows][heads][outputs and one
// more].
static void heads_begin_at_any_column(void **state)
{
    static const enum tensor_type types[] = {TENSOR_F32, TENSOR_F16, TENSOR_Q8_0};
    enum { N_HEADS = 3, N_ROWS = 19, N_OUTPUTS_HEAD = 21 };
    uint64_t seed = 14;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int32_t first = 0; first < 4; first++) {
            int32_t n_inputs = types[t] == TENSOR_Q8_0 ? 160 : 149, x_step = n_inputs + 2,
                    y_step = N_OUTPUTS_HEAD + 1;
            struct product_problem problem =
                problem_make(product_tensor(types[t], N_HEADS * N_OUTPUTS_HEAD, n_inputs, FILL_RANDOM, &seed),
                             1, N_HEADS, &seed);
            int64_t x_stride = (first + N_HEADS * x_step + 3) / 4 * 4, y_stride = N_HEADS * y_step;
            float *x = random_rows(N_ROWS, x_stride, x_stride, &seed);
            float *device_x = on_device(x, (size_t)(N_ROWS * x_stride) * sizeof(float));
            float *device_y = device_allocate(device, (size_t)(N_ROWS * y_stride) * sizeof(float));
            struct activation_operand operand = {
                form_of(problem.type),
                N_HEADS * N_ROWS,
                n_inputs,
                device_allocate(device, activation_operand_bytes(N_HEADS * N_ROWS, n_inputs)),
                device_allocate(device, (size_t)(N_HEADS * N_ROWS) * sizeof(float)),
                false};
            struct activation_operand_launch make = {operand, device_x + first, x_stride, NULL,
                                                     1,       N_ROWS,           x_step};
            launch_activation_operand(device_stream(device), &make);
            struct product_launch product = {.type = problem.type,
                                             .n_parts = 1,
                                             .x = operand,
                                             .floats.items = device_x + first,
                                             .floats.stride = x_stride,
                                             .floats.rows_divisor = 1,
                                             .n_experts = N_HEADS,
                                             .heads.n_rows = N_ROWS,
                                             .heads.x_step = x_step,
                                             .heads.y_step = y_step,
                                             .device.shared_bytes_max =
                                                 device_facts(device)->shared_bytes_max};
            product.parts[0] = (struct product_part){problem.device_tiles, problem.device_bias, device_y,
                                                     y_stride, N_OUTPUTS_HEAD};
            launch_product(device_stream(device), &product);
            float *y = floats_of(device_y, (size_t)(N_ROWS * y_stride));
            double wrong = 0, size = 0;
            for (int32_t i = 0; i < N_HEADS * N_ROWS * N_OUTPUTS_HEAD; i++) {
                int32_t output = i % N_OUTPUTS_HEAD, head = i / N_OUTPUTS_HEAD % N_HEADS,
                        row = i / N_OUTPUTS_HEAD / N_HEADS;
                struct product_problem own = problem;
                own.x = x + row * x_stride + first + head * x_step;
                double off = (double)y[row * y_stride + head * y_step + output] -
                             exact_product(&own, head, 0, output, &size);
                wrong += off * off;
            }
            if (!(wrong <= error_bound(problem.type) * size))
                fail_msg("%s from column %d: normalized mean squared error %g", tensor_traits(types[t])->name,
                         first, wrong / size);
            free(x);
            free(y);
            void *all[] = {device_x, device_y, operand.items, operand.scales};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                device_free(device, all[i]);
            problem_free(&problem);
        }
}

static void long_rows_take_several_rounds_of_split_k_chunks(void **state)
{
    uint64_t seed = 6;
    struct tensor tensor = product_tensor(TENSOR_Q4_K, 17, 512 * 18 + 256, FILL_RANDOM, &seed);
    struct product_problem problem = problem_make(tensor, 33, 1, &seed);
    float *all = problem_compute(&problem, 0, 33, NULL, (struct product_launch){0});
    assert_near_exact(&problem, all, 33, "long");
    for (int32_t n = 1; n <= 31; n += 10) { // each of the kernels
        float *y = problem_compute(&problem, 2, n, NULL, (struct product_launch){0});
        assert_same_rows(&problem, y, all, n, 2);
        free(y);
    }
    free(all);
    problem_free(&problem);
}

static void results_are_added_with_a_factor(void **state)
{
    uint64_t seed = 7;
    for (int32_t n = 5; n <= 45; n += 20) {
        struct product_problem problem =
            problem_make(product_tensor(TENSOR_Q8_0, 20, 256, FILL_RANDOM, &seed), 45, 1, &seed);
        float *once = problem_compute(&problem, 0, n, NULL, (struct product_launch){0});
        float *added =
            problem_compute(&problem, 0, n, NULL, (struct product_launch){.add = true, .factor = 0.5f});
        for (int32_t i = 0; i < n * problem.y_stride; i++)
            assert_true(added[i] == 0.5f * once[i]);
        free(once);
        free(added);
        problem_free(&problem);
    }
}

static void parts_of_one_launch_are_products_of_their_own(void **state)
{
    uint64_t seed = 8;
    for (int32_t n = 4; n <= 100; n += 32) {
        struct product_problem whole =
            problem_make(product_tensor(TENSOR_Q4_0, 16 * 5 + 7, 160, FILL_RANDOM, &seed), 100, 1, &seed);
        float *expected = problem_compute(&whole, 0, n, NULL, (struct product_launch){0});
        // Outputs 0..31, 32..47, and the other 39.
        static const int32_t begins[] = {0, 32, 48, 87};
        uint64_t panel_bytes = tiles_bytes(TENSOR_Q4_0, 16, 160);
        struct product_launch product = {.n_parts = 3};
        for (int i = 0; i < 3; i++)
            product.parts[i] =
                (struct product_part){(char *)whole.device_tiles + (uint64_t)begins[i] / 16 * panel_bytes,
                                      whole.device_bias + begins[i], whole.device_y + begins[i],
                                      whole.y_stride, begins[i + 1] - begins[i]};
        float *y = problem_compute(&whole, 0, n, NULL, product);
        assert_same_rows(&whole, y, expected, n, 0);
        free(y);
        free(expected);
        problem_free(&whole);
    }
}

// As keys and values of Q4_K_M: one launch for both types.
static void weights_of_two_types_in_one_launch_give_the_bytes_of_two_launches(void **state)
{
    static const enum tensor_type types[][2] = {{TENSOR_Q4_K, TENSOR_Q6_K},
                                                {TENSOR_Q6_K, TENSOR_Q5_K},
                                                {TENSOR_Q4_K, TENSOR_Q8_0}};
    static const int32_t counts[] = {1, 8, 9, 16, 17, 33, 130}; // each of the kernels
    enum { N_ROWS = 130, N_FIRST = 83, N_SECOND = 40 };
    uint64_t seed = 15;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product_problem first =
            problem_make(product_tensor(types[t][0], N_FIRST, 1280, FILL_RANDOM, &seed), N_ROWS, 1, &seed);
        struct product_problem second =
            problem_make(product_tensor(types[t][1], N_SECOND, 1280, FILL_RANDOM, &seed), N_ROWS, 1, &seed);
        device_free(device, second.device_x);
        second.device_x = first.device_x;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            float *expected = problem_compute(&first, 0, counts[i], NULL, (struct product_launch){0}),
                  *expected_second = problem_compute(&second, 0, counts[i], NULL, (struct product_launch){0});
            compute_pair(&first, &second, counts[i]);
            float *y = floats_of(first.device_y, (size_t)(N_ROWS * first.y_stride)),
                  *y_second = floats_of(second.device_y, (size_t)(N_ROWS * second.y_stride));
            assert_same_rows(&first, y, expected, counts[i], 0);
            assert_same_rows(&second, y_second, expected_second, counts[i], 0);
            void *all[] = {expected, expected_second, y, y_second};
            for (size_t j = 0; j < sizeof all / sizeof *all; j++)
                free(all[j]);
        }
        second.device_x = NULL;
        problem_free(&first);
        problem_free(&second);
    }
}

// The first half of the problem's matrices is the gate, the other half what it lets through; in one launch,
// or in one for both products and one for the activation.
static float *compute_gated(const struct product_problem *problem, int32_t n, struct product_launch product,
                            bool in_one)
{
    int32_t half = problem->n_matrices / 2;
    uint64_t gate_bytes = (uint64_t)half * tiles_bytes(problem->type, problem->n_outputs, problem->n_inputs);
    size_t up_items = (size_t)(problem->n_rows * problem->y_stride);
    float *up = device_allocate(device, up_items * sizeof *up);
    device_zero(device, up, up_items * sizeof *up);
    product.n_parts = 2;
    product.gated = in_one;
    product.parts[0] = (struct product_part){problem->device_tiles, problem->device_bias, problem->device_y,
                                             problem->y_stride, problem->n_outputs};
    product.parts[1] = product.parts[0];
    product.parts[1].tiles = (char *)problem->device_tiles + gate_bytes;
    product.parts[1].bias += half * problem->n_outputs;
    product.parts[1].y = up;
    float *y = problem_compute(problem, 0, n, NULL, product);
    if (!in_one) {
        free(y);
        struct device_matrix gate = {problem->device_y, problem->y_stride}, factor = {up, problem->y_stride};
        launch_activate(device_stream(device), gate, gate, factor, n, problem->n_outputs, product.activation);
        y = floats_of(problem->device_y, (size_t)(problem->n_rows * problem->y_stride));
    }
    device_free(device, up);
    return y;
}

static void a_gate_in_the_same_launch_gives_the_bytes_of_one_launch_after_the_other(void **state)
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

// Few blocks for many panels: partial sums of several panels, or of some rounds of one, are added together.
static void many_panels_of_a_block_give_the_bytes_of_many_blocks(void **state)
{
    static const struct {
        enum tensor_type type;
        int32_t n_inputs; // in one round of split-K chunks, in 2 or in 5
    } cases[] = {{TENSOR_Q4_K, 1280},         {TENSOR_Q4_K, 9 * 512 + 256}, {TENSOR_Q8_0, 1280},
                 {TENSOR_BF16, 9 * 512 + 64}, {TENSOR_Q4_K, 34 * 512},      {TENSOR_Q8_0, 17 * 512}};
    uint64_t seed = 16;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t n_outputs = cases[i].n_inputs < 2048 ? 16 * 21 + 3 : 16 * 5 + 3;
        struct product_problem problem =
            problem_make(product_tensor(cases[i].type, 2 * n_outputs, cases[i].n_inputs, FILL_RANDOM, &seed),
                         9, 2, &seed);
        for (int32_t n = 1; n <= 9; n += 8)
            for (int gated = 0; gated < 2; gated++) {
                struct product_launch few = {.device.n_multiprocessors = 1},
                                      many = {.device.n_multiprocessors = 1000};
                float *y, *expected;
                if (gated) {
                    y = compute_gated(&problem, n, few, true);
                    expected = compute_gated(&problem, n, many, false);
                } else {
                    y = problem_compute(&problem, 0, n, NULL, few);
                    expected = problem_compute(&problem, 0, n, NULL, many);
                }
                assert_same_rows(&problem, y, expected, n, 0);
                free(y);
                free(expected);
            }
        problem_free(&problem);
    }
}

// Tiles of two blocks, or of fewer outputs, where many multiprocessors have no block.
static void multiprocessors_without_a_block_change_no_bytes(void **state)
{
    static const struct {
        enum tensor_type type;
        int32_t n_inputs; // in 5, 9 or 21 split-K chunks, of which the second block has 1 or 9
        int32_t counts[2];
    } cases[] = {{TENSOR_Q4_K, 4 * 512 + 256, {17, 64}},
                 {TENSOR_Q6_K, 8 * 512 + 256, {33, 130}},
                 {TENSOR_F16, 4 * 512 + 128, {70, 0}},
                 {TENSOR_BF16, 20 * 512 + 64, {17, 0}}};
    enum { N_ROWS = 130, N_MULTIPROCESSORS = 24, N_OUTPUTS_GATED = 75 };
    uint64_t seed = 17;
    int32_t *arrivals = device_allocate(device, N_MULTIPROCESSORS * sizeof *arrivals);
    device_zero(device, arrivals, N_MULTIPROCESSORS * sizeof *arrivals);
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        struct product_problem problem = problem_make(product_tensor(cases[t].type, 2 * N_OUTPUTS_GATED,
                                                                     cases[t].n_inputs, FILL_RANDOM, &seed),
                                                      N_ROWS, 2, &seed);
        uint64_t bytes = product_partial_bytes(N_MULTIPROCESSORS, cases[t].n_inputs);
        float *sums = device_allocate(device, bytes);
        assert_non_null(sums);
        struct product_launch divided = {
            .device = {.n_multiprocessors = N_MULTIPROCESSORS, .partials = {sums, arrivals, bytes}}};
        for (int i = 0; i < 2 && cases[t].counts[i] > 0; i++) {
            int32_t n = cases[t].counts[i];
            emulate_reverse((t + (size_t)i) % 2 == 1); // so that each block of a tile is the last one
            float *expected = problem_compute(&problem, 0, n, NULL, (struct product_launch){0}),
                  *y = problem_compute(&problem, 0, n, NULL, divided),
                  *expected_gated = compute_gated(&problem, n, (struct product_launch){0}, true),
                  *gated = compute_gated(&problem, n, divided, true);
            assert_same_rows(&problem, y, expected, n, 0);
            assert_same_rows(&problem, gated, expected_gated, n, 0);
            float *left = floats_of((const float *)arrivals, N_MULTIPROCESSORS);
            for (int j = 0; j < N_MULTIPROCESSORS; j++)
                assert_true(left[j] == 0.0f); // bits of integers: a small one is a number above 0
            void *all[] = {expected, y, expected_gated, gated, left};
            for (size_t j = 0; j < sizeof all / sizeof *all; j++)
                free(all[j]);
        }
        emulate_reverse(false);
        device_free(device, sums);
        problem_free(&problem);
    }
    device_free(device, arrivals);
}

// 250 outputs are one wide tile or four narrow ones, 183 one of 192: where there are as many tiles as blocks run
// at once, wide ones are taken.
static void wide_tiles_give_the_bytes_of_narrow_ones(void **state)
{
    static const enum tensor_type types[] = {TENSOR_Q4_0, TENSOR_Q4_K, TENSOR_Q5_K,
                                             TENSOR_Q6_K, TENSOR_Q8_0, TENSOR_BF16};
    static const struct {
        int32_t n_rows, n_outputs;
    } cases[] = {{17, 250}, {64, 250}, {70, 250}, {100, 250}, {130, 183}};
    uint64_t seed = 20;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = t % 2; i < sizeof cases / sizeof *cases; i += 2) {
            int32_t n = cases[i].n_rows;
            struct product_problem problem =
                problem_make(product_tensor(types[t], 2 * cases[i].n_outputs, 1280, FILL_RANDOM, &seed), n, 2,
                             &seed);
            struct product_launch wide = {.device.n_multiprocessors = 1},
                                  narrow = {.device.n_multiprocessors = 1000};
            emulate_reverse((t + i) % 2 == 1);
            float *y = problem_compute(&problem, 0, n, NULL, wide),
                  *expected = problem_compute(&problem, 0, n, NULL, narrow),
                  *gated = compute_gated(&problem, n, wide, true),
                  *expected_gated = compute_gated(&problem, n, narrow, true);
            assert_same_rows(&problem, y, expected, n, 0);
            assert_same_rows(&problem, gated, expected_gated, n, 0);
            void *all[] = {y, expected, gated, expected_gated};
            for (size_t j = 0; j < sizeof all / sizeof *all; j++)
                free(all[j]);
            problem_free(&problem);
        }
    emulate_reverse(false);
}

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

static void the_last_block_of_gated_rows_writes_the_next_operand(void **state)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q8_0, TENSOR_BF16};
    static const int32_t inputs[] = {768, 256, 3 * 512}; // blocks of 2, 1 and 3 warps
    static const int32_t counts[] = {1, 3, 8, 9, 16};
    uint64_t seed = 18;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product_problem problem =
            problem_make(product_tensor(types[t], 2 * 331, inputs[t], FILL_RANDOM, &seed), 16, 2, &seed);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            emulate_reverse(i % 2 == 1);
            assert_next_operand(&problem, counts[i], NULL, i % 2 ? OPERAND_BFLOAT : OPERAND_HALF,
                                (struct product_launch){.device.n_multiprocessors = i % 3 ? 2 : 1000});
        }
        emulate_reverse(false);
        problem_free(&problem);
    }
}

// Operands of wgmma, of n rows: those that blocks write in place of the result are those that a launch makes of
// it, but for the items of rows that have no number for a scale.
static void assert_next_of_many(const struct product_problem *problem, int32_t n, struct product_launch call)
{
    struct activation_operand next = next_of(problem, OPERAND_BFLOAT, n),
                              own = next_of(problem, OPERAND_BFLOAT, n);
    next.swizzled = own.swizzled = true;
    float *expected = compute_gated(problem, n, call, true);
    struct activation_operand_launch make = {own, problem->device_y, problem->y_stride, NULL, 1};
    launch_activation_operand(device_stream(device), &make);
    struct operand_bytes own_bytes = take_operand(&own);
    call.next = (struct next_operand){next, NULL};
    float *y = compute_gated(problem, n, call, true);
    struct operand_bytes bytes = take_operand(&next);
    assert_memory_equal(bytes.scales, own_bytes.scales, bytes.n_scales * 4);
    for (int64_t i = 0; i < problem->n_rows * problem->y_stride; i++)
        assert_true(y[i] == 0); // not stored
    size_t row_items = SWIZZLED_ROW_BYTES / 4;
    for (size_t i = 0; i < bytes.n_items; i += row_items) {
        int32_t row = (int32_t)(i / row_items) % swizzled_rows(n);
        if (row >= n || !isnan(bytes.scales[row]))
            assert_memory_equal(bytes.items + i, own_bytes.items + i, SWIZZLED_ROW_BYTES);
    }
    void *all[] = {expected, y, bytes.items, bytes.scales, own_bytes.items, own_bytes.scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void blocks_of_many_gated_rows_write_a_bfloat16_operand(void **state)
{
    static const struct {
        enum tensor_type type;
        int32_t n_outputs, n_multiprocessors;
    } cases[] = {{TENSOR_BF16, 256, 1}, {TENSOR_Q4_K, 128, 1000}, {TENSOR_F16, 384, 1}};
    static const int32_t counts[] = {17, 33, 64, 70, 96, 97, 130}; // tiles of each number of rows
    uint64_t seed = 19;
    if (!device_facts(device)->has_wgmma)
        return;
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        struct product_problem problem =
            problem_make(product_tensor(cases[t].type, 2 * cases[t].n_outputs, 768, FILL_RANDOM, &seed), 130,
                         2, &seed);
        for (int32_t i = 0; i < problem.n_inputs; i++)
            problem.x[3 * problem.x_stride + i] *= 1e25f; // some of its results are infinite
        problem.x[5 * problem.x_stride] = NAN;
        device_free(device, problem.device_x);
        problem.device_x = on_device(problem.x, (size_t)(130 * problem.x_stride) * sizeof(float));
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            emulate_reverse((i + t) % 2 == 1);
            assert_next_of_many(&problem, counts[i],
                                (struct product_launch){.device.n_multiprocessors =
                                                            cases[t].n_multiprocessors});
        }
        emulate_reverse(false);
        problem_free(&problem);
    }
}

static void experts_write_the_next_operand_of_their_pairs(void **state)
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

static void experts_have_their_own_gates(void **state)
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

// Pairs sorted by expert: each is multiplied by its matrix, its result stored at its place.
static void experts_multiply_the_rows_that_picked_them(void **state)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_BF16, TENSOR_F32};
    enum { N_EXPERTS = 37, N_ROWS = 60 };
    uint64_t seed = 9;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int crowd = 0; crowd < 3; crowd++) { // few pairs an expert; many for some; most for one
            int32_t n_experts = crowd == 0 ? N_EXPERTS : crowd == 1 ? 3 : 1;
            struct product_problem problem =
                problem_make(product_tensor(types[t], n_experts * 24, 256, FILL_RANDOM, &seed), N_ROWS,
                             n_experts, &seed);
            int32_t expert_of[N_ROWS], first[N_EXPERTS + 1] = {0}, order[N_ROWS], n = 0;
            for (int32_t i = 0; i < N_ROWS; i++)
                expert_of[i] = (int32_t)(random_bits(&seed) % (uint32_t)n_experts) / 5 * 5 % n_experts;
            for (int32_t e = 0; e < n_experts; e++) {
                for (int32_t i = 0; i < N_ROWS; i++)
                    if (expert_of[i] == e)
                        order[n++] = i;
                first[e + 1] = n;
            }
            int32_t *device_order = on_device(order, sizeof order),
                    *device_first = on_device(first, sizeof first);
            float *y = problem_compute(&problem, 0, N_ROWS, device_order,
                                       (struct product_launch){.n_experts = n_experts,
                                                               .expert_first = device_first,
                                                               .expert_order = device_order});
            double wrong = 0, size = 0;
            for (int32_t row = 0; row < N_ROWS; row++)
                for (int32_t output = 0; output < problem.n_outputs; output++) {
                    double expected = exact_product(&problem, expert_of[row], row, output, &size);
                    double off = (double)y[row * problem.y_stride + output] - expected;
                    wrong += off * off;
                }
            assert_true(wrong <= error_bound(problem.type) * size);
            free(y);
            device_free(device, device_order);
            device_free(device, device_first);
            problem_free(&problem);
        }
}

static void experts_with_few_and_with_many_rows_give_each_row_its_bytes(void **state)
{
    static const int32_t few[] = {8, 0, 9, 16, 1, 17, 33}, // the skinny GEMM
        many[] = {3, 0, 132, 16, 64, 17, 1, 33};           // one tile of each shape, and the rest of one
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q8_0, TENSOR_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        assert_experts_alone(few, 7, types[t], 24);
        assert_experts_alone(many, 8, types[t], t == 0 ? 150 : 24); // of two blocks
    }
}

static void rows_that_are_not_numbers_harm_no_other_row(void **state)
{
    static const enum tensor_type types[] = {TENSOR_Q6_K, TENSOR_BF16};
    uint64_t seed = 10;
    for (size_t t = 0; t < 2; t++)
        for (int32_t n = 6; n <= 40; n += 34) {
            struct product_problem problem =
                problem_make(product_tensor(types[t], 16, 256, FILL_RANDOM, &seed), 40, 1, &seed);
            float *clean = problem_compute(&problem, 0, n, NULL, (struct product_launch){0});
            problem.x[1 * problem.x_stride + 70] = NAN;
            problem.x[3 * problem.x_stride + 255] = -INFINITY;
            device_free(device, problem.device_x);
            problem.device_x = on_device(problem.x, (size_t)(40 * problem.x_stride) * sizeof(float));
            float *y = problem_compute(&problem, 0, n, NULL, (struct product_launch){0});
            for (int32_t row = 0; row < n; row++)
                for (int32_t output = 0; output < 16; output++)
                    if (row == 1 || row == 3)
                        assert_true(isnan(y[row * problem.y_stride + output]));
                    else
                        assert_true(y[row * problem.y_stride + output] ==
                                    clean[row * problem.y_stride + output]);
            free(y);
            free(clean);
            problem_free(&problem);
        }
}

static void rows_of_any_size_keep_their_precision(void **state)
{
    uint64_t seed = 11;
    static const float sizes[] = {0, 1e-38f, 1e-30f, 1e-10f, 1e5f, 1e20f, 1e30f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct product_problem problem =
            problem_make(product_tensor(TENSOR_Q8_0, 16, 128, FILL_RANDOM, &seed), 1, 1, &seed);
        for (int32_t k = 0; k < 128; k++)
            problem.x[k] *= sizes[i];
        for (int32_t k = 0; k < 16; k++)
            problem.bias[k] = 0;
        device_free(device, problem.device_x);
        device_free(device, problem.device_bias);
        problem.device_x = on_device(problem.x, (size_t)problem.x_stride * sizeof(float));
        problem.device_bias = on_device(problem.bias, 16 * sizeof(float));
        float *y = problem_compute(&problem, 0, 1, NULL, (struct product_launch){0});
        if (sizes[i] >= 1e-30f || sizes[i] == 0)
            assert_near_exact(&problem, y, 1, "of some size");
        free(y);
        problem_free(&problem);
    }
}

int main(void)
{
    if (!open_device())
        return 77; // skipped
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_type_are_near_double_precision),
        cmocka_unit_test(the_file_s_extremes_survive_packing),
        cmocka_unit_test(a_row_s_result_is_the_same_bytes_in_every_company),
        cmocka_unit_test(blocks_of_little_shared_memory_give_the_same_bytes),
        cmocka_unit_test(heads_begin_at_any_column),
        cmocka_unit_test(long_rows_take_several_rounds_of_split_k_chunks),
        cmocka_unit_test(results_are_added_with_a_factor),
        cmocka_unit_test(parts_of_one_launch_are_products_of_their_own),
        cmocka_unit_test(weights_of_two_types_in_one_launch_give_the_bytes_of_two_launches),
        cmocka_unit_test(a_gate_in_the_same_launch_gives_the_bytes_of_one_launch_after_the_other),
        cmocka_unit_test(many_panels_of_a_block_give_the_bytes_of_many_blocks),
        cmocka_unit_test(multiprocessors_without_a_block_change_no_bytes),
        cmocka_unit_test(wide_tiles_give_the_bytes_of_narrow_ones),
        cmocka_unit_test(experts_multiply_the_rows_that_picked_them),
        cmocka_unit_test(experts_with_few_and_with_many_rows_give_each_row_its_bytes),
        cmocka_unit_test(the_last_block_of_gated_rows_writes_the_next_operand),
        cmocka_unit_test(blocks_of_many_gated_rows_write_a_bfloat16_operand),
        cmocka_unit_test(experts_write_the_next_operand_of_their_pairs),
        cmocka_unit_test(experts_have_their_own_gates),
        cmocka_unit_test(rows_that_are_not_numbers_harm_no_other_row),
        cmocka_unit_test(rows_of_any_size_keep_their_precision),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(device);
    return n_failed;
}

// Products on the device (or emulated) against double precision, and the promise that a row's result depends
// on that row alone: every number of rows gives the bytes of every other.
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/tiles.h"
#include "tests/gpu/product_problem.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

#include <math.h>

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
        products[i] = (struct product_launch){
            .type = problem->type,
            .n_parts = 1,
            .parts = {{problem->device_tiles, problem->device_bias, problem->device_y, problem->y_stride,
                       problem->n_outputs, problem->device_factors}},
            .x = operand,
            .device.shared_bytes_max = device_facts(device)->shared_bytes_max,
            .device.n_multiprocessors = n % 2 == 0 ? 0 : 1};
    }
    launch_products(device_stream(device), products, 2);
    wait_for_device();
    device_free(device, operand.items);
    device_free(device, operand.scales);
}

enum { N_OUTPUTS = 83 };

TEST(products_of_every_type_are_near_double_precision)
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

TEST(the_file_s_extremes_survive_packing)
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

TEST(a_row_s_result_is_the_same_bytes_in_every_company)
{
    static const int32_t counts[] = {1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 66, 96, 97};
    uint64_t seed = 5;
    size_t n_types = 0;
    for (const enum tensor_type *type = product_types; *type != TENSOR_TYPE_COUNT; type++) {
        if (*type != TENSOR_F32 && tile_format(*type).n_groups == 0)
            continue; // packed as one of the others
        struct tensor tensor = product_tensor(*type, 40, odd_inputs(*type), FILL_RANDOM, &seed);
        struct product_problem problem = problem_make(tensor, 130, 1, &seed);
        float *all = problem_compute(&problem, 0, 130, NULL, (struct product_launch){0});
        assert_near_exact(&problem, all, 130, "many rows");
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            if (!shapes_are_wide() && i % 4 != n_types % 4)
                continue;
            int32_t first = (int32_t)(random_bits(&seed) % (uint32_t)(130 - counts[i]));
            emulate_reverse((i / 4 + i) % 2 == 1);
            float *y = problem_compute(&problem, first, counts[i], NULL, (struct product_launch){0});
            assert_same_rows(&problem, y, all, counts[i], first);
            free(y);
        }
        emulate_reverse(false);
        free(all);
        problem_free(&problem);
        n_types++;
    }
}

// Of x [rows][heads][inputs and two more], each head through its matrix, to y [rows][heads][outputs and one
// more].
TEST(heads_begin_at_any_column)
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
            struct activation_operand_launch make = {.out = operand,
                                                     .x = device_x + first,
                                                     .x_stride = x_stride,
                                                     .rows_divisor = 1,
                                                     .head_rows = N_ROWS,
                                                     .x_head_step = x_step};
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
            product.parts[0] =
                (struct product_part){problem.device_tiles, problem.device_bias,   device_y, y_stride,
                                      N_OUTPUTS_HEAD,       problem.device_factors};
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

TEST(long_rows_take_several_rounds_of_split_k_chunks)
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

TEST(results_are_added_with_a_factor)
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

TEST(parts_of_one_launch_are_products_of_their_own)
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
                                      whole.device_bias + begins[i],
                                      whole.device_y + begins[i],
                                      whole.y_stride,
                                      begins[i + 1] - begins[i],
                                      whole.device_factors};
        float *y = problem_compute(&whole, 0, n, NULL, product);
        assert_same_rows(&whole, y, expected, n, 0);
        free(y);
        free(expected);
        problem_free(&whole);
    }
}

// Like keys and values of Q4_K_M: one launch for both types.
TEST(weights_of_two_types_in_one_launch_give_the_bytes_of_two_launches)
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
            if (!shapes_are_wide() && i % 3 != t)
                continue;
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

TEST(rows_that_are_not_numbers_harm_no_other_row)
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

TEST(rows_of_any_size_keep_their_precision)
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

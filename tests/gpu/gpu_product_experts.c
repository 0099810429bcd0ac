// Products of routed experts on the device (or emulated): each row by the matrix that it picked.
#include "tests/gpu/product_problem.h"
#include "tests/kernel/product_data.h"
#include "tests/support/cases.h"

#include <stdlib.h>

// Pairs sorted by expert: each is multiplied by its matrix, its result stored at its place.
TEST(experts_multiply_the_rows_that_picked_them)
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

// A weight for each pair multiplies its row, before the row is an operand.
TEST(weighed_rows_have_the_bytes_of_rows_multiplied_beforehand)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_BF16, TENSOR_F32};
    enum { N_EXPERTS = 3, N_ROWS = 60 };
    uint64_t seed = 10;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct product_problem problem =
            problem_make(product_tensor(types[t], N_EXPERTS * 24, 256, FILL_RANDOM, &seed), N_ROWS, N_EXPERTS,
                         &seed);
        size_t n_x = (size_t)(N_ROWS * problem.x_stride);
        int32_t order[N_ROWS], first[N_EXPERTS + 1] = {0, 20, 21, N_ROWS};
        float weights[N_ROWS], *multiplied = malloc(n_x * sizeof *multiplied);
        for (int32_t i = 0; i < N_ROWS; i++) {
            order[i] = (i * 7 + 3) % N_ROWS;
            weights[i] = 0.01f + 0.016f * (float)i;
            for (int64_t j = 0; j < problem.x_stride; j++)
                multiplied[i * problem.x_stride + j] = problem.x[i * problem.x_stride + j] * weights[i];
        }
        int32_t *device_order = on_device(order, sizeof order),
                *device_first = on_device(first, sizeof first);
        float *device_weights = on_device(weights, sizeof weights),
              *device_x = on_device(multiplied, n_x * sizeof *multiplied), *y[2];
        struct product_launch launch = {.n_experts = N_EXPERTS,
                                        .expert_first = device_first,
                                        .expert_order = device_order};
        launch.floats.weights = device_weights;
        y[0] = problem_compute(&problem, 0, N_ROWS, device_order, launch);
        launch.floats.weights = NULL;
        float *unweighed = problem_compute(&problem, 0, N_ROWS, device_order, launch),
              *own = problem.device_x;
        problem.device_x = device_x;
        y[1] = problem_compute(&problem, 0, N_ROWS, device_order, launch);
        problem.device_x = own;
        size_t y_bytes = (size_t)(N_ROWS * problem.y_stride) * sizeof(float);
        assert_memory_equal(y[0], y[1], y_bytes);
        assert_memory_not_equal(y[0], unweighed, y_bytes);
        free(y[0]);
        free(y[1]);
        free(unweighed);
        free(multiplied);
        device_free(device, device_order);
        device_free(device, device_first);
        device_free(device, device_weights);
        device_free(device, device_x);
        problem_free(&problem);
    }
}

TEST(experts_with_few_and_with_many_rows_give_each_row_its_bytes)
{
    static const int32_t few[] = {8, 0, 9, 16, 1, 17, 33}, // the skinny GEMM
        many[] = {3, 0, 132, 16, 64, 17, 1, 33};           // one tile of each shape, and the rest of one
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_Q8_0, TENSOR_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        assert_experts_alone(few, 7, types[t], 24);
        assert_experts_alone(many, 8, types[t], t == 0 ? 150 : 24); // of two blocks
    }
}

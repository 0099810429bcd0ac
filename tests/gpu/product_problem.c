#include "tests/gpu/product_problem.h"
#include "tests/support/cases.h"

#include "engine/file/dequantize.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/tiles.h"
#include "tests/kernel/product_data.h"
#include "tests/support/wide.h"

#include <math.h>

struct device *device;

bool open_device(void)
{
    struct error error;
    bool opened = device_open(&device, &(struct device_options){0}, &error) == STATUS_OK &&
                  device_load_kernels(device, &error) == STATUS_OK;
    print_message("%s%s\n", opened ? "on " : "skipped: ", opened ? device_facts(device)->name : error.text);
    return opened;
}

bool shapes_are_wide(void)
{
    return tests_are_wide() || !device_facts(device)->emulated;
}

void wait_for_device(void)
{
    struct error error;
    assert_ok(device_wait(device, &error), &error);
}

void *on_device(const void *items, size_t size)
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

float *floats_of(const float *memory, size_t n)
{
    float *pinned = device_pin(device, n * sizeof *pinned), *items = malloc(n * sizeof *items);
    assert_non_null(pinned);
    device_download(device, pinned, memory, n * sizeof *pinned);
    wait_for_device();
    memcpy(items, pinned, n * sizeof *items);
    device_unpin(device, pinned);
    return items;
}

float *random_rows(int64_t n_rows, int64_t n, int64_t stride, uint64_t *seed)
{
    float *rows = malloc((size_t)(n_rows * stride) * sizeof *rows);
    for (int64_t i = 0; i < n_rows * stride; i++)
        rows[i] = i % stride < n ? random_float(seed) * (i % 11 == 0 ? 30.0f : 1.0f) : NAN;
    return rows;
}

struct product_problem problem_make(struct tensor tensor, int32_t n_rows, int32_t n_matrices, uint64_t *seed)
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
    problem.factors = malloc((size_t)n_matrices * sizeof(float));
    for (int32_t i = 0; i < n_matrices; i++)
        problem.factors[i] = 0.9f - 0.0625f * (float)(i % 8);
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
    problem.device_factors = on_device(problem.factors, (size_t)n_matrices * sizeof(float));
    problem.device_y = device_allocate(device, (size_t)(n_rows * problem.y_stride) * sizeof(float));
    assert_non_null(problem.device_y);
    return problem;
}

void problem_free(struct product_problem *problem)
{
    free((void *)problem->tensor.data);
    free(problem->weights);
    free(problem->x);
    free(problem->bias);
    free(problem->factors);
    device_free(device, problem->device_x);
    device_free(device, problem->device_bias);
    device_free(device, problem->device_factors);
    device_free(device, problem->device_y);
    device_free(device, problem->device_tiles);
}

enum activation_operand_form form_of(enum tensor_type type)
{
    return type == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF;
}

float *problem_compute(const struct product_problem *problem, int32_t first, int32_t n, const int32_t *rows,
                       struct product_launch product)
{
    const float *x = problem->device_x + first * problem->x_stride;
    struct activation_operand operand = {
        form_of(problem->type),
        n,
        problem->n_inputs,
        device_allocate(device, activation_operand_bytes(n, problem->n_inputs)),
        device_allocate(device, (size_t)n * sizeof(float)),
        product_is_wgmma(device_facts(device)->has_wgmma, device_facts(device)->shared_bytes_max, n,
                         product.n_experts)};
    struct activation_operand_launch make = {operand, x, problem->x_stride, rows, 1, product.floats.weights};
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
        product.parts[0] =
            (struct product_part){problem->device_tiles, problem->device_bias, problem->device_y,
                                  problem->y_stride,     problem->n_outputs,   problem->device_factors};
    }
    launch_product(device_stream(device), &product);
    float *y = floats_of(problem->device_y, (size_t)(problem->n_rows * problem->y_stride));
    device_free(device, operand.items);
    device_free(device, operand.scales);
    return y;
}

float *compute_gated(const struct product_problem *problem, int32_t n, struct product_launch product,
                     bool in_one)
{
    int32_t half = problem->n_matrices / 2;
    uint64_t gate_bytes = (uint64_t)half * tiles_bytes(problem->type, problem->n_outputs, problem->n_inputs);
    size_t up_items = (size_t)(problem->n_rows * problem->y_stride);
    float *up = device_allocate(device, up_items * sizeof *up);
    device_zero(device, up, up_items * sizeof *up);
    product.n_parts = 2;
    product.gated = in_one;
    product.parts[0] =
        (struct product_part){problem->device_tiles, problem->device_bias, problem->device_y,
                              problem->y_stride,     problem->n_outputs,   problem->device_factors};
    product.parts[1] = product.parts[0];
    product.parts[1].tiles = (char *)problem->device_tiles + gate_bytes;
    product.parts[1].bias += half * problem->n_outputs;
    product.parts[1].factors += half;
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

double exact_product(const struct product_problem *problem, int32_t matrix, int32_t row, int32_t output,
                     double *size)
{
    double sum = (double)problem->bias[matrix * problem->n_outputs + output],
           factor = (double)problem->factors[matrix];
    const float *w = problem->weights + ((int64_t)matrix * problem->n_outputs + output) * problem->n_inputs;
    *size += sum * sum;
    for (int32_t k = 0; k < problem->n_inputs; k++) {
        double term = factor * (double)w[k] * (double)problem->x[row * problem->x_stride + k];
        sum += term;
        *size += term * term;
    }
    return sum;
}

double error_bound(enum tensor_type packed)
{
    return packed == TENSOR_F32 ? 1e-13 : packed == TENSOR_BF16 ? 1e-5 : 5e-7;
}

void assert_near_exact(const struct product_problem *problem, const float *y, int32_t n_rows,
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

int32_t odd_inputs(enum tensor_type type)
{
    int32_t items = (int32_t)tensor_traits(type)->block_items;
    return items == 1 ? 1093 : (1120 + items - 1) / items * items;
}

void assert_same_rows(const struct product_problem *problem, const float *y, const float *all, int32_t n,
                      int32_t first)
{
    for (int32_t row = 0; row < n; row++)
        if (memcmp(y + row * problem->y_stride, all + (first + row) * problem->y_stride,
                   (size_t)problem->n_outputs * sizeof *y) != 0)
            fail_msg("%s: row %d differs when %d are computed together from row %d",
                     tensor_traits(problem->type)->name, first + row, n, first);
}

enum { EXPERT_ROWS_MAX = 400, EXPERTS_MAX = 8 };

void assert_experts_alone(const int32_t *counts, int n_experts, enum tensor_type type, int32_t n_outputs)
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

// Of each program of products.
int main(void)
{
    if (!open_device())
        return 77; // skipped
    int n_failed = cases_run();
    device_close(device);
    return n_failed;
}

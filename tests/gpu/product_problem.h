// Weights with rows to multiply, on the device (or emulated) and on the host, for the programs that test the kernels
// of products. The device is one for all: open_device() opens it, main closes it.
#pragma once

#include "engine/file/tensor.h"
#include "gpu/device.h"
#include "gpu/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

extern struct device *device;

bool open_device(void); // false: there is none, which is printed
// Whether each type is multiplied in every shape: on a device, or where SHEAF_TEST_WIDE asks for it (tests/support/wide.h). Else the
// shapes are divided among the types.
bool shapes_are_wide(void);
void wait_for_device(void);
void *on_device(const void *items, size_t size);
float *floats_of(const float *memory, size_t n); // downloaded; the caller frees them

// Strides of x and y are 4 floats more than needed, and NAN in x.
struct product_problem {
    struct tensor tensor;
    enum tensor_type type; // as packed
    int32_t n_rows, n_outputs, n_inputs, n_matrices;
    int64_t x_stride, y_stride;
    float *weights;            // dequantized [n_matrices][n_outputs][n_inputs]
    float *x, *bias, *factors; // factors: additional ones [n_matrices]
    float *device_x, *device_bias, *device_factors, *device_y;
    void *device_tiles;
};

// The problem owns the tensor's memory. The tensor has the rows of n_matrices, concatenated.
struct product_problem problem_make(struct tensor tensor, int32_t n_rows, int32_t n_matrices, uint64_t *seed);
void problem_free(struct product_problem *problem);
// [n_rows][stride], of each row n numbers; the others are NAN. The caller frees them.
float *random_rows(int64_t n_rows, int64_t n, int64_t stride, uint64_t *seed);
enum activation_operand_form form_of(enum tensor_type type);
// Multiplies rows [first, first + n), or with `rows` those rows, through the kernels that n picks; y [n_rows][y_stride]
// from row 0 on, which the caller frees.
float *problem_compute(const struct product_problem *problem, int32_t first, int32_t n, const int32_t *rows,
                       struct product_launch product);
// The first half of the problem's matrices is the gate, the other half what it lets through; in one launch,
// or in one for both products and one for the activation.
float *compute_gated(const struct product_problem *problem, int32_t n, struct product_launch product,
                     bool in_one);

// `size` grows by the terms' squares, what the square of a sum of as many independent terms is on the
// average: a sum whose terms happen to cancel is not asked to be more precise than they are.
double exact_product(const struct product_problem *problem, int32_t matrix, int32_t row, int32_t output,
                     double *size);
// Normalized mean squared error that rounding weights and x once each explains, with some room.
double error_bound(enum tensor_type packed);
void assert_near_exact(const struct product_problem *problem, const float *y, int32_t n_rows,
                       const char *what);
// Rows 0.. of y are rows first.. of `all`.
void assert_same_rows(const struct product_problem *problem, const float *y, const float *all, int32_t n,
                      int32_t first);
// Experts of `counts` rows in one launch: each row has the bytes that it has alone.
void assert_experts_alone(const int32_t *counts, int n_experts, enum tensor_type type, int32_t n_outputs);
// Three chunks, the last one short; blocks that end inside a group.
int32_t odd_inputs(enum tensor_type type);

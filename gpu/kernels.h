// Launches of the products' and attention's kernels (others: gpu/kernels_*.h). Plain C, no CUDA header: `stream` is what
// device_stream gives, pointers are device memory, a launch only enqueues and its failure shows where the device is
// waited for. Structs are read before the call returns.
//
// Matrices are float32 [n_rows, stride], row-major; addresses and strides at multiples of 16 bytes (4 floats).
//
// What comes out for a row depends on that row alone (engine/backend.h), whichever kernel a number of rows picks.
#pragma once

#include "engine/model.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Operand: x as products read it ---
//
// 16-bit items [n_steps of 32 inputs][n_rows][4 lanes][8 items]: lane t of step s holds inputs
// 128 (s / 4) + 32 t + 8 (s % 4) + 0..7, which is what a lane of a warp needs in one load of 16 bytes; inputs are filled up
// with zeros to a multiple of 128. `scales` [n_rows] is what a row's products are multiplied by:
//   OPERAND_HALF    binary16 of x / scale, scale the power of 2 that brings the row's largest item to [2^14, 2^15): nothing
//                   overflows, and items down to 2^-28 of the largest keep all 11 bits
//   OPERAND_BFLOAT  bfloat16 of x, scale 1
// A row with an infinity or NaN has scale NaN and zeros.

enum operand_form { OPERAND_HALF, OPERAND_BFLOAT };

enum { OPERAND_ALIGNMENT = 128 }; // inputs

struct operand {
    enum operand_form form;
    int32_t n_rows, n_inputs;
    void *items;   // operand_items_bytes
    float *scales; // [n_rows]
};

static inline uint64_t operand_items_bytes(int32_t n_rows, int32_t n_inputs)
{
    uint64_t filled = ((uint64_t)n_inputs + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * OPERAND_ALIGNMENT;
    return (uint64_t)n_rows * filled * 2;
}

struct operand_launch {
    struct operand out;
    const float *x;
    int64_t x_stride;
    // NULL: row i of x becomes row i. Else row rows[i] / rows_divisor, for pairs of a row and an expert that are sorted by
    // expert.
    const int32_t *rows;
    int32_t rows_divisor;
};

void launch_operand(void *stream, const struct operand_launch *operand);

#ifdef __cplusplus
}
#endif

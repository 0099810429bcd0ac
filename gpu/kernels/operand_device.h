// For kernels: writes the activation operand (gpu/kernels/kernels.h draws it). A piece is 8 inputs of a row,
// one load of a GEMM lane.
#pragma once

#include "gpu/kernels/kernel.h"
#include "gpu/kernels/kernels.h"

enum { PIECE = 8 };

// Address of the piece that begins at input `first`, in an operand that is not swizzled. All kernels that
// write operands use this function or operand_swizzled_place; no other code computes the layouts.
static __device__ __forceinline__ uint4 *operand_place(const struct activation_operand &out, int32_t row,
                                                       int32_t first)
{
    int32_t step = first / 128 * 4 + first % 32 / PIECE, lane = first % 128 / 32;
    return (uint4 *)out.items + ((int64_t)step * out.n_rows + row) * 4 + lane;
}

// Address of the row's swizzled piece `index`, counted over all halves of groups.
static __device__ __forceinline__ uint4 *operand_swizzled_place(const struct activation_operand &out,
                                                                int32_t row, int32_t index)
{
    int64_t half_row = (int64_t)(index / 8) * swizzled_rows(out.n_rows) + row;
    return (uint4 *)out.items + half_row * 8 + ((index ^ row) & 7);
}

// Number of inputs of a row, including padding.
static __device__ __forceinline__ int32_t operand_width(const struct activation_operand &out)
{
    return (out.n_inputs + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * OPERAND_ALIGNMENT;
}

static __device__ __forceinline__ float power_of_2(int exponent) // the result must be a normal number
{
    return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

// A row's scale, from the bits of its largest absolute value. Absolute values compare like their bits; NaN is
// the largest.
struct operand_scale {
    int exponent;
    bool finite;
};

static __device__ __forceinline__ uint32_t absolute_bits(float x)
{
    return __float_as_uint(x) & 0x7FFFFFFFu;
}

static __device__ __forceinline__ operand_scale find_scale(enum activation_operand_form form,
                                                           uint32_t largest)
{
    operand_scale scale = {0, largest < 0x7F800000u};
    if (form != OPERAND_HALF || !scale.finite || largest == 0)
        return scale;
    int exponent = (int)(largest >> 23) - 127 - 14;
    scale.exponent = exponent < -100 ? -100 : exponent; // 2^-exponent must be a normal number
    return scale;
}

static __device__ __forceinline__ float scale_value(operand_scale scale)
{
    return scale.finite ? power_of_2(scale.exponent) : __uint_as_float(0x7FC00000u);
}

// Factor by which a GEMM multiplies the sums of a row.
static __device__ __forceinline__ float row_scale(const struct activation_operand &x, int32_t row)
{
    return x.scale != 0.0f ? x.scale : x.scales[row];
}

// Packs two inputs; `factor` is 2^-exponent.
static __device__ __forceinline__ uint32_t pack_pair(enum activation_operand_form form, operand_scale scale,
                                                     float factor, float low, float high)
{
    low *= factor;
    high *= factor;
    uint32_t pair = form == OPERAND_HALF ? half2_make(low, high) : bfloat2_make(low, high);
    return scale.finite ? pair : 0;
}

// Divides an item by the scale of all rows. The result is not rounded yet.
static __device__ __forceinline__ float scaled_item(const struct activation_operand &out, float item)
{
    float largest = out.form == OPERAND_HALF ? 65504.0f : __uint_as_float(0x7F7F0000u);
    float scaled = item * __uint_as_float(0x7F000000u - __float_as_uint(out.scale)); // scale: power of 2
    return absolute_bits(item) < 0x7F800000u ? fminf(fmaxf(scaled, -largest), largest)
                                             : __uint_as_float(0x7FC00000u);
}

// Packs two inputs with the scale of all rows.
static __device__ __forceinline__ uint32_t pack_scaled(const struct activation_operand &out, float low,
                                                       float high)
{
    low = scaled_item(out, low);
    high = scaled_item(out, high);
    return out.form == OPERAND_HALF ? half2_make(low, high) : bfloat2_make(low, high);
}

// Stores one input of an operand that is not swizzled, with the scale of all rows.
static __device__ __forceinline__ void put_scaled(const struct activation_operand &out, int32_t row,
                                                  int32_t input, float item)
{
    uint16_t *piece = (uint16_t *)operand_place(out, row, input / PIECE * PIECE);
    piece[input % PIECE] = (uint16_t)pack_scaled(out, item, 0.0f);
}

// Quantizes float rows to the tensor types of model files, which engine/file/dequantize.h reads back.
// Deterministic: the bytes depend on the items alone, not on threads or the instruction set. Any thread.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/base/error.h"

// True if quantize_items can write the type: F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K.
bool quantize_knows(enum tensor_type type);

// Writes `n_items` items (a multiple of the type's block) as blocks. Searches for the integers and scales of
// a block with the least sum of squared errors. Values that the type can represent are exact. Errors:
// STATUS_REFUSE, ERROR_MODEL_FILE with the index of a NaN, an infinity, or an item beyond the type's range.
enum status quantize_items(enum tensor_type type, const float *items, size_t n_items, void *blocks,
                           struct error *error) WARN_UNUSED;

// Converts to IEEE 754 binary16, rounding to nearest, ties to even. Values beyond its range become infinity.
uint16_t float_to_half(float value);

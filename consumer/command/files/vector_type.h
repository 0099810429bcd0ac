// The types in which sheaf embed writes the items of a vector.
//
//   f32      little-endian binary32
//   f16      little-endian binary16, to nearest
//   int8     round(127 x), for vectors of length 1: one scale for all rows, so that products stay comparable
//   binary   a bit for each item, 1 if it is above 0; the first item is the highest bit of the first byte
//            (numpy.packbits)
// Thread: any.
#pragma once

#include "schemas/base/text.h"

#include <stdint.h>

enum vector_type { VECTOR_F32, VECTOR_F16, VECTOR_INT8, VECTOR_BINARY, VECTOR_TYPE_COUNT };

bool vector_type_find(const char *name, enum vector_type *type);
// NumPy's dtype of an item; of VECTOR_BINARY a byte of eight items.
const char *vector_type_descr(enum vector_type type);
// Items of the row in NumPy, and its bytes, of a vector of n_dimensions.
size_t vector_type_items(enum vector_type type, int32_t n_dimensions);
size_t vector_type_bytes(enum vector_type type, int32_t n_dimensions);
// bytes: [vector_type_bytes]. NaN becomes NaN of f32 and f16, else 0.
void vector_type_convert(enum vector_type type, const float *vector, int32_t n_dimensions,
                         unsigned char *bytes);

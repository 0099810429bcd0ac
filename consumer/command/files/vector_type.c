#include "consumer/command/files/vector_type.h"

#include "engine/file/quantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name, *descr;
    size_t item_bytes; // 0: bits
} types[VECTOR_TYPE_COUNT] = {[VECTOR_F32] = {"f32", "<f4", 4},
                              [VECTOR_F16] = {"f16", "<f2", 2},
                              [VECTOR_INT8] = {"int8", "|i1", 1},
                              [VECTOR_BINARY] = {"binary", "|u1", 0}};

bool vector_type_find(const char *name, enum vector_type *type)
{
    for (int i = 0; i < VECTOR_TYPE_COUNT; i++)
        if (strcmp(name, types[i].name) == 0) {
            *type = (enum vector_type)i;
            return true;
        }
    return false;
}

const char *vector_type_descr(enum vector_type type)
{
    return types[type].descr;
}

size_t vector_type_items(enum vector_type type, int32_t n_dimensions)
{
    return type == VECTOR_BINARY ? ((size_t)n_dimensions + 7) / 8 : (size_t)n_dimensions;
}

size_t vector_type_bytes(enum vector_type type, int32_t n_dimensions)
{
    size_t n_items = vector_type_items(type, n_dimensions);
    return type == VECTOR_BINARY ? n_items : n_items * types[type].item_bytes;
}

static int8_t to_int8(float item)
{
    float scaled = roundf(item * 127.0f);
    return isnan(scaled) ? 0 : scaled > 127 ? 127 : scaled < -127 ? -127 : (int8_t)scaled;
}

void vector_type_convert(enum vector_type type, const float *vector, int32_t n_dimensions,
                         unsigned char *bytes)
{
    switch (type) {
    case VECTOR_F32:
        memcpy(bytes, vector, vector_type_bytes(type, n_dimensions));
        return;
    case VECTOR_F16:
        for (int32_t i = 0; i < n_dimensions; i++) {
            uint16_t half = isnan(vector[i]) ? 0x7E00 : float_to_half(vector[i]);
            memcpy(bytes + 2 * (size_t)i, &half, sizeof half);
        }
        return;
    case VECTOR_INT8:
        for (int32_t i = 0; i < n_dimensions; i++)
            bytes[i] = (unsigned char)to_int8(vector[i]);
        return;
    case VECTOR_BINARY:
        memset(bytes, 0, vector_type_bytes(type, n_dimensions));
        for (int32_t i = 0; i < n_dimensions; i++)
            if (vector[i] > 0)
                bytes[i / 8] |= (unsigned char)(0x80 >> i % 8);
        return;
    case VECTOR_TYPE_COUNT:
        break;
    }
    assert(!"a type of vectors");
}

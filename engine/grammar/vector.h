// Growing arrays of this room. Internal to engine/grammar/.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// Room for `needed` items in *items (of the heap, of *capacity items); false when memory runs out, and then
// nothing changed.
static inline bool vector_reserve(void **items, size_t *capacity, size_t needed, size_t item_bytes)
{
    if (needed <= *capacity)
        return true;
    size_t wanted = *capacity < 16 ? 16 : *capacity * 2;
    if (wanted < needed)
        wanted = needed;
    size_t bytes;
    if (__builtin_mul_overflow(wanted, item_bytes, &bytes))
        return false;
    void *memory = realloc(*items, bytes);
    if (!memory)
        return false;
    *items = memory;
    *capacity = wanted;
    return true;
}

#define VECTOR(type)                                                                                         \
    struct {                                                                                                 \
        type *items;                                                                                         \
        size_t n, capacity;                                                                                  \
    }
#define VECTOR_RESERVE(vector, needed)                                                                       \
    vector_reserve((void **)&(vector)->items, &(vector)->capacity, (needed), sizeof *(vector)->items)
#define VECTOR_ADD(vector, item)                                                                             \
    (VECTOR_RESERVE(vector, (vector)->n + 1) ? ((vector)->items[(vector)->n++] = (item), true) : false)
#define VECTOR_FINISH(vector)                                                                                \
    (free((vector)->items), (vector)->items = NULL, (vector)->n = (vector)->capacity = 0)

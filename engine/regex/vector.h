// Growing arrays. Internal to engine/regex/, engine/grammar/ and engine/json_schema/.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// Reserves room for `needed` items in *items, a heap array of *capacity items. False: out of memory; nothing
// has changed.
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

// Growing arrays of blocks, whose items never move. Reallocating megabytes, which the kernel also zeroes,
// took milliseconds.
enum { BLOCK_ITEMS = 512 };

#define BLOCKS(type)                                                                                         \
    struct {                                                                                                 \
        type **items;                                                                                        \
        size_t n, capacity; /* blocks that there is room for in `items` */                                   \
    }
#define BLOCK_ITEM(blocks, i) ((blocks)->items[(i) / BLOCK_ITEMS][(i) % BLOCK_ITEMS])

// Reserves room for one item after n items.
static inline bool blocks_reserve(void ***items, size_t *capacity, size_t n, size_t item_bytes)
{
    if (n % BLOCK_ITEMS)
        return true;
    if (!vector_reserve((void **)items, capacity, n / BLOCK_ITEMS + 1, sizeof **items))
        return false;
    return ((*items)[n / BLOCK_ITEMS] = malloc(BLOCK_ITEMS * item_bytes)) != NULL;
}

static inline void blocks_free(void **items, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK_ITEMS)
        free(items[i / BLOCK_ITEMS]);
    free(items);
}

#define BLOCKS_ADD(blocks, item)                                                                             \
    (blocks_reserve((void ***)&(blocks)->items, &(blocks)->capacity, (blocks)->n, sizeof **(blocks)->items)  \
         ? (BLOCK_ITEM(blocks, (blocks)->n) = (item), (blocks)->n++, true)                                   \
         : false)
#define BLOCKS_FINISH(blocks)                                                                                \
    (blocks_free((void **)(blocks)->items, (blocks)->n), (blocks)->items = NULL,                             \
     (blocks)->n = (blocks)->capacity = 0)

#include "engine/tokenizer/tokenizer.h"

#include <stdlib.h>

__attribute__((noinline)) bool token_array_grow(struct token_array *array, size_t extra)
{
    while (array->capacity - array->n_ids < extra) {
        size_t capacity = array->capacity ? 2 * array->capacity : 512;
        int32_t *ids =
            capacity <= SIZE_MAX / sizeof *ids ? realloc(array->ids, capacity * sizeof *ids) : NULL;
        if (!ids) {
            array->failed = true;
            return false;
        }
        array->ids = ids;
        array->capacity = capacity;
    }
    return true;
}

void token_array_add(struct token_array *array, int32_t id)
{
    if (!array->failed && (array->n_ids < array->capacity || token_array_grow(array, 1)))
        array->ids[array->n_ids++] = id;
}

void token_array_finish(struct token_array *array)
{
    free(array->ids);
    *array = (struct token_array){0};
}

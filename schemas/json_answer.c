#include "schemas/json_answer.h"

#include "schemas/json_read.h"

enum status json_decode_answer(struct text input, struct arena *arena, struct value *value,
                               struct error *error)
{
    char *strings = arena_allocate(arena, input.size + 1);
    *value = (struct value){.kind = VALUE_NULL};
    if (!strings)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY,
                         "json: no memory for an answer of %zu bytes", input.size);
    return json_read(input, VALUE_COUNT_MAX, JSON_SPELLED | JSON_LAST_MEMBER, arena, strings, value, error);
}

#include "tests/unit/schemas/library_json.h"

#include <assert.h>
#include <string.h>

#include <jansson.h>

static struct text copy_string(struct arena *arena, const char *data, size_t size)
{
    char *copy = arena_allocate(arena, size);
    assert(copy);
    memcpy(copy, data, size);
    return (struct text){copy, size};
}

static struct value copy_value(struct arena *arena, json_t *json);

static struct value copy_array(struct arena *arena, json_t *json)
{
    struct value array;
    bool created = value_array_create(arena, json_array_size(json), &array);
    assert(created);
    for (size_t i = 0; i < array.array.n_items; i++)
        array.array.items[i] = copy_value(arena, json_array_get(json, i));
    return array;
}

static struct value copy_object(struct arena *arena, json_t *json)
{
    struct value object;
    bool created = value_object_create(arena, json_object_size(json), &object);
    assert(created);
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        struct value_member *member = &object.object.members[object.object.n_members++];
        member->key = copy_string(arena, json_object_iter_key(at), json_object_iter_key_len(at));
        member->value = copy_value(arena, json_object_iter_value(at));
    }
    return object;
}

static struct value copy_value(struct arena *arena, json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return value_bool(json_is_true(json));
    case JSON_INTEGER:
        return value_integer(json_integer_value(json));
    case JSON_REAL:
        return value_float(json_real_value(json));
    case JSON_STRING:
        return value_string(copy_string(arena, json_string_value(json), json_string_length(json)));
    case JSON_ARRAY:
        return copy_array(arena, json);
    case JSON_OBJECT:
        return copy_object(arena, json);
    default:
        return (struct value){.kind = VALUE_NULL};
    }
}

bool library_json_read(struct text input, struct arena *arena, struct value *value)
{
    json_error_t fault;
    json_t *json = json_loadb(input.size ? input.data : "", input.size,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
    if (!json)
        return false;
    *value = copy_value(arena, json);
    json_decref(json);
    return true;
}

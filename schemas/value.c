#include "schemas/value.h"

#include "schemas/base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Objects with at most this number of members compare every pair, which is faster than sorting. Most objects
// are small.
enum { PAIRWISE_MEMBERS_MAX = 24 };

const struct value *value_get(const struct value *object, const char *key)
{
    if (object->kind != VALUE_OBJECT)
        return NULL;
    struct text wanted = text_from_string(key);
    for (size_t i = 0; i < object->object.n_members; i++)
        if (text_equal(object->object.members[i].key, wanted))
            return &object->object.members[i].value;
    return NULL;
}

const char *value_kind_name(enum value_kind kind)
{
    switch (kind) {
    case VALUE_NULL:
        return "null";
    case VALUE_BOOL:
        return "boolean";
    case VALUE_INTEGER:
        return "integer";
    case VALUE_FLOAT:
        return "float";
    case VALUE_STRING:
        return "string";
    case VALUE_BYTES:
        return "bytes";
    case VALUE_ARRAY:
        return "array";
    case VALUE_OBJECT:
        return "object";
    }
    assert(!"value kind");
    return "";
}

static bool arrays_equal(const struct value *a, const struct value *b)
{
    if (a->array.n_items != b->array.n_items)
        return false;
    for (size_t i = 0; i < a->array.n_items; i++)
        if (!value_equal(&a->array.items[i], &b->array.items[i]))
            return false;
    return true;
}

static bool objects_equal(const struct value *a, const struct value *b)
{
    if (a->object.n_members != b->object.n_members)
        return false;
    for (size_t i = 0; i < a->object.n_members; i++) {
        const struct value_member *left = &a->object.members[i], *right = &b->object.members[i];
        if (!text_equal(left->key, right->key) || !value_equal(&left->value, &right->value))
            return false;
    }
    return true;
}

bool value_whole_number(const struct value *value, int64_t *integer)
{
    if (value_is_long_integer(value)) // `number` is rounded
        return false;
    if (value->kind == VALUE_INTEGER)
        *integer = value->integer;
    else if (value->kind == VALUE_FLOAT && value->number == trunc(value->number) &&
             value->number >= -0x1p63 && value->number < 0x1p63)
        *integer = (int64_t)value->number;
    else
        return false;
    return true;
}

bool value_is_long_integer(const struct value *value)
{
    return value->kind == VALUE_FLOAT && value->digits &&
           strspn(value->digits, "-0") < strlen(value->digits) && !strpbrk(value->digits, ".eE");
}

// Compares floats of either width. The float32 0.7 is not the double 0.7, but both are written "0.7".
static bool floats_equal(const struct value *a, const struct value *b)
{
    if (a->digits && b->digits)
        return strcmp(a->digits, b->digits) == 0;
    return a->single == b->single ? a->number == b->number : (float)a->number == (float)b->number;
}

bool value_equal(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_NULL:
        return true;
    case VALUE_BOOL:
        return a->boolean == b->boolean;
    case VALUE_INTEGER:
        return a->integer == b->integer;
    case VALUE_FLOAT:
        return floats_equal(a, b);
    case VALUE_STRING:
    case VALUE_BYTES:
        return text_equal(a->text, b->text);
    case VALUE_ARRAY:
        return arrays_equal(a, b);
    case VALUE_OBJECT:
        return objects_equal(a, b);
    }
    return false;
}

static bool copy_text(struct text text, struct arena *arena, struct text *copy)
{
    *copy = (struct text){arena_copy(arena, text.data, text.size), text.size};
    return copy->data != NULL;
}

bool value_copy(const struct value *value, struct arena *arena, struct value *copy)
{
    *copy = *value;
    if (value->kind == VALUE_STRING || value->kind == VALUE_BYTES)
        return copy_text(value->text, arena, &copy->text);
    if (value->kind == VALUE_FLOAT && value->digits)
        return (copy->digits = arena_copy(arena, value->digits, strlen(value->digits) + 1)) != NULL;
    if (value->kind == VALUE_ARRAY) {
        size_t n = value->array.n_items;
        copy->array.items = arena_allocate_array(arena, n + 1, sizeof *copy->array.items);
        for (size_t i = 0; i < n && copy->array.items; i++)
            if (!value_copy(&value->array.items[i], arena, &copy->array.items[i]))
                return false;
        return copy->array.items != NULL;
    }
    if (value->kind == VALUE_OBJECT) {
        size_t n = value->object.n_members;
        copy->object.members = arena_allocate_array(arena, n + 1, sizeof *copy->object.members);
        for (size_t i = 0; i < n && copy->object.members; i++)
            if (!copy_text(value->object.members[i].key, arena, &copy->object.members[i].key) ||
                !value_copy(&value->object.members[i].value, arena, &copy->object.members[i].value))
                return false;
        return copy->object.members != NULL;
    }
    return true;
}

bool value_has_bytes(const struct value *value)
{
    if (value->kind == VALUE_ARRAY)
        for (size_t i = 0; i < value->array.n_items; i++)
            if (value_has_bytes(&value->array.items[i]))
                return true;
    if (value->kind == VALUE_OBJECT)
        for (size_t i = 0; i < value->object.n_members; i++)
            if (value_has_bytes(&value->object.members[i].value))
                return true;
    return value->kind == VALUE_BYTES;
}

static int compare_keys(const void *left, const void *right)
{
    const struct text *a = *(const struct text *const *)left, *b = *(const struct text *const *)right;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return a->size ? memcmp(a->data, b->data, a->size) : 0;
}

// Sorts instead of hashing, so that no choice of keys can make it slow.
static bool find_duplicate_sorted(const struct value_member *members, size_t n_members,
                                  const struct text **duplicate)
{
    const struct text **keys = calloc(n_members, sizeof *keys);
    if (!keys)
        return false;
    for (size_t i = 0; i < n_members; i++)
        keys[i] = &members[i].key;
    qsort(keys, n_members, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n_members && !*duplicate; i++)
        if (text_equal(*keys[i - 1], *keys[i]))
            *duplicate = keys[i];
    free(keys);
    return true;
}

bool value_find_duplicate(const struct value *object, const struct text **duplicate)
{
    const struct value_member *members = object->object.members;
    size_t n_members = object->object.n_members;
    *duplicate = NULL;
    if (n_members > PAIRWISE_MEMBERS_MAX)
        return find_duplicate_sorted(members, n_members, duplicate);
    for (size_t i = 1; i < n_members; i++)
        for (size_t j = 0; j < i; j++)
            if (text_equal(members[i].key, members[j].key))
                *duplicate = &members[i].key;
    return true;
}

uint64_t value_hash(const struct value *value, uint64_t seed)
{
    uint64_t hash = hash_bytes(&value->kind, sizeof value->kind, seed);
    // Equal floats must hash equally, as in value_equal: either width, and -0 equals 0.
    float number = value->kind == VALUE_FLOAT ? (float)value->number + 0.0f : 0;
    switch (value->kind) {
    case VALUE_NULL:
        break;
    case VALUE_BOOL:
        return hash_bytes(&value->boolean, sizeof value->boolean, hash);
    case VALUE_INTEGER:
        return hash_bytes(&value->integer, sizeof value->integer, hash);
    case VALUE_FLOAT:
        return hash_bytes(&number, sizeof number, hash);
    case VALUE_STRING:
    case VALUE_BYTES:
        return hash_bytes(value->text.data, value->text.size, hash);
    case VALUE_ARRAY:
        for (size_t i = 0; i < value->array.n_items; i++)
            hash = value_hash(&value->array.items[i], hash);
        break;
    case VALUE_OBJECT:
        for (size_t i = 0; i < value->object.n_members; i++) {
            const struct value_member *member = &value->object.members[i];
            hash = value_hash(&member->value, hash_bytes(member->key.data, member->key.size, hash));
        }
        break;
    }
    return hash;
}

struct value value_string(struct text text)
{
    return (struct value){.kind = VALUE_STRING, .text = text};
}

struct value value_integer(int64_t integer)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

struct value value_float(double number)
{
    return (struct value){.kind = VALUE_FLOAT, .number = number};
}

struct value value_single(float number)
{
    return (struct value){.kind = VALUE_FLOAT, .single = true, .number = (double)number};
}

struct value value_bool(bool boolean)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

bool value_array_create(struct arena *arena, size_t n_items, struct value *array)
{
    *array = (struct value){.kind = VALUE_ARRAY};
    array->array.items = arena_allocate_array(arena, n_items, sizeof(struct value));
    array->array.n_items = array->array.items ? n_items : 0;
    return array->array.items != NULL;
}

bool value_object_create(struct arena *arena, size_t n_members_max, struct value *object)
{
    *object = (struct value){.kind = VALUE_OBJECT};
    object->object.members = arena_allocate_array(arena, n_members_max, sizeof(struct value_member));
    return object->object.members != NULL;
}

void value_put(struct value *object, const char *key, struct value member)
{
    object->object.members[object->object.n_members++] =
        (struct value_member){.key = text_from_string(key), .value = member};
}

// In a JSON pointer "~1" is '/' and "~0" is '~' (RFC 6901).
static bool equals_escaped(struct text name, struct text escaped)
{
    size_t n = 0;
    for (size_t i = 0; i < escaped.size; i++, n++) {
        char byte = escaped.data[i];
        if (byte == '~' && i + 1 < escaped.size)
            byte = escaped.data[++i] == '1' ? '/' : '~';
        if (n == name.size || name.data[n] != byte)
            return false;
    }
    return n == name.size;
}

const struct value *value_at_pointer(const struct value *root, struct text pointer)
{
    if (text_equals_string(pointer, "#"))
        return root;
    if (pointer.size < 2 || memcmp(pointer.data, "#/", 2) != 0)
        return NULL;
    const char *at = pointer.data + 2, *end = pointer.data + pointer.size;
    while (root && at <= end) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        struct text name = {at, (size_t)((slash ? slash : end) - at)};
        const struct value *member = NULL;
        for (size_t i = 0; root->kind == VALUE_OBJECT && i < root->object.n_members; i++)
            if (equals_escaped(root->object.members[i].key, name))
                member = &root->object.members[i].value;
        root = member;
        at = slash ? slash + 1 : end + 1;
    }
    return root;
}

#include "engine/template/object.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

struct object object_undefined_hint(const char *hint)
{
    return object_undefined(UNDEFINED_HINT, text_from_string(hint));
}

static const char *const view_names[] = {
    [VIEW_KEYS] = "dict_keys", [VIEW_VALUES] = "dict_values", [VIEW_ITEMS] = "dict_items"};

const char *object_type_name(const struct object *object)
{
    static const char *const names[] = {
        [OBJECT_MISSING] = "Undefined",
        [OBJECT_UNDEFINED] = "Undefined",
        [OBJECT_NONE] = "NoneType",
        [OBJECT_BOOL] = "bool",
        [OBJECT_INTEGER] = "int",
        [OBJECT_FLOAT] = "float",
        [OBJECT_STRING] = "str",
        [OBJECT_LIST] = "list",
        [OBJECT_TUPLE] = "tuple",
        [OBJECT_DICT] = "dict",
        [OBJECT_RANGE] = "range",
        [OBJECT_VIEW] = "dict_keys",
        [OBJECT_GENERATOR] = "generator",
        [OBJECT_NAMESPACE] = "Namespace",
        [OBJECT_LOOP] = "LoopContext",
        [OBJECT_MACRO] = "Macro",
        [OBJECT_FUNCTION] = "builtin_function_or_method",
    };
    if (object->kind == OBJECT_VIEW)
        return view_names[object->detail];
    return names[object->kind];
}

// As jinja's messages name an owner: "dict object", "None".
static const char *owner_name(enum object_kind kind)
{
    static const char *const names[] = {
        [OBJECT_NONE] = "None",          [OBJECT_BOOL] = "bool object",  [OBJECT_INTEGER] = "int object",
        [OBJECT_FLOAT] = "float object", [OBJECT_STRING] = "str object", [OBJECT_LIST] = "list object",
        [OBJECT_TUPLE] = "tuple object", [OBJECT_DICT] = "dict object",
    };
    return kind <= OBJECT_DICT && names[kind] ? names[kind] : "object";
}

bool object_truth(const struct object *object)
{
    switch ((enum object_kind)object->kind) {
    case OBJECT_MISSING:
    case OBJECT_UNDEFINED:
    case OBJECT_NONE:
        return false;
    case OBJECT_BOOL:
        return object->boolean;
    case OBJECT_INTEGER:
        return object->integer != 0;
    case OBJECT_FLOAT:
        return object->number != 0;
    case OBJECT_STRING:
        return object->text.size > 0;
    case OBJECT_LIST:
    case OBJECT_TUPLE:
        return object->sequence->n_items > 0;
    case OBJECT_DICT:
    case OBJECT_VIEW:
        return object->dict->n_entries > 0;
    case OBJECT_RANGE:
        return object->range->n_items > 0;
    case OBJECT_GENERATOR:
    case OBJECT_NAMESPACE:
    case OBJECT_LOOP: // its length is at least 1 while it exists
    case OBJECT_MACRO:
    case OBJECT_FUNCTION:
        break;
    }
    return true;
}

bool object_length(struct rendering *rendering, const struct object *object, int64_t *length,
                   bool *has_length)
{
    *has_length = true;
    switch ((enum object_kind)object->kind) {
    case OBJECT_UNDEFINED:
        *length = 0;
        return true;
    case OBJECT_STRING:
        *length = (int64_t)codepoints_count(object->text);
        return rendering_spend_bytes(rendering, object->text.size);
    case OBJECT_LIST:
    case OBJECT_TUPLE:
        *length = (int64_t)object->sequence->n_items;
        return true;
    case OBJECT_DICT:
    case OBJECT_VIEW:
        *length = object->dict->n_entries;
        return true;
    case OBJECT_RANGE:
        *length = object->range->n_items;
        return true;
    case OBJECT_LOOP:
        return loop_length(rendering, object->loop, length);
    default:
        *has_length = false;
        return true;
    }
}

// Exact, as Python compares: a large integer is not rounded to a double first.
static int compare_numbers(const struct object *a, const struct object *b)
{
    if (object_is_integral(a) && object_is_integral(b)) {
        int64_t x = object_to_integer(a), y = object_to_integer(b);
        return (x > y) - (x < y);
    }
    double x = object_to_double(a), y = object_to_double(b);
    if (x != y || a->kind == b->kind)
        return (x > y) - (x < y);
    // Equal after rounding, and below 2^63 in magnitude or exactly there.
    bool a_is_float = a->kind == OBJECT_FLOAT;
    double number = a_is_float ? x : y;
    int64_t integer = object_to_integer(a_is_float ? b : a);
    int order; // of the integer against the float
    if (number >= 0x1p63)
        order = -1;
    else
        order = (integer > (int64_t)number) - (integer < (int64_t)number);
    return a_is_float ? -order : order;
}

static bool is_nan(const struct object *object)
{
    return object->kind == OBJECT_FLOAT && isnan(object->number);
}

static bool same_pointer(const struct object *a, const struct object *b)
{
    return a->kind == b->kind && a->sequence == b->sequence;
}

static bool sequences_equal(struct rendering *rendering, const struct sequence *a, const struct sequence *b,
                            bool *equal)
{
    *equal = a->n_items == b->n_items;
    for (size_t i = 0; *equal && i < a->n_items; i++)
        if (!object_equal(rendering, &a->items[i], &b->items[i], equal))
            return false;
    return true;
}

static bool dicts_equal(struct rendering *rendering, struct dict *a, struct dict *b, bool *equal)
{
    *equal = a->n_entries == b->n_entries;
    for (size_t i = 0; *equal && i < a->n_entries; i++) {
        const struct object *other;
        if (!dict_find(rendering, b, &a->entries[i].key, &other))
            return false;
        if (!other)
            *equal = false;
        else if (!object_equal(rendering, &a->entries[i].value, other, equal))
            return false;
    }
    return true;
}

static bool containers_equal(struct rendering *rendering, const struct object *a, const struct object *b,
                             bool *equal)
{
    if (!rendering_spend(rendering, 1) || !rendering_enter(rendering))
        return false;
    bool ok;
    if (a->kind == OBJECT_DICT)
        ok = dicts_equal(rendering, a->dict, b->dict, equal);
    else
        ok = sequences_equal(rendering, a->sequence, b->sequence, equal);
    rendering_leave(rendering);
    return ok;
}

bool object_equal(struct rendering *rendering, const struct object *a, const struct object *b, bool *equal)
{
    if (object_is_number(a) && object_is_number(b)) {
        *equal = !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
        return true;
    }
    *equal = a->kind == b->kind;
    if (!*equal)
        return true;
    switch ((enum object_kind)a->kind) {
    case OBJECT_STRING:
        *equal = text_equal(a->text, b->text);
        return a->text.size != b->text.size || rendering_spend_bytes(rendering, a->text.size);
    case OBJECT_LIST:
    case OBJECT_TUPLE:
    case OBJECT_DICT:
        return same_pointer(a, b) || containers_equal(rendering, a, b, equal);
    case OBJECT_UNDEFINED:
    case OBJECT_NONE:
        return true;
    case OBJECT_NAMESPACE:
    case OBJECT_MACRO:
    case OBJECT_LOOP:
        *equal = same_pointer(a, b);
        return true;
    default:
        return rendering_fail(rendering, "comparing '%s' objects is not supported", object_type_name(a));
    }
}

static int compare_texts(struct text a, struct text b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0; // the order of bytes is that of codepoints
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

bool object_compare(struct rendering *rendering, const struct object *a, const struct object *b,
                    const char *symbol, int *order)
{
    if (object_is_number(a) && object_is_number(b)) {
        *order = compare_numbers(a, b);
        return true;
    }
    if (a->kind == OBJECT_UNDEFINED || b->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, a->kind == OBJECT_UNDEFINED ? a : b);
    if (a->kind == OBJECT_STRING && b->kind == OBJECT_STRING) {
        *order = compare_texts(a->text, b->text);
        return rendering_spend_bytes(rendering, a->text.size);
    }
    return rendering_fail(rendering, "'%s' not supported between instances of '%s' and '%s'", symbol,
                          object_type_name(a), object_type_name(b));
}

bool object_fail_undefined(struct rendering *rendering, const struct object *undefined)
{
    int size = codepoints_cut(undefined->text);
    const char *data = undefined->text.data ? undefined->text.data : "";
    const char *owner = owner_name(undefined->owner);
    switch ((enum undefined_reason)undefined->detail) {
    case UNDEFINED_NAME:
        return rendering_fail(rendering, "'%.*s' is undefined", size, data);
    case UNDEFINED_ATTRIBUTE:
        return rendering_fail(rendering, "'%s' has no attribute '%.*s'", owner, size, data);
    case UNDEFINED_ELEMENT:
        return rendering_fail(rendering, "%s has no element %.*s", owner, size, data);
    case UNDEFINED_UNSAFE:
        return rendering_fail(rendering, "access to attribute '%.*s' of '%s' is unsafe", size, data, owner);
    case UNDEFINED_HINT:
        break;
    }
    return rendering_fail(rendering, "%.*s", size, data);
}

// The interpreter's own texts always point somewhere, empty ones too.
static bool string_from_text(struct rendering *rendering, struct text text, struct object *string)
{
    *string = object_string(text.data ? text : TEXT(""));
    return !rendering->environment->content || provenance_mark(rendering, text.data, text.size);
}

// "user", "tool_response": nothing that could be, or end, a control token by itself.
static bool is_plain_role(struct text key, const struct value *value)
{
    if (!text_equals_string(key, "role") || value->kind != VALUE_STRING)
        return false;
    for (size_t i = 0; i < value->text.size; i++)
        if (!isalnum((unsigned char)value->text.data[i]) && value->text.data[i] != '_' &&
            value->text.data[i] != '-')
            return false;
    return true;
}

static bool array_from_value(struct rendering *rendering, const struct value *value, struct object *object)
{
    struct object *items;
    if (!list_allocate(rendering, value->array.n_items, OBJECT_LIST, &items, object))
        return false;
    for (size_t i = 0; i < value->array.n_items; i++)
        if (!object_from_value(rendering, &value->array.items[i], &items[i]))
            return false;
    return true;
}

static bool object_from_object(struct rendering *rendering, const struct value *value, struct object *object)
{
    struct dict *dict = dict_create(rendering, value->object.n_members);
    if (!dict)
        return false;
    for (size_t i = 0; i < value->object.n_members; i++) {
        const struct value_member *member = &value->object.members[i];
        struct dict_entry *entry = &dict->entries[i];
        if (!string_from_text(rendering, member->key, &entry->key)) // unique: see value.h
            return false;
        if (is_plain_role(member->key, &member->value))
            entry->value = object_string(member->value.text.size ? member->value.text : TEXT(""));
        else if (!object_from_value(rendering, &member->value, &entry->value))
            return false;
        dict->n_entries++;
    }
    *object = dict_object(dict);
    return true;
}

bool object_from_value(struct rendering *rendering, const struct value *value, struct object *object)
{
    switch (value->kind) {
    case VALUE_NULL:
        *object = OBJECT_NONE_VALUE;
        return true;
    case VALUE_BOOL:
        *object = object_bool(value->boolean);
        return true;
    case VALUE_INTEGER:
        *object = object_integer(value->integer);
        return true;
    case VALUE_FLOAT:
        *object = object_float(value->number);
        return true;
    case VALUE_STRING:
        return string_from_text(rendering, value->text, object);
    case VALUE_BYTES:
        return rendering_fail(rendering, "a variable holds bytes; templates read text only");
    case VALUE_ARRAY:
    case VALUE_OBJECT:
        break;
    }
    if (!rendering_enter(rendering))
        return false;
    bool ok = value->kind == VALUE_ARRAY ? array_from_value(rendering, value, object)
                                         : object_from_object(rendering, value, object);
    rendering_leave(rendering);
    return ok;
}

#include "engine/template/object.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const view_names[] = {
    [VIEW_KEYS] = "dict_keys", [VIEW_VALUES] = "dict_values", [VIEW_ITEMS] = "dict_items"};

const char *object_type_name(const struct object *object)
{
    // clang-format off
    static const char *const names[] = {
        "Undefined", "Undefined", "NoneType", "bool", "int", "float", "int", "str", "list", "tuple", "dict",
        "range", "dict_keys", "generator", "Namespace", "LoopContext", "Macro", "Cycler", "Joiner",
        "builtin_function_or_method",
    };
    // clang-format on
    _Static_assert(sizeof names / sizeof *names == OBJECT_FUNCTION + 1, "a name a kind");
    if (object->kind == OBJECT_VIEW)
        return view_names[object->detail];
    return names[object->kind];
}

// The owner's name in jinja's messages: "dict object", "None".
static const char *owner_name(enum object_kind kind)
{
    static const char *const names[] = {
        [OBJECT_NONE] = "None",          [OBJECT_BOOL] = "bool object",   [OBJECT_INTEGER] = "int object",
        [OBJECT_FLOAT] = "float object", [OBJECT_LONG] = "int object",    [OBJECT_STRING] = "str object",
        [OBJECT_LIST] = "list object",   [OBJECT_TUPLE] = "tuple object", [OBJECT_DICT] = "dict object",
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
    case OBJECT_INTEGER:
    case OBJECT_FLOAT:
    case OBJECT_LONG:
        return object_to_double(object) != 0;
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
    default:
        return true;
    }
}

int64_t object_length(struct rendering *rendering, const struct object *object)
{
    switch ((enum object_kind)object->kind) {
    case OBJECT_UNDEFINED:
        return 0;
    case OBJECT_STRING:
        rendering_spend_bytes(rendering, object->text.size);
        return (int64_t)codepoints_count(object->text);
    case OBJECT_LIST:
    case OBJECT_TUPLE:
        return (int64_t)object->sequence->n_items;
    case OBJECT_DICT:
    case OBJECT_VIEW:
        return object->dict->n_entries;
    case OBJECT_RANGE:
        return object->range->n_items;
    case OBJECT_LOOP:
        return loop_length(rendering, object->loop);
    default:
        return -1;
    }
}

struct object object_long(struct rendering *rendering, const char *digits)
{
    size_t size = strlen(digits) + 1;
    char *copy = rendering_allocate(rendering, size);
    memcpy(copy, digits, size);
    return (struct object){.kind = OBJECT_LONG, .number = strtod(digits, NULL), .digits = copy};
}

static int compare_digits(const char *a, const char *b)
{
    bool is_negative = *a == '-';
    if (is_negative != (*b == '-'))
        return is_negative ? -1 : 1;
    size_t x = strlen(a), y = strlen(b);
    int order = x == y ? strcmp(a, b) : x < y ? -1 : 1;
    return is_negative ? -order : order;
}

// Compares `a`, an integer beyond 64 bits, with an integer of 64 bits, whose magnitude is smaller, or with a
// float.
static int compare_long(const struct object *a, const struct object *b)
{
    char digits[512]; // a float of that size has no fraction
    if (b->kind == OBJECT_LONG)
        return compare_digits(a->digits, b->digits);
    if (b->kind != OBJECT_FLOAT || !(fabs(b->number) >= 0x1p63) || isinf(b->number))
        return b->kind == OBJECT_FLOAT && isinf(b->number) ? (b->number < 0) - (b->number > 0)
                                                           : (*a->digits == '-' ? -1 : 1);
    snprintf(digits, sizeof digits, "%.0f", b->number);
    return compare_digits(a->digits, digits);
}

// Compares exactly, as Python does: a large integer is not first rounded to a double.
static int compare_numbers(const struct object *a, const struct object *b)
{
    if (object_is_integral(a) && object_is_integral(b)) {
        int64_t x = object_to_integer(a), y = object_to_integer(b);
        return (x > y) - (x < y);
    }
    if (a->kind == OBJECT_LONG || b->kind == OBJECT_LONG)
        return a->kind == OBJECT_LONG ? compare_long(a, b) : -compare_long(b, a);
    double x = object_to_double(a), y = object_to_double(b);
    if (x != y || a->kind == b->kind)
        return (x > y) - (x < y);
    // The values are equal after rounding to double, and their magnitude is at most 2^63.
    bool a_is_float = a->kind == OBJECT_FLOAT;
    double number = a_is_float ? x : y;
    int64_t integer = object_to_integer(a_is_float ? b : a);
    int order; // sign of the integer minus the float
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

static bool sequences_equal(struct rendering *rendering, const struct object_sequence *a,
                            const struct object_sequence *b)
{
    bool equal = a->n_items == b->n_items;
    for (size_t i = 0; equal && i < a->n_items; i++)
        equal = object_equal(rendering, &a->items[i], &b->items[i]);
    return equal;
}

static bool dicts_equal(struct rendering *rendering, struct dict *a, struct dict *b)
{
    bool equal = a->n_entries == b->n_entries;
    for (size_t i = 0; equal && i < a->n_entries; i++) {
        const struct object *other = dict_find(rendering, b, &a->entries[i].key);
        equal = other && object_equal(rendering, &a->entries[i].value, other);
    }
    return equal;
}

static bool containers_equal(struct rendering *rendering, const struct object *a, const struct object *b)
{
    rendering_spend(rendering, 1);
    rendering_enter(rendering);
    bool equal = a->kind == OBJECT_DICT ? dicts_equal(rendering, a->dict, b->dict)
                                        : sequences_equal(rendering, a->sequence, b->sequence);
    rendering_leave(rendering);
    return equal;
}

bool object_equal(struct rendering *rendering, const struct object *a, const struct object *b)
{
    if (object_is_number(a) && object_is_number(b))
        return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
    if (a->kind != b->kind)
        return false;
    switch ((enum object_kind)a->kind) {
    case OBJECT_STRING:
        if (a->text.size == b->text.size)
            rendering_spend_bytes(rendering, a->text.size);
        return text_equal(a->text, b->text);
    case OBJECT_LIST:
    case OBJECT_TUPLE:
    case OBJECT_DICT:
        return a->sequence == b->sequence || containers_equal(rendering, a, b);
    case OBJECT_UNDEFINED:
    case OBJECT_NONE:
        return true;
    case OBJECT_NAMESPACE:
    case OBJECT_MACRO:
    case OBJECT_LOOP:
    case OBJECT_CYCLER:
    case OBJECT_JOINER:
        return a->sequence == b->sequence;
    case OBJECT_RANGE:
        return a->range->n_items == b->range->n_items &&
               (!a->range->n_items || a->range->start == b->range->start) &&
               (a->range->n_items < 2 || a->range->step == b->range->step);
    default:
        rendering_fail(rendering, "comparing '%s' objects is not supported", object_type_name(a));
    }
}

// The first pair of unequal items decides; without one, the length.
static int compare_sequences(struct rendering *rendering, const struct object_sequence *a,
                             const struct object_sequence *b, const char *symbol)
{
    int order = (a->n_items > b->n_items) - (a->n_items < b->n_items);
    size_t n = order < 0 ? a->n_items : b->n_items;
    rendering_enter(rendering);
    for (size_t i = 0; i < n; i++) {
        rendering_spend(rendering, 1);
        if (object_equal(rendering, &a->items[i], &b->items[i]))
            continue;
        order = object_compare(rendering, &a->items[i], &b->items[i], symbol);
        break;
    }
    rendering_leave(rendering);
    return order;
}

int object_compare(struct rendering *rendering, const struct object *a, const struct object *b,
                   const char *symbol)
{
    if (object_is_number(a) && object_is_number(b))
        return compare_numbers(a, b);
    object_check_defined(rendering, a);
    object_check_defined(rendering, b);
    if (a->kind == b->kind && object_is_sequence(a))
        return compare_sequences(rendering, a->sequence, b->sequence, symbol);
    if (a->kind != OBJECT_STRING || b->kind != OBJECT_STRING)
        rendering_fail(rendering, "'%s' not supported between instances of '%s' and '%s'", symbol,
                       object_type_name(a), object_type_name(b));
    rendering_spend_bytes(rendering, a->text.size);
    size_t x = a->text.size, y = b->text.size, common = x < y ? x : y;
    int order =
        common ? memcmp(a->text.data, b->text.data, common) : 0; // byte order of UTF-8 is codepoint order
    return order ? order : (x > y) - (x < y);
}

void object_fail_undefined(struct rendering *rendering, const struct object *undefined)
{
    int size = codepoints_cut(undefined->text);
    const char *data = undefined->text.data ? undefined->text.data : "";
    const char *owner = owner_name(undefined->owner);
    switch ((enum undefined_reason)undefined->detail) {
    case UNDEFINED_NAME:
        rendering_fail(rendering, "'%.*s' is undefined", size, data);
    case UNDEFINED_ATTRIBUTE:
        rendering_fail(rendering, "'%s' has no attribute '%.*s'", owner, size, data);
    case UNDEFINED_ELEMENT:
        rendering_fail(rendering, "%s has no element %.*s", owner, size, data);
    case UNDEFINED_UNSAFE:
        rendering_fail(rendering, "access to attribute '%.*s' of '%s' is unsafe", size, data, owner);
    case UNDEFINED_HINT:
        break;
    }
    rendering_fail(rendering, "%.*s", size, data);
}

// Strings made by the interpreter always have data, even empty ones.
static struct object string_from_text(struct rendering *rendering, struct text text)
{
    if (rendering->environment->content || rendering->environment->n_sources)
        provenance_mark(rendering, text.data, text.size, rendering->source);
    return object_string(text.data ? text : TEXT(""));
}

// True for a plain word such as "user" or "tool_response", which cannot be or close a control token by
// itself.
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

static struct object object_from_array(struct rendering *rendering, const struct value *value)
{
    struct object *items, list = list_allocate(rendering, value->array.n_items, OBJECT_LIST, &items);
    for (size_t i = 0; i < value->array.n_items; i++)
        items[i] = object_from_value(rendering, &value->array.items[i]);
    return list;
}

static struct object object_from_object(struct rendering *rendering, const struct value *value)
{
    struct dict *dict = dict_create(rendering, value->object.n_members);
    for (size_t i = 0; i < value->object.n_members; i++) {
        const struct value_member *member = &value->object.members[i];
        struct dict_entry *entry = &dict->entries[dict->n_entries++];
        entry->key = string_from_text(rendering, member->key); // keys are unique: see value.h
        if (is_plain_role(member->key, &member->value))
            entry->value = object_string(member->value.text.size ? member->value.text : TEXT(""));
        else
            entry->value = object_from_value(rendering, &member->value);
    }
    return dict_object(dict);
}

static struct object convert_value(struct rendering *rendering, const struct value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
        return OBJECT_NONE_VALUE;
    case VALUE_BOOL:
        return object_bool(value->boolean);
    case VALUE_INTEGER:
        return object_integer(value->integer);
    case VALUE_FLOAT:
        return (struct object){.kind = value_is_long_integer(value) ? OBJECT_LONG : OBJECT_FLOAT,
                               .number = value->number,
                               .digits =
                                   value->spelled || value_is_long_integer(value) ? value->digits : NULL};
    case VALUE_STRING:
        return string_from_text(rendering, value->text);
    case VALUE_BYTES:
        rendering_fail(rendering, "a variable holds bytes; templates read text only");
    case VALUE_ARRAY:
    case VALUE_OBJECT:
        break;
    }
    rendering_enter(rendering);
    struct object object = value->kind == VALUE_ARRAY ? object_from_array(rendering, value)
                                                      : object_from_object(rendering, value);
    rendering_leave(rendering);
    return object;
}

struct object object_from_value(struct rendering *rendering, const struct value *value)
{
    const struct template_environment *environment = rendering->environment;
    uint32_t next = rendering->n_sources_seen, outer = rendering->source;
    if (next == environment->n_sources || environment->sources[next].value != value)
        return convert_value(rendering, value);
    rendering->source = ++rendering->n_sources_seen;
    struct object object = convert_value(rendering, value);
    rendering->source = outer;
    return object;
}

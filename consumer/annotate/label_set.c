#include "consumer/annotate/label_set.h"

#include "consumer/annotate/schema_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SCHEMA_DEPTH_MAX = 16, NUMBER_BYTES_MAX = 64 };

struct labelling {
    struct label_set *set;
    struct arena *arena;
    const struct value *root;
    bool failed; // out of memory
};

bool label_set_of_choices(struct label_set *set, struct arena *arena, const struct text *choices, size_t n)
{
    *set = (struct label_set){.is_closed = n > 0, .n = n};
    set->labels = arena_allocate_array(arena, n, sizeof *set->labels);
    if (!set->labels)
        return n == 0;
    for (size_t i = 0; i < n; i++)
        set->labels[i] = choices[i];
    return true;
}

static bool add_text(struct labelling *labelling, struct text text)
{
    struct label_set *set = labelling->set;
    for (size_t i = 0; i < set->n; i++)
        if (text_equal(set->labels[i], text))
            return true;
    if (set->n == LABELS_MAX)
        return false;
    char *copy = arena_copy(labelling->arena, text.data, text.size);
    labelling->failed |= !copy;
    if (copy)
        set->labels[set->n++] = (struct text){copy, text.size};
    return copy != NULL;
}

static bool add_label(struct labelling *labelling, const struct value *value)
{
    if (value->kind == VALUE_STRING)
        return add_text(labelling, value->text);
    struct buffer json = {0};
    json_encode(value, &json);
    labelling->failed |= json.failed;
    bool is_added = !json.failed && add_text(labelling, (struct text){json.data, json.size});
    buffer_finish(&json);
    return is_added;
}

static bool add_type(struct labelling *labelling, const struct value *type)
{
    if (text_equals_string(type->text, "boolean"))
        return add_text(labelling, TEXT("true")) && add_text(labelling, TEXT("false"));
    if (text_equals_string(type->text, "null"))
        return add_text(labelling, TEXT("null"));
    labelling->set->is_number |=
        text_equals_string(type->text, "integer") || text_equals_string(type->text, "number");
    return false;
}

static bool add_types(struct labelling *labelling, const struct value *type)
{
    if (type && type->kind == VALUE_STRING)
        return add_type(labelling, type);
    bool is_closed = type && type->kind == VALUE_ARRAY && type->array.n_items > 0;
    for (size_t i = 0; is_closed && i < type->array.n_items; i++)
        is_closed = type->array.items[i].kind == VALUE_STRING && add_type(labelling, &type->array.items[i]);
    return is_closed;
}

// Adds the schema's labels; false: the schema allows other values too. Recursive, SCHEMA_DEPTH_MAX deep.
static bool add_schema(struct labelling *labelling, const struct value *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    const struct value *found;
    if (!schema || schema->kind != VALUE_OBJECT || depth > SCHEMA_DEPTH_MAX)
        return false;
    if ((found = value_get(schema, "const")))
        return add_label(labelling, found);
    if ((found = value_get(schema, "enum")) && found->kind == VALUE_ARRAY) {
        bool is_added = true;
        for (size_t i = 0; is_added && i < found->array.n_items; i++)
            is_added = add_label(labelling, &found->array.items[i]);
        return is_added;
    }
    if ((found = value_get(schema, "$ref")) && found->kind == VALUE_STRING)
        return add_schema(labelling, value_at_pointer(labelling->root, found->text), depth + 1);
    for (size_t i = 0; i < sizeof unions / sizeof unions[0]; i++) {
        if (!(found = value_get(schema, unions[i])) || found->kind != VALUE_ARRAY)
            continue;
        bool is_closed = found->array.n_items > 0;
        for (size_t j = 0; is_closed && j < found->array.n_items; j++)
            is_closed = add_schema(labelling, &found->array.items[j], depth + 1);
        return is_closed;
    }
    if ((found = value_get(schema, "allOf")) && found->kind == VALUE_ARRAY && found->array.n_items == 1)
        return add_schema(labelling, &found->array.items[0], depth + 1);
    return add_types(labelling, value_get(schema, "type"));
}

static bool names_null(const struct value *names, bool are_types)
{
    bool is_null = names->kind == VALUE_NULL && !are_types;
    if (names->kind == VALUE_STRING && are_types)
        return text_equals_string(names->text, "null");
    for (size_t i = 0; names->kind == VALUE_ARRAY && i < names->array.n_items && !is_null; i++)
        is_null = names->array.items[i].kind != VALUE_ARRAY && names_null(&names->array.items[i], are_types);
    return is_null;
}

// Whether the schema allows null, judged by the keywords that also give labels. Recursive, SCHEMA_DEPTH_MAX
// deep.
static bool allows_null(const struct value *root, const struct value *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const struct value *found;
    if (!schema || schema->kind != VALUE_OBJECT || depth > SCHEMA_DEPTH_MAX)
        return schema && schema->kind == VALUE_BOOL && schema->boolean;
    if ((found = value_get(schema, "const")))
        return found->kind == VALUE_NULL;
    if ((found = value_get(schema, "enum")))
        return names_null(found, false);
    if ((found = value_get(schema, "type")))
        return names_null(found, true);
    if ((found = value_get(schema, "$ref")) && found->kind == VALUE_STRING)
        return allows_null(root, value_at_pointer(root, found->text), depth + 1);
    bool is_free = true;
    for (size_t i = 0; i < sizeof unions / sizeof unions[0]; i++) {
        if (!(found = value_get(schema, unions[i])) || found->kind != VALUE_ARRAY)
            continue;
        is_free = false;
        for (size_t j = 0; j < found->array.n_items; j++)
            if (allows_null(root, &found->array.items[j], depth + 1))
                return true;
    }
    return is_free;
}

bool label_set_of_schema(struct label_set *set, struct arena *arena, const struct value *root,
                         const struct value *schema)
{
    *set = (struct label_set){.labels = arena_allocate_array(arena, LABELS_MAX, sizeof *set->labels)};
    struct labelling labelling = {.set = set, .arena = arena, .root = root, .failed = !set->labels};
    set->is_closed = set->labels && add_schema(&labelling, schema, 0);
    set->n = set->is_closed ? set->n : 0;
    set->is_number &= !set->is_closed;
    set->has_null = allows_null(root, schema, 0);
    return !labelling.failed;
}

// ---- gold labels ----

bool label_set_has(const struct label_set *set, struct text label)
{
    for (size_t i = 0; i < set->n; i++)
        if (text_equal(set->labels[i], label))
            return true;
    return false;
}

static struct text trim_blanks(struct text text)
{
    while (text.size && strchr(" \t\r\n", *text.data) && *text.data)
        text = (struct text){text.data + 1, text.size - 1};
    while (text.size && strchr(" \t\r\n", text.data[text.size - 1]) && text.data[text.size - 1])
        text.size--;
    return text;
}

static bool read_number(struct text text, double *number)
{
    char digits[NUMBER_BYTES_MAX + 1], *end;
    if (!text.size || text.size > NUMBER_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!memchr("0123456789+-.eE", text.data[i], 15))
            return false;
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    *number = strtod(digits, &end);
    return *end == '\0' && isfinite(*number);
}

double label_number(struct text label)
{
    double number;
    return read_number(label, &number) ? number : NAN;
}

static bool equals_word(struct text text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

// Reads "true" and "false", in upper or lower case, as 1 and 0.
static bool read_boolean(struct text text, double *number)
{
    *number = equals_word(text, "true");
    return *number != 0 || equals_word(text, "false");
}

static bool has_equal_value(struct text label, struct text gold)
{
    double of_label, of_gold;
    if (read_boolean(label, &of_label))
        return (read_boolean(gold, &of_gold) || read_number(gold, &of_gold)) && of_label == of_gold;
    return read_number(label, &of_label) && read_number(gold, &of_gold) && of_label == of_gold;
}

// Gives equal numbers one spelling: 1.0 becomes 1, also within lists and objects.
static void spell_numbers(struct value *value)
{
    int64_t integer;
    if (value_whole_number(value, &integer))
        *value = value_integer(integer);
    for (size_t i = 0; value->kind == VALUE_ARRAY && i < value->array.n_items; i++)
        spell_numbers(&value->array.items[i]);
    for (size_t i = 0; value->kind == VALUE_OBJECT && i < value->object.n_members; i++)
        spell_numbers(&value->object.members[i].value);
}

// Writes a list or an object as JSON without blanks. False: the label is neither.
static bool spell_json(struct text gold, struct buffer *made)
{
    struct arena arena = {0};
    struct value value;
    struct error ignored;
    bool is_json = gold.size && (*gold.data == '[' || *gold.data == '{') &&
                   json_decode(gold, &arena, &value, &ignored) == STATUS_OK;
    if (is_json) {
        spell_numbers(&value);
        buffer_clear(made);
        json_encode(&value, made);
    }
    arena_finish(&arena);
    return is_json && !made->failed;
}

struct text label_set_match(const struct label_set *set, struct text gold, struct buffer *made)
{
    double number;
    gold = trim_blanks(gold);
    if (label_set_has(set, gold))
        return gold;
    if (spell_json(gold, made))
        return (struct text){made->data, made->size};
    for (size_t i = 0; i < set->n; i++)
        if (has_equal_value(set->labels[i], gold))
            return set->labels[i];
    if (!set->is_number || !read_number(gold, &number))
        return gold;
    bool is_integer = number == floor(number) && fabs(number) < 1e15;
    struct value value = is_integer ? value_integer((int64_t)number) : value_float(number);
    buffer_clear(made);
    json_encode(&value, made);
    return made->failed ? gold : (struct text){made->data, made->size};
}

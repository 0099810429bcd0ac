// Recursive descent over the tokens of json_token.h. Members of all open containers are on one stack. When a
// container is closed, its members are popped and copied to an allocation of the exact length. A function
// that returns false has set the cursor's cause or filled the error.
#include "schemas/json_read.h"

#include "schemas/json_token.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STACK_FIRST = 64,
    INT64_DIGITS_SURE = 18, // any integer of at most 18 digits fits
};

struct json_reader {
    struct json_cursor cursor;
    struct arena *arena;
    size_t n_left, n_max; // values still allowed; allowed in total
    int depth;
    bool is_spelled;            // keeps the digits of all numbers with more than one spelling
    bool keeps_last;            // keeps the last of members with the same key
    struct value_member *stack; // `first`, or on the heap
    size_t n_stack, capacity;
    struct value_member first[STACK_FIRST];
    struct error *error;
};

static bool read_value(struct json_reader *reader, struct value *value);

static bool fail_memory(struct json_reader *reader)
{
    error_set(reader->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "json: no memory for a record of %td bytes",
              reader->cursor.end - reader->cursor.begin);
    return false;
}

static bool count_value(struct json_reader *reader)
{
    if (reader->n_left == 0) {
        error_set(reader->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: more than %zu values",
                  reader->n_max);
        return false;
    }
    reader->n_left--;
    return true;
}

static bool enter_container(struct json_reader *reader)
{
    if (++reader->depth > VALUE_DEPTH_MAX) {
        error_set(reader->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: nested deeper than %d levels",
                  VALUE_DEPTH_MAX);
        return false;
    }
    return count_value(reader);
}

static bool read_string(struct json_reader *reader, struct text *text)
{
    if (json_peek(&reader->cursor) == '"' && !count_value(reader))
        return false;
    return json_take_string(&reader->cursor, text);
}

// ---- numbers ----

// Parses the digits up to `end`. False: the integer does not fit.
static bool parse_integer(const char *digits, const char *end, int64_t *integer)
{
    bool negative = *digits == '-';
    *integer = 0;
    if (end - digits <= INT64_DIGITS_SURE) {
        for (const char *at = digits + negative; at < end; at++)
            *integer = *integer * 10 + (*at - '0');
        *integer = negative ? -*integer : *integer;
        return true;
    }
    for (const char *at = digits + negative; at < end; at++)
        if (__builtin_mul_overflow(*integer, 10, integer) ||
            __builtin_add_overflow(*integer, negative ? '0' - *at : *at - '0', integer))
            return false;
    return true;
}

// True if the nearest double may differ from the number in the text. A number of at most 15 significant
// digits can be recovered from the double.
static bool is_rounded(const char *digits, double number)
{
    int n_significant = 0;
    for (const char *at = digits; *at && *at != 'e' && *at != 'E'; at++)
        n_significant += (*at > '0' && *at <= '9') || (*at == '0' && n_significant > 0);
    return n_significant > DBL_DIG || (n_significant > 0 && fabs(number) < DBL_MIN);
}

// Reads a number. Integers outside int64, and numbers that a double does not represent exactly, become floats
// with their digits. strtod needs a NUL after the digits, so they are copied to the place of the next string.
// There they fit with their NUL: in the input the digits are followed by a comma, a bracket or the end.
static bool read_number(struct json_reader *reader, struct value *value)
{
    struct text number;
    bool is_integer;
    if (!json_take_number(&reader->cursor, &number, &is_integer))
        return false;
    int64_t integer;
    bool is_respelled = reader->is_spelled && text_equals_string(number, "-0");
    if (is_integer && !is_respelled && parse_integer(number.data, number.data + number.size, &integer)) {
        *value = value_integer(integer);
        return true;
    }
    char *digits = reader->cursor.strings;
    memcpy(digits, number.data, number.size);
    digits[number.size] = '\0';
    *value = value_float(strtod(digits, NULL));
    value->spelled = reader->is_spelled;
    if (reader->is_spelled || is_rounded(digits, value->number)) { // beyond int64: 19 digits or more
        value->digits = digits;
        reader->cursor.strings += number.size + 1;
    }
    return isfinite(value->number) || json_fail(&reader->cursor, "overflow: the number is beyond a double");
}

// ---- containers ----

static bool push_member(struct json_reader *reader, const struct value_member *member)
{
    if (reader->n_stack == reader->capacity) {
        size_t capacity = reader->capacity * 2;
        struct value_member *stack = malloc(capacity * sizeof *stack);
        if (!stack)
            return fail_memory(reader);
        memcpy(stack, reader->stack, reader->n_stack * sizeof *stack);
        if (reader->stack != reader->first)
            free(reader->stack);
        reader->stack = stack;
        reader->capacity = capacity;
    }
    reader->stack[reader->n_stack++] = *member;
    return true;
}

static bool close_array(struct json_reader *reader, size_t first, struct value *array)
{
    if (!value_array_create(reader->arena, reader->n_stack - first, array))
        return fail_memory(reader);
    for (size_t i = 0; i < array->array.n_items; i++)
        array->array.items[i] = reader->stack[first + i].value;
    return true;
}

static int compare_members(const void *left, const void *right)
{
    const struct value_member *a = *(struct value_member *const *)left;
    const struct value_member *b = *(struct value_member *const *)right;
    if (a->key.size != b->key.size)
        return a->key.size < b->key.size ? -1 : 1;
    int order = a->key.size ? memcmp(a->key.data, b->key.data, a->key.size) : 0;
    return order ? order : (a > b) - (a < b);
}

// Keeps the first member of each key, with the value of the last one. Sorts, as value_find_duplicate does.
static bool merge_members(struct json_reader *reader, struct value *object)
{
    struct value_member *members = object->object.members;
    size_t n = object->object.n_members, n_kept = 0, first = 0;
    struct value_member **sorted = arena_allocate_array(reader->arena, n, sizeof *sorted);
    bool *is_dropped = arena_allocate_array(reader->arena, n, sizeof *is_dropped);
    if (!sorted || !is_dropped)
        return fail_memory(reader);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &members[i];
    qsort(sorted, n, sizeof *sorted, compare_members);
    for (size_t i = 1; i < n; i++) {
        bool is_same = text_equal(sorted[i]->key, sorted[first]->key);
        is_dropped[sorted[i] - members] = is_same;
        if (is_same)
            sorted[first]->value = sorted[i]->value;
        else
            first = i;
    }
    for (size_t i = 0; i < n; i++)
        if (!is_dropped[i])
            members[n_kept++] = members[i];
    object->object.n_members = n_kept;
    return true;
}

static bool close_object(struct json_reader *reader, size_t first, struct value *object)
{
    size_t n_members = reader->n_stack - first;
    const struct text *duplicate;
    if (!value_object_create(reader->arena, n_members, object))
        return fail_memory(reader);
    if (n_members)
        memcpy(object->object.members, reader->stack + first, n_members * sizeof *reader->stack);
    object->object.n_members = n_members;
    if (!value_find_duplicate(object, &duplicate))
        return fail_memory(reader);
    if (!duplicate)
        return true;
    if (reader->keeps_last)
        return merge_members(reader, object);
    error_set(reader->error, STATUS_REJECT, ERROR_INVALID_ENCODING,
              "not valid JSON: byte %zu: duplicate key \"%.*s\"", json_offset(&reader->cursor),
              (int)(duplicate->size < 64 ? duplicate->size : 64), duplicate->data);
    return false;
}

static bool read_key(struct json_reader *reader, struct text *key)
{
    json_skip_space(&reader->cursor);
    if (!read_string(reader, key))
        return false;
    if (!reader->keeps_last && key->size && memchr(key->data, 0, key->size))
        return json_fail(&reader->cursor, "NUL in a key");
    return json_take_colon(&reader->cursor);
}

static bool read_container(struct json_reader *reader, bool is_object, struct value *value)
{
    char last = is_object ? '}' : ']';
    size_t first = reader->n_stack;
    if (!enter_container(reader))
        return false;
    reader->cursor.at++;
    json_skip_space(&reader->cursor);
    if (!json_take_byte(&reader->cursor, last)) {
        do {
            struct value_member member = {0};
            if ((is_object && !read_key(reader, &member.key)) || !read_value(reader, &member.value) ||
                !push_member(reader, &member))
                return false;
        } while (json_take_byte(&reader->cursor, ','));
        if (!json_take_close(&reader->cursor, last))
            return false;
    }
    reader->depth--;
    bool closed = is_object ? close_object(reader, first, value) : close_array(reader, first, value);
    reader->n_stack = first;
    return closed;
}

static bool read_name(struct json_reader *reader, const char *name, struct value value, struct value *out)
{
    *out = value;
    return json_take_name(&reader->cursor, name) && count_value(reader);
}

// Reads a value and the white space around it.
static bool read_value(struct json_reader *reader, struct value *value)
{
    json_skip_space(&reader->cursor);
    bool read;
    switch (json_peek(&reader->cursor)) {
    case '{':
    case '[':
        read = read_container(reader, *reader->cursor.at == '{', value);
        break;
    case '"':
        *value = (struct value){.kind = VALUE_STRING};
        read = read_string(reader, &value->text);
        break;
    case 't':
        read = read_name(reader, "true", value_bool(true), value);
        break;
    case 'f':
        read = read_name(reader, "false", value_bool(false), value);
        break;
    case 'n':
        read = read_name(reader, "null", (struct value){.kind = VALUE_NULL}, value);
        break;
    default:
        read = read_number(reader, value) && count_value(reader);
    }
    json_skip_space(&reader->cursor);
    return read;
}

enum status json_read(struct text input, size_t n_values_max, int rules, struct arena *arena, char *strings,
                      struct value *value, struct error *error)
{
    struct json_reader reader;
    reader.cursor = json_cursor(input, strings);
    reader.arena = arena;
    reader.n_left = reader.n_max = n_values_max;
    reader.depth = 0;
    reader.is_spelled = rules & JSON_SPELLED;
    reader.keeps_last = rules & JSON_LAST_MEMBER;
    reader.stack = reader.first;
    reader.n_stack = 0;
    reader.capacity = STACK_FIRST;
    reader.error = error;
    struct value root;
    bool read = read_value(&reader, &root) && (reader.cursor.at == reader.cursor.end ||
                                               json_fail(&reader.cursor, "something after the value"));
    if (reader.stack != reader.first)
        free(reader.stack);
    if (reader.cursor.cause)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid JSON: byte %zu: %s",
                         json_offset(&reader.cursor), reader.cursor.cause);
    if (!read)
        return error->status;
    *value = root;
    return STATUS_OK;
}

static enum status decode_text(struct text input, size_t n_values_max, enum json_rules rules,
                               struct arena *arena, struct value *value, struct error *error)
{
    *value = (struct value){.kind = VALUE_NULL};
    if (input.size > VALUE_INPUT_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: %zu bytes, at most %d are read",
                         input.size, VALUE_INPUT_BYTES_MAX);
    char *strings = arena_allocate(arena, input.size + 1);
    if (!strings)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY,
                         "json: no memory for a record of %zu bytes", input.size);
    return json_read(input, n_values_max, rules, arena, strings, value, error);
}

enum status json_decode(struct text input, struct arena *arena, struct value *value, struct error *error)
{
    return decode_text(input, VALUE_COUNT_MAX, JSON_STRICT, arena, value, error);
}

enum status json_decode_spelled(struct text input, struct arena *arena, struct value *value,
                                struct error *error)
{
    return decode_text(input, VALUE_COUNT_MAX, JSON_SPELLED, arena, value, error);
}

enum status json_decode_document(struct text input, struct arena *arena, struct value *value,
                                 struct error *error)
{
    return decode_text(input, VALUE_DOCUMENT_COUNT_MAX, JSON_STRICT, arena, value, error);
}

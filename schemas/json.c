// JSON to and from value trees. What is plainly right json_read.c reads, at a tenth of jansson's time; the rest jansson
// parses, and says what is wrong with it: its tree is copied into the arena and freed. Before it runs,
// one pass over the text counts values and depth, because jansson itself has no limit on the first and takes
// up to 250 bytes for two bytes of input ("{}"): VALUE_COUNT_MAX keeps that below 270 MB for the worst record.
// The same pass finds integers beyond int64, which jansson would refuse. Writing is our own: jansson writes 17
// digits where 0.7 is enough. All need the C locale, which the process never leaves.
#include "schemas/base64.h"
#include "schemas/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { INT64_DIGITS_SURE = 18 }; // any integer of so many digits fits

struct scan {
    const char *position;
    const char *end;
    size_t n_values;
    size_t n_wide; // integers outside int64
    int depth;
    int depth_max;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_number_byte(char byte)
{
    return is_digit(byte) || byte == '-' || byte == '+' || byte == '.' || byte == 'e' || byte == 'E';
}

// An integer literal outside int64? `number` holds only bytes of numbers and is followed by another byte.
static bool is_wide_integer(const char *number, size_t size)
{
    size_t sign = number[0] == '-';
    if (size - sign <= INT64_DIGITS_SURE)
        return false;
    uint64_t magnitude = 0;
    for (size_t i = sign; i < size; i++) {
        if (!is_digit(number[i]))
            return false; // a float, or an error for jansson to name
        if (__builtin_mul_overflow(magnitude, 10u, &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)(number[i] - '0'), &magnitude))
            magnitude = UINT64_MAX;
    }
    return magnitude > (uint64_t)INT64_MAX + sign;
}

static void scan_string(struct scan *scan)
{
    scan->n_values++;
    scan->position++;
    while (scan->position < scan->end && *scan->position != '"') {
        bool escape = *scan->position == '\\' && scan->position + 1 < scan->end;
        scan->position += escape ? 2 : 1;
    }
    if (scan->position < scan->end)
        scan->position++;
}

// A number, a name, or a byte that has no place in JSON. Returns the size of a wide integer, else 0.
static size_t scan_scalar(struct scan *scan)
{
    const char *start = scan->position;
    scan->n_values++;
    while (scan->position < scan->end && is_number_byte(*scan->position))
        scan->position++;
    size_t size = (size_t)(scan->position - start);
    if (size) {
        bool wide = is_wide_integer(start, size);
        scan->n_wide += wide;
        return wide ? size : 0;
    }
    do
        scan->position++;
    while (scan->position < scan->end && *scan->position >= 'a' && *scan->position <= 'z');
    return 0;
}

// Steps over one token. Returns the size of a wide integer that ends at the new position, else 0.
static size_t scan_token(struct scan *scan)
{
    switch (*scan->position) {
    case ' ':
    case '\t':
    case '\n':
    case '\r':
    case ',':
    case ':':
        scan->position++;
        return 0;
    case '{':
    case '[':
        scan->n_values++;
        if (++scan->depth > scan->depth_max)
            scan->depth_max = scan->depth;
        scan->position++;
        return 0;
    case '}':
    case ']':
        scan->depth--;
        scan->position++;
        return 0;
    case '"':
        scan_string(scan);
        return 0;
    default:
        return scan_scalar(scan);
    }
}

static enum status check_limits(struct text input, size_t n_values_max, size_t *n_wide, struct error *error)
{
    struct scan scan = {.position = input.data, .end = input.data + input.size};
    while (scan.position < scan.end) {
        scan_token(&scan);
        if (scan.depth_max > VALUE_DEPTH_MAX)
            return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                             "record: nested deeper than %d levels", VALUE_DEPTH_MAX);
        if (scan.n_values > n_values_max)
            return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: more than %zu values",
                             n_values_max);
    }
    *n_wide = scan.n_wide;
    return STATUS_OK;
}

// The same text with ".0" after each integer that does not fit int64.
static void widen_integers(struct text input, size_t n_wide, struct buffer *out)
{
    buffer_reserve(out, input.size + 2 * n_wide);
    struct scan scan = {.position = input.data, .end = input.data + input.size};
    const char *copied = input.data;
    while (scan.position < scan.end) {
        if (scan_token(&scan) == 0)
            continue;
        buffer_add(out, copied, (size_t)(scan.position - copied));
        buffer_add_string(out, ".0");
        copied = scan.position;
    }
    buffer_add(out, copied, (size_t)(scan.end - copied));
}

// Copies jansson's tree. All strings together are no longer than the input, so they share one block.
struct copier {
    struct arena *arena;
    char *strings;
};

static struct text copy_string(struct copier *copier, const char *data, size_t size)
{
    char *copy = copier->strings;
    memcpy(copy, data, size);
    copier->strings += size;
    return (struct text){copy, size};
}

static bool copy_value(struct copier *copier, json_t *json, struct value *value);

static bool copy_array(struct copier *copier, json_t *json, struct value *array)
{
    if (!value_array_create(copier->arena, json_array_size(json), array))
        return false;
    for (size_t i = 0; i < array->array.n_items; i++)
        if (!copy_value(copier, json_array_get(json, i), &array->array.items[i]))
            return false;
    return true;
}

static bool copy_object(struct copier *copier, json_t *json, struct value *object)
{
    if (!value_object_create(copier->arena, json_object_size(json), object))
        return false;
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        struct value_member *member = &object->object.members[object->object.n_members++];
        member->key = copy_string(copier, json_object_iter_key(at), json_object_iter_key_len(at));
        if (!copy_value(copier, json_object_iter_value(at), &member->value))
            return false;
    }
    return true;
}

static bool copy_value(struct copier *copier, json_t *json, struct value *value)
{
    switch (json_typeof(json)) {
    case JSON_NULL:
        *value = (struct value){.kind = VALUE_NULL};
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *value = value_bool(json_is_true(json));
        return true;
    case JSON_INTEGER:
        *value = value_integer(json_integer_value(json));
        return true;
    case JSON_REAL:
        *value = value_float(json_real_value(json));
        return true;
    case JSON_STRING:
        *value = value_string(copy_string(copier, json_string_value(json), json_string_length(json)));
        return true;
    case JSON_ARRAY:
        return copy_array(copier, json, value);
    case JSON_OBJECT:
        return copy_object(copier, json, value);
    }
    return false;
}

static enum status out_of_memory(struct text input, struct error *error)
{
    return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "json: no memory for a record of %zu bytes",
                     input.size);
}

static json_t *parse(struct text input, size_t n_wide, struct error *error)
{
    struct buffer widened = {0};
    struct text text = input;
    if (n_wide) {
        widen_integers(input, n_wide, &widened);
        text = (struct text){widened.data, widened.size};
    }
    json_error_t fault;
    json_t *json = NULL;
    if (widened.failed)
        out_of_memory(input, error);
    else if (!(json = json_loadb(text.size ? text.data : "", text.size,
                                 JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault))) {
        if (json_error_code(&fault) == json_error_out_of_memory)
            out_of_memory(input, error);
        else if (fault.line == 1) // the record is a line of a file, where its number is another
            error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid JSON: column %d: %s", fault.column, fault.text);
        else
            error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid JSON: line %d column %d: %s",
                      fault.line, fault.column, fault.text);
    }
    buffer_finish(&widened);
    return json;
}

enum status json_decode_by_library(struct text input, size_t n_values_max, struct arena *arena, char *strings,
                                   struct value *value, struct error *error)
{
    size_t n_wide = 0;
    enum status status = check_limits(input, n_values_max, &n_wide, error);
    if (status != STATUS_OK)
        return status;
    json_t *json = parse(input, n_wide, error);
    if (!json)
        return error->status;
    struct copier copier = {arena, strings};
    struct value root;
    if (copy_value(&copier, json, &root))
        *value = root;
    else
        status = out_of_memory(input, error);
    json_decref(json);
    return status;
}

static enum status decode(struct text input, size_t n_values_max, struct arena *arena, struct value *value,
                          struct error *error)
{
    *value = (struct value){.kind = VALUE_NULL};
    if (input.size > VALUE_INPUT_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: %zu bytes, at most %d are read",
                         input.size, VALUE_INPUT_BYTES_MAX);
    char *strings = arena_allocate(arena, input.size);
    if (!strings)
        return out_of_memory(input, error);
    if (json_read(input, n_values_max, arena, strings, value))
        return STATUS_OK;
    return json_decode_by_library(input, n_values_max, arena, strings, value, error);
}

enum status json_decode(struct text input, struct arena *arena, struct value *value, struct error *error)
{
    return decode(input, VALUE_COUNT_MAX, arena, value, error);
}

enum status json_decode_document(struct text input, struct arena *arena, struct value *value, struct error *error)
{
    return decode(input, VALUE_DOCUMENT_COUNT_MAX, arena, value, error);
}

static void encode_escape(unsigned char byte, struct buffer *out)
{
    switch (byte) {
    case '"':
        buffer_add(out, "\\\"", 2);
        break;
    case '\\':
        buffer_add(out, "\\\\", 2);
        break;
    case '\b':
        buffer_add(out, "\\b", 2);
        break;
    case '\f':
        buffer_add(out, "\\f", 2);
        break;
    case '\n':
        buffer_add(out, "\\n", 2);
        break;
    case '\r':
        buffer_add(out, "\\r", 2);
        break;
    case '\t':
        buffer_add(out, "\\t", 2);
        break;
    default:
        buffer_add_format(out, "\\u%04x", byte);
    }
}

// How many of the first bytes stand for themselves.
static size_t plain_prefix(const char *data, size_t size)
{
    size_t i = 0;
    for (uint64_t bytes; size - i >= sizeof bytes; i += sizeof bytes) {
        memcpy(&bytes, data + i, sizeof bytes);
        if (json_has_special(bytes))
            break;
    }
    while (i < size && (unsigned char)data[i] >= 0x20 && (unsigned char)data[i] < 0x80 && data[i] != '"' && data[i] != '\\')
        i++;
    return i;
}

// From the first byte on that needs a look.
static void encode_rest(const char *data, size_t size, struct buffer *out)
{
    size_t start = 0, i = 0;
    while (i < size) {
        uint32_t codepoint;
        size_t plain = plain_prefix(data + i, size - i), length;
        i += plain;
        if (i == size)
            break;
        length = utf8_decode(data + i, size - i, &codepoint);
        if (length > 1) {
            i += length;
            continue;
        }
        buffer_add(out, data + start, i - start);
        bool unfinished;
        size_t bad = length ? 0 : utf8_bad_length(data + i, size - i, &unfinished);
        if (length == 1)
            encode_escape((unsigned char)data[i], out);
        else
            buffer_add_string(out, "\xEF\xBF\xBD"); // U+FFFD
        start = i += bad ? bad : 1;
    }
    buffer_add(out, data + start, i - start);
}

void json_encode_string(struct text text, struct buffer *out)
{
    size_t n_plain = plain_prefix(text.data, text.size);
    if (!buffer_reserve(out, n_plain + 2))
        return;
    char *at = out->data + out->size;
    *at = '"';
    if (n_plain)
        memcpy(at + 1, text.data, n_plain);
    at[n_plain + 1] = '"'; // unless there is more
    at[n_plain + 2] = '\0';
    out->size += n_plain + 2;
    if (n_plain == text.size)
        return;
    out->size--;
    encode_rest(text.data + n_plain, text.size - n_plain, out);
    buffer_add_byte(out, '"');
}

// The fewest digits that read back as the same double (15 to 17), or as the same float32 (6 to 9).
static void encode_number(double number, bool single, struct buffer *out)
{
    if (!isfinite(number)) {
        buffer_add_string(out, "null");
        return;
    }
    char digits[40];
    if (number == trunc(number) && fabs(number) < 1e6) {
        snprintf(digits, sizeof digits, "%.1f", number);
        buffer_add_string(out, digits);
        return;
    }
    for (int precision = single ? 6 : 15, last = single ? 9 : 17; precision <= last; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (single ? strtof(digits, NULL) == (float)number : strtod(digits, NULL) == number)
            break;
    }
    buffer_add_string(out, digits);
    if (!strpbrk(digits, ".e"))
        buffer_add_string(out, ".0"); // stays a float when read back
}

void json_encode_number(double number, struct buffer *out)
{
    encode_number(number, false, out);
}

static void encode_array(const struct value *array, struct buffer *out)
{
    buffer_add_byte(out, '[');
    for (size_t i = 0; i < array->array.n_items; i++) {
        if (i)
            buffer_add_byte(out, ',');
        json_encode(&array->array.items[i], out);
    }
    buffer_add_byte(out, ']');
}

static void encode_object(const struct value *object, struct buffer *out)
{
    buffer_add_byte(out, '{');
    for (size_t i = 0; i < object->object.n_members; i++) {
        if (i)
            buffer_add_byte(out, ',');
        json_encode_string(object->object.members[i].key, out);
        buffer_add_byte(out, ':');
        json_encode(&object->object.members[i].value, out);
    }
    buffer_add_byte(out, '}');
}

void json_encode(const struct value *value, struct buffer *out)
{
    switch (value->kind) {
    case VALUE_NULL:
        buffer_add_string(out, "null");
        break;
    case VALUE_BOOL:
        buffer_add_string(out, value->boolean ? "true" : "false");
        break;
    case VALUE_INTEGER:
        buffer_add_integer(out, value->integer);
        break;
    case VALUE_FLOAT:
        encode_number(value->number, value->single, out);
        break;
    case VALUE_STRING:
        json_encode_string(value->text, out);
        break;
    case VALUE_BYTES:
        buffer_add_byte(out, '"');
        base64_encode(value->text, out);
        buffer_add_byte(out, '"');
        break;
    case VALUE_ARRAY:
        encode_array(value, out);
        break;
    case VALUE_OBJECT:
        encode_object(value, out);
        break;
    }
}

// Recursive descent over RFC 8259. Members of open containers are on one stack; a container that closes pops
// its own members and is allocated with its exact length. A function that returns false has filled the error.
#include "schemas/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STACK_FIRST = 64,
    INT64_DIGITS_SURE = 18, // any integer of at most 18 digits fits
};

struct json_reader {
    const char *begin, *at, *end;
    char *strings; // the next string's bytes are written here
    struct arena *arena;
    size_t n_left, n_max; // values still allowed, and in total
    int depth;
    bool is_spelled;            // digits are kept of all numbers that may be spelled otherwise
    struct value_member *stack; // `first`, or the heap's
    size_t n_stack, capacity;
    struct value_member first[STACK_FIRST];
    struct error *error;
};

static bool read_value(struct json_reader *reader, struct value *value);

static void skip_space(struct json_reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

static bool take_byte(struct json_reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static bool fail_reader(struct json_reader *reader, const char *cause)
{
    error_set(reader->error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid JSON: byte %td: %s",
              reader->at - reader->begin, cause);
    return false;
}

static bool fail_memory(struct json_reader *reader)
{
    error_set(reader->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "json: no memory for a record of %td bytes",
              reader->end - reader->begin);
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

// ---- strings ----

// Copies bytes that are not escapes, up to the first one.
static void copy_plain(struct json_reader *reader)
{
    for (uint64_t bytes; reader->end - reader->at >= 8; reader->at += 8, reader->strings += 8) {
        memcpy(&bytes, reader->at, sizeof bytes);
        if (json_has_special(bytes))
            break;
        memcpy(reader->strings, &bytes, sizeof bytes);
    }
    while (reader->at < reader->end && (unsigned char)*reader->at >= 0x20 &&
           (unsigned char)*reader->at < 0x80 && *reader->at != '"' && *reader->at != '\\')
        *reader->strings++ = *reader->at++;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

// The value of the four digits of \uXXXX; -1: invalid.
static int32_t read_unit(struct json_reader *reader)
{
    if (reader->end - reader->at < 4)
        return -1;
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*reader->at++);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

// Behind "\u". A surrogate is valid only as half of a pair.
static bool read_codepoint(struct json_reader *reader)
{
    int32_t unit = read_unit(reader);
    if (unit < 0)
        return fail_reader(reader, "\\u without four hexadecimal digits");
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return fail_reader(reader, "the second half of a surrogate pair without the first");
    uint32_t codepoint = (uint32_t)unit;
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        int32_t low = take_byte(reader, '\\') && take_byte(reader, 'u') ? read_unit(reader) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_reader(reader, "the first half of a surrogate pair without the second");
        codepoint = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    }
    reader->strings += utf8_encode(codepoint, reader->strings);
    return true;
}

// Behind the backslash. No escape is shorter than its character in UTF-8.
static bool read_escape(struct json_reader *reader)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return fail_reader(reader, "the string does not end");
    char name = *reader->at++;
    if (name == 'u')
        return read_codepoint(reader);
    const char *found = name ? strchr(names, name) : NULL;
    if (!found)
        return fail_reader(reader, "no such escape");
    *reader->strings++ = bytes[found - names];
    return true;
}

static bool copy_character(struct json_reader *reader)
{
    if (reader->at == reader->end)
        return fail_reader(reader, "the string does not end");
    uint32_t codepoint;
    size_t size = utf8_decode(reader->at, (size_t)(reader->end - reader->at), &codepoint);
    if (size < 2)
        return fail_reader(reader, size ? "a control character in a string" : "not UTF-8");
    memcpy(reader->strings, reader->at, size);
    reader->strings += size;
    reader->at += size;
    return true;
}

static bool read_string(struct json_reader *reader, struct text *text)
{
    if (!take_byte(reader, '"'))
        return fail_reader(reader, "expected a string");
    if (!count_value(reader))
        return false;
    text->data = reader->strings;
    for (;;) {
        copy_plain(reader);
        if (take_byte(reader, '"'))
            break;
        if (!(take_byte(reader, '\\') ? read_escape(reader) : copy_character(reader)))
            return false;
    }
    text->size = (size_t)(reader->strings - text->data);
    return true;
}

// ---- numbers ----

static size_t skip_digits(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - start);
}

// [-](0|[1-9][0-9]*)[.[0-9]+][(e|E)[+-][0-9]+]
static bool skip_number(struct json_reader *reader, bool *whole)
{
    bool negative = take_byte(reader, '-');
    bool zero = reader->at < reader->end && *reader->at == '0';
    size_t n_digits = skip_digits(reader);
    *whole = true;
    if (n_digits == 0)
        return fail_reader(reader, negative ? "expected a digit" : "expected a value");
    if (zero && n_digits > 1)
        return fail_reader(reader, "a number with a leading zero");
    if (take_byte(reader, '.')) {
        *whole = false;
        if (skip_digits(reader) == 0)
            return fail_reader(reader, "expected a digit");
    }
    if (take_byte(reader, 'e') || take_byte(reader, 'E')) {
        *whole = false;
        if (!take_byte(reader, '+'))
            take_byte(reader, '-');
        if (skip_digits(reader) == 0)
            return fail_reader(reader, "expected a digit");
    }
    return true;
}

// False: it does not fit. `end` is behind the last digit.
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

// msgpack has such an integer too, so a job's request is the same in both encodings.
static bool is_uint64(const char *digits)
{
    errno = 0;
    (void)strtoull(digits, NULL, 10);
    return digits[0] != '-' && errno == 0;
}

static bool is_minus_zero(const char *start, const char *end)
{
    return end - start == 2 && memcmp(start, "-0", 2) == 0;
}

// Integers outside int64 become floats with their digits. strtod needs a NUL behind the digits: they are
// copied to the place of the next string, which has room for them and the NUL because they are not a string,
// and a comma, a bracket or the end follows them.
static bool read_number(struct json_reader *reader, struct value *value)
{
    const char *start = reader->at;
    bool whole;
    if (!skip_number(reader, &whole))
        return false;
    int64_t integer;
    bool is_respelled = reader->is_spelled && is_minus_zero(start, reader->at);
    if (whole && !is_respelled && parse_integer(start, reader->at, &integer)) {
        *value = value_integer(integer);
        return true;
    }
    size_t size = (size_t)(reader->at - start);
    memcpy(reader->strings, start, size);
    reader->strings[size] = '\0';
    *value = value_float(strtod(reader->strings, NULL));
    if (reader->is_spelled || (whole && is_uint64(reader->strings))) {
        value->digits = reader->strings;
        reader->strings += size + 1;
    }
    return isfinite(value->number) || fail_reader(reader, "overflow: the number is beyond a double");
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
    error_set(reader->error, STATUS_REJECT, ERROR_INVALID_ENCODING,
              "not valid JSON: byte %td: duplicate key \"%.*s\"", reader->at - reader->begin,
              (int)(duplicate->size < 64 ? duplicate->size : 64), duplicate->data);
    return false;
}

static bool read_key(struct json_reader *reader, struct text *key)
{
    skip_space(reader);
    if (!read_string(reader, key))
        return false;
    if (key->size && memchr(key->data, 0, key->size))
        return fail_reader(reader, "NUL in a key");
    skip_space(reader);
    return take_byte(reader, ':') || fail_reader(reader, "expected ':'");
}

static bool read_container(struct json_reader *reader, bool is_object, struct value *value)
{
    char last = is_object ? '}' : ']';
    size_t first = reader->n_stack;
    if (!enter_container(reader))
        return false;
    reader->at++;
    skip_space(reader);
    if (!take_byte(reader, last)) {
        do {
            struct value_member member = {0};
            if ((is_object && !read_key(reader, &member.key)) || !read_value(reader, &member.value) ||
                !push_member(reader, &member))
                return false;
        } while (take_byte(reader, ','));
        if (!take_byte(reader, last))
            return fail_reader(reader, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    reader->depth--;
    bool closed = is_object ? close_object(reader, first, value) : close_array(reader, first, value);
    reader->n_stack = first;
    return closed;
}

static bool read_name(struct json_reader *reader, const char *name, struct value value, struct value *out)
{
    size_t size = strlen(name);
    *out = value;
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, name, size) != 0)
        return fail_reader(reader, "expected a value");
    reader->at += size;
    return count_value(reader);
}

// With the white space on both sides.
static bool read_value(struct json_reader *reader, struct value *value)
{
    skip_space(reader);
    if (reader->at == reader->end)
        return fail_reader(reader, "expected a value");
    bool read;
    switch (*reader->at) {
    case '{':
    case '[':
        read = read_container(reader, *reader->at == '{', value);
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
    skip_space(reader);
    return read;
}

enum status json_read(struct text input, size_t n_values_max, bool is_spelled, struct arena *arena,
                      char *strings, struct value *value, struct error *error)
{
    struct json_reader reader;
    reader.begin = reader.at = input.data;
    reader.end = input.data + input.size;
    reader.strings = strings;
    reader.arena = arena;
    reader.n_left = reader.n_max = n_values_max;
    reader.depth = 0;
    reader.is_spelled = is_spelled;
    reader.stack = reader.first;
    reader.n_stack = 0;
    reader.capacity = STACK_FIRST;
    reader.error = error;
    struct value root;
    bool read = read_value(&reader, &root) &&
                (reader.at == reader.end || fail_reader(&reader, "something behind the value"));
    if (reader.stack != reader.first)
        free(reader.stack);
    if (!read)
        return error->status;
    *value = root;
    return STATUS_OK;
}

// Writes value trees as JSON. It needs the C locale, like json_read.c; the process never changes the locale.
#include "schemas/base/base64.h"
#include "schemas/json_token.h"
#include "schemas/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Tests the last bytes at once: the eight bytes before the end, or two overlapping halves if only 4 to 7
// bytes are left.
static bool is_tail_plain(const char *data, size_t size)
{
    uint64_t bytes = 0;
    uint32_t halves[2];
    if (size >= sizeof bytes) {
        memcpy(&bytes, data + size - sizeof bytes, sizeof bytes);
        return !json_has_special(bytes);
    }
    if (size < sizeof *halves)
        return false;
    memcpy(&halves[0], data, sizeof *halves);
    memcpy(&halves[1], data + size - sizeof *halves, sizeof *halves);
    return !json_has_special((uint64_t)halves[1] << 32 | halves[0]);
}

// Counts the leading bytes that need no escape.
static size_t plain_prefix(const char *data, size_t size)
{
    size_t i = 0;
    json_bytes many;
    for (; size - i >= sizeof many; i += sizeof many) {
        memcpy(&many, data + i, sizeof many);
        if (json_any_special(many))
            break;
    }
    uint64_t bytes;
    for (; size - i >= sizeof bytes; i += sizeof bytes) {
        memcpy(&bytes, data + i, sizeof bytes);
        if (json_has_special(bytes))
            break;
    }
    if (size - i < sizeof bytes && is_tail_plain(data, size))
        return size;
    while (i < size && (unsigned char)data[i] >= 0x20 && (unsigned char)data[i] < 0x80 && data[i] != '"' &&
           data[i] != '\\')
        i++;
    return i;
}

// True if Python's str.splitlines ends a line at the character. Such characters are escaped, so that every
// reader sees a line of JSON as one line.
static bool ends_line(uint32_t codepoint)
{
    return codepoint == 0x85 || codepoint == 0x2028 || codepoint == 0x2029;
}

// Continues at the first byte that may need an escape.
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
        if (length > 1 && !ends_line(codepoint)) {
            i += length;
            continue;
        }
        buffer_add(out, data + start, i - start);
        if (length > 1) {
            buffer_add_format(out, "\\u%04x", codepoint);
            start = i += length;
            continue;
        }
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
    at[n_plain + 1] = '"'; // overwritten if there is more
    at[n_plain + 2] = '\0';
    out->size += n_plain + 2;
    if (n_plain == text.size)
        return;
    out->size--;
    encode_rest(text.data + n_plain, text.size - n_plain, out);
    buffer_add_byte(out, '"');
}

// Writes the fewest digits that are read back as the same number: 15 to 17 for a double, 6 to 9 for a
// float32.
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
        buffer_add_string(out, ".0"); // makes it a float when it is read back
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

// Writes a member's key and colon, and a comma before it unless it is the first member. A key without escapes
// is written in one step, because a result has about 20 keys.
static void encode_key(struct text key, bool is_first, struct buffer *out)
{
    if (plain_prefix(key.data, key.size) < key.size) {
        buffer_add(out, ",", !is_first);
        json_encode_string(key, out);
        buffer_add_byte(out, ':');
        return;
    }
    if (!buffer_reserve(out, key.size + 3 + !is_first))
        return;
    char *at = out->data + out->size;
    if (!is_first)
        *at++ = ',';
    *at = '"';
    if (key.size)
        memcpy(at + 1, key.data, key.size);
    memcpy(at + 1 + key.size, "\":", sizeof "\":");
    out->size += key.size + 3 + !is_first;
}

static void encode_object(const struct value *object, struct buffer *out)
{
    buffer_add_byte(out, '{');
    for (size_t i = 0; i < object->object.n_members; i++) {
        encode_key(object->object.members[i].key, i == 0, out);
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
        if (value->digits)
            buffer_add_string(out, value->digits);
        else
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

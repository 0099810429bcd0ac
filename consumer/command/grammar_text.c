#include "consumer/command/grammar_text.h"

#include "schemas/value.h"

#include <stdlib.h>
#include <string.h>

static void write_ascii(struct text text, struct buffer *out)
{
    static const char controls[] = "\b\f\n\r\t", letters[] = "bfnrt";
    buffer_add_byte(out, '"');
    for (size_t at = 0; at < text.size;) {
        uint32_t code = 0;
        size_t size = utf8_decode(text.data + at, text.size - at, &code);
        const char *control = code && code < 0x20 ? strchr(controls, (int)code) : NULL;
        if (control)
            buffer_add_format(out, "\\%c", letters[control - controls]);
        else if (code == '"' || code == '\\')
            buffer_add_format(out, "\\%c", (int)code);
        else if (code >= 0x10000)
            buffer_add_format(out, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                              0xDC00 + ((code - 0x10000) & 0x3FF));
        else if (code < 0x20 || code > 0x7E)
            buffer_add_format(out, code == 0x7F ? "%c" : "\\u%04x", code);
        else
            buffer_add_byte(out, (char)code);
        at += size ? size : 1;
    }
    buffer_add_byte(out, '"');
}

static void write_string(struct text text, bool spaces, struct buffer *out)
{
    if (spaces)
        write_ascii(text, out);
    else
        json_encode_string(text, out);
}

enum { PLAIN_DIGITS_MAX = 400 };

// A number with an exponent in plain digits, as long as they are few: the grammars of `multipleOf` have those
// spellings alone. A fraction stays one (1e5 is 100000.0), as draft 4 has integers without.
static void write_number(struct text number, struct buffer *out)
{
    size_t end = 0, n = 0, point = 0;
    char digits[PLAIN_DIGITS_MAX];
    bool negative = number.data[0] == '-', fraction = false;
    for (end = negative; end < number.size && (number.data[end] | 0x20) != 'e' && n < sizeof digits; end++) {
        fraction |= number.data[end] == '.';
        if (number.data[end] == '.')
            continue;
        digits[n++] = number.data[end];
        point += !fraction;
    }
    long exponent = end + 1 < number.size ? strtol(number.data + end + 1, NULL, 10) : 0;
    long whole = (long)point + exponent;
    if (end >= number.size || (number.data[end] | 0x20) != 'e' || exponent > PLAIN_DIGITS_MAX ||
        exponent < -PLAIN_DIGITS_MAX) {
        buffer_add_text(out, number);
        return;
    }
    long first = 0; // 0e7 is 0.0
    while (first + 1 < whole && (first >= (long)n || digits[first] == '0'))
        first++;
    buffer_add_string(out, negative ? "-" : "");
    for (long i = first; i < whole; i++)
        buffer_add_byte(out, i < (long)n ? digits[i] : '0');
    buffer_add_string(out, whole <= 0 ? "0." : ".");
    for (long i = whole; i < 0; i++)
        buffer_add_byte(out, '0');
    for (long i = whole > 0 ? whole : 0; i < (long)n; i++)
        buffer_add_byte(out, digits[i]);
    if (whole >= (long)n)
        buffer_add_byte(out, '0');
}

static void write_children(const struct json_node *node, bool spaces, struct buffer *out)
{
    buffer_add_byte(out, node->kind == JSON_OBJECT ? '{' : '[');
    for (const struct json_node *child = node->first; child; child = child->next) {
        if (child->index)
            buffer_add_string(out, spaces ? ", " : ",");
        if (node->kind == JSON_OBJECT) {
            write_string(child->key, spaces, out);
            buffer_add_string(out, spaces ? ": " : ":");
        }
        grammar_text_write(child, spaces, out);
    }
    buffer_add_byte(out, node->kind == JSON_OBJECT ? '}' : ']');
}

void grammar_text_write(const struct json_node *node, bool spaces, struct buffer *out)
{
    switch (node->kind) {
    case JSON_NULL:
        buffer_add_string(out, "null");
        return;
    case JSON_FALSE:
    case JSON_TRUE:
        buffer_add_string(out, node->kind == JSON_TRUE ? "true" : "false");
        return;
    case JSON_NUMBER:
        write_number(node->text, out);
        return;
    case JSON_STRING:
        write_string(node->text, spaces, out);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_children(node, spaces, out);
        return;
    }
}

#include "consumer/command/grammar_text.h"

#include "engine/json_schema/json_number.h"
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

// Numbers with at most this many exponent digits are rewritten; longer exponents are kept unchanged.
enum { EXPONENT_DIGITS_MAX = 6, NUMBER_BYTES_MAX = 1024 };

// A number: 0.DIGITS * 10^point. `digits` has no zeros at either end; zero has n == 0.
struct digits {
    char digits[NUMBER_BYTES_MAX];
    long n, point;
    bool is_negative, has_fraction, has_exponent; // as written
};

static bool read_digits(struct text number, struct digits *read)
{
    size_t at = number.data[0] == '-';
    *read = (struct digits){.is_negative = at};
    if (number.size >= NUMBER_BYTES_MAX)
        return false;
    for (; at < number.size && (number.data[at] | 0x20) != 'e'; at++) {
        if (number.data[at] == '.') {
            read->has_fraction = true;
            continue;
        }
        read->point += !read->has_fraction;
        if (read->n || number.data[at] != '0')
            read->digits[read->n++] = number.data[at];
        else
            read->point--;
    }
    read->has_exponent = at < number.size;
    if (number.size - at > EXPONENT_DIGITS_MAX + 2)
        return false;
    char exponent[EXPONENT_DIGITS_MAX + 3] = {0};
    if (read->has_exponent)
        memcpy(exponent, number.data + at + 1, number.size - at - 1);
    read->point += strtol(exponent, NULL, 10);
    while (read->n && read->digits[read->n - 1] == '0')
        read->n--;
    if (!read->n)
        read->point = 1, read->is_negative = false;
    return true;
}

static void write_plain(const struct digits *number, struct buffer *out)
{
    for (long i = 0; i < number->point || i == 0; i++)
        buffer_add_byte(out, i < number->n && number->point > 0 ? number->digits[i] : '0');
    if (number->point < number->n)
        buffer_add_byte(out, '.');
    for (long i = number->point; i < number->n; i++)
        buffer_add_byte(out, i < 0 ? '0' : number->digits[i]);
}

static void write_scientific(const struct digits *number, struct buffer *out)
{
    buffer_add_byte(out, number->digits[0]);
    if (number->n > 1)
        buffer_add_byte(out, '.');
    buffer_add(out, number->digits + 1, (size_t)number->n - 1);
    buffer_add_format(out, "e%ld", number->point - 1);
}

// Writes a number as answers spell it (json_number.h): 1.0 as 1, 1e5 as 100000, 0.50 as 0.5. In draft 4 a
// number with a fraction or an exponent is not of type integer, so there such numbers keep a fraction: 1.0
// stays 1.0.
static void write_number(struct text text, enum grammar_text_numbers numbers, struct buffer *out)
{
    struct digits number;
    if (numbers == GRAMMAR_TEXT_NUMBERS_AS_WRITTEN || !read_digits(text, &number)) {
        buffer_add_text(out, text);
        return;
    }
    bool is_integer = number.point >= number.n, is_float = number.has_fraction || number.has_exponent;
    bool is_short = is_integer ? number.point <= GRAMMAR_TEXT_INTEGER_DIGITS || !is_float
                               : number.n - number.point <= NUMBER_FRACTION_DIGITS;
    buffer_add_string(out, number.is_negative ? "-" : "");
    if (is_short)
        write_plain(&number, out);
    else
        write_scientific(&number, out);
    if (is_short && is_integer && is_float && numbers == GRAMMAR_TEXT_NUMBERS_DRAFT_4)
        buffer_add_string(out, ".0");
}

static void write_children(const struct json_node *node, struct grammar_text_style style, struct buffer *out)
{
    buffer_add_byte(out, node->kind == JSON_OBJECT ? '{' : '[');
    for (const struct json_node *child = node->first; child; child = child->next) {
        if (child->index)
            buffer_add_string(out, style.has_spaces ? ", " : ",");
        if (node->kind == JSON_OBJECT) {
            write_string(child->key, style.has_spaces, out);
            buffer_add_string(out, style.has_spaces ? ": " : ":");
        }
        grammar_text_write(child, style, out);
    }
    buffer_add_byte(out, node->kind == JSON_OBJECT ? '}' : ']');
}

void grammar_text_write(const struct json_node *node, struct grammar_text_style style, struct buffer *out)
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
        write_number(node->text, style.numbers, out);
        return;
    case JSON_STRING:
        write_string(node->text, style.has_spaces, out);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_children(node, style, out);
        return;
    }
}

enum grammar_text_numbers grammar_text_numbers_of(const struct json_node *schema)
{
    static const char draft_4[] = "json-schema.org/draft-04/";
    const struct json_node *dialect = json_member_named(schema, "$schema");
    bool is_draft_4 = dialect && dialect->kind == JSON_STRING && dialect->text.size &&
                      memmem(dialect->text.data, dialect->text.size, draft_4, sizeof draft_4 - 1);
    return is_draft_4 ? GRAMMAR_TEXT_NUMBERS_DRAFT_4 : GRAMMAR_TEXT_NUMBERS_GENERATED;
}

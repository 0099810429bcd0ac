#include "engine/template/represent.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 17 };

// Writes the shortest decimal digits that read back as `number`, which is finite and above 0, without a
// point: number = 0.d1d2d3... x 10^*point.
static size_t shortest_digits(double number, char digits[DIGITS_MAX + 1], int *point)
{
    char text[40];
    for (int n = 1; n <= DIGITS_MAX; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, number);
        if (n == DIGITS_MAX || strtod(text, NULL) == number)
            break;
    }
    size_t n_digits = 0;
    char *c = text;
    for (; *c != 'e'; c++)
        if (*c != '.')
            digits[n_digits++] = *c;
    *point = atoi(c + 1) + 1;
    while (n_digits > 1 && digits[n_digits - 1] == '0')
        n_digits--;
    digits[n_digits] = '\0';
    return n_digits;
}

void represent_add_float(struct buffer *buffer, double number)
{
    if (isnan(number)) {
        buffer_add_string(buffer, "nan");
        return;
    }
    if (signbit(number))
        buffer_add_byte(buffer, '-');
    number = fabs(number);
    if (isinf(number) || number == 0) {
        buffer_add_string(buffer, number == 0 ? "0.0" : "inf");
        return;
    }
    char digits[DIGITS_MAX + 1];
    int point;
    int n_digits = (int)shortest_digits(number, digits, &point);
    if (point > 16 || point < -3) {
        buffer_add_byte(buffer, digits[0]);
        if (n_digits > 1)
            buffer_add_format(buffer, ".%s", digits + 1);
        buffer_add_format(buffer, "e%c%02d", point < 1 ? '-' : '+', abs(point - 1));
    } else if (point <= 0) {
        buffer_add_format(buffer, "0.%.*s%s", -point, "000", digits);
    } else if (point >= n_digits) {
        buffer_add_format(buffer, "%s%.*s.0", digits, point - n_digits, "0000000000000000");
    } else {
        buffer_add_format(buffer, "%.*s.%s", point, digits, digits + point);
    }
}

static void add_escaped(struct buffer *buffer, uint32_t codepoint, char quote)
{
    static const char letters[] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\\'] = '\\'};
    char letter = codepoint < sizeof letters ? letters[codepoint] : '\0';
    if (letter || codepoint == (uint32_t)quote)
        buffer_add(buffer, (char[]){'\\', letter ? letter : quote}, 2);
    else if (character_is_printable(codepoint))
        codepoints_add(buffer, codepoint);
    else if (codepoint < 0x100)
        codepoints_add_escape(buffer, 'x', 2, codepoint);
    else if (codepoint < 0x10000)
        codepoints_add_escape(buffer, 'u', 4, codepoint);
    else
        codepoints_add_escape(buffer, 'U', 8, codepoint);
}

static void add_string_repr(struct rendering *rendering, const struct object *object)
{
    struct text text = object->text;
    struct buffer *buffer = &rendering->text;
    bool single = text.size && memchr(text.data, '\'', text.size);
    bool both = single && memchr(text.data, '"', text.size);
    char quote = single && !both ? '"' : '\'';
    if (object->markup)
        buffer_add_string(buffer, "Markup(");
    buffer_add_byte(buffer, quote);
    size_t start = buffer->size;
    for (size_t i = 0; i < text.size;)
        add_escaped(buffer, codepoints_next(text, &i), quote);
    rendering_note_source(rendering, start, text);
    buffer_add_byte(buffer, quote);
    if (object->markup)
        buffer_add_byte(buffer, ')');
    rendering_spend_bytes(rendering, text.size * 8);
}

static void add_container_repr(struct rendering *rendering, const struct object *object)
{
    struct buffer *buffer = &rendering->text;
    bool is_dict = object->kind == OBJECT_DICT, is_tuple = object->kind == OBJECT_TUPLE;
    if (object->kind == OBJECT_VIEW) {
        struct object list = iterator_collect(rendering, object);
        buffer_add_format(buffer, "%s(", object_type_name(object));
        represent_add_repr(rendering, &list);
        buffer_add_byte(buffer, ')');
        return;
    }
    if (object->kind == OBJECT_RANGE) {
        const struct range *range = object->range;
        buffer_add_format(buffer, "range(%" PRId64 ", %" PRId64, range->start, range->stop);
        if (range->step != 1)
            buffer_add_format(buffer, ", %" PRId64, range->step);
        buffer_add_byte(buffer, ')');
        return;
    }
    if (!is_dict && !object_is_sequence(object)) // Python prints an address for most other objects
        rendering_fail(rendering, "printing '%s' objects is not supported in templates",
                       object_type_name(object));
    size_t n = is_dict ? object->dict->n_entries : object->sequence->n_items;
    rendering_enter(rendering);
    buffer_add_byte(buffer, is_dict ? '{' : is_tuple ? '(' : '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            buffer_add_string(buffer, ", ");
        if (is_dict) {
            represent_add_repr(rendering, &object->dict->entries[i].key);
            buffer_add_string(buffer, ": ");
        }
        represent_add_repr(rendering,
                           is_dict ? &object->dict->entries[i].value : &object->sequence->items[i]);
    }
    buffer_add_string(buffer, is_dict ? "}" : !is_tuple ? "]" : n == 1 ? ",)" : ")");
    rendering_leave(rendering);
}

void represent_add_repr(struct rendering *rendering, const struct object *object)
{
    struct buffer *buffer = &rendering->text;
    rendering_spend(rendering, 1);
    rendering_check_text(rendering);
    switch ((enum object_kind)object->kind) {
    case OBJECT_MISSING:
    case OBJECT_UNDEFINED:
        buffer_add_string(buffer, "Undefined");
        break;
    case OBJECT_NONE:
        buffer_add_string(buffer, "None");
        break;
    case OBJECT_BOOL:
        buffer_add_string(buffer, object->boolean ? "True" : "False");
        break;
    case OBJECT_INTEGER:
        buffer_add_format(buffer, "%" PRId64, object->integer);
        break;
    case OBJECT_FLOAT:
    case OBJECT_LONG:
        if (object->digits)
            buffer_add_string(buffer, object->digits);
        else
            represent_add_float(buffer, object->number);
        break;
    case OBJECT_STRING:
        add_string_repr(rendering, object);
        break;
    default:
        add_container_repr(rendering, object);
    }
}

void represent_add_str(struct rendering *rendering, const struct object *object)
{
    if (object->kind == OBJECT_STRING) {
        rendering_add_text(rendering, object->text);
        rendering_spend_bytes(rendering, object->text.size);
    } else if (object->kind != OBJECT_UNDEFINED &&
               (object->kind != OBJECT_NONE || !rendering->environment->none_is_empty)) {
        represent_add_repr(rendering, object);
    }
}

struct object represent_str(struct rendering *rendering, const struct object *object)
{
    if (object->kind == OBJECT_STRING)
        return *object;
    size_t start = rendering->text.size;
    represent_add_str(rendering, object);
    return rendering_take(rendering, start);
}

static void add_markup(struct rendering *rendering, struct text text)
{
    static const char *const escapes[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['\''] = "&#39;", ['"'] = "&#34;"};
    size_t start = rendering->text.size;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < sizeof escapes / sizeof *escapes && escapes[byte])
            buffer_add_string(&rendering->text, escapes[byte]);
        else
            buffer_add_byte(&rendering->text, text.data[i]);
    }
    rendering_note_source(rendering, start, text);
}

struct object represent_escape(struct rendering *rendering, const struct object *object)
{
    struct object string = represent_str(rendering, object);
    if (!string.markup) {
        size_t start = rendering->text.size;
        add_markup(rendering, string.text);
        rendering_spend_bytes(rendering, string.text.size * 8);
        string = rendering_take(rendering, start);
    }
    string.markup = true;
    return string;
}

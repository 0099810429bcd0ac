// Filters that lay out or encode text. Values of other kinds are converted to text first.
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/format_number.h"
#include "engine/template/functions.h"
#include "engine/template/iterator.h"
#include "engine/template/literal.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"
#include "engine/unicode/entity_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENTITY_BYTES_MAX = 32 };

static struct object count_words(struct rendering *rendering, const struct call *call)
{
    struct text text = represent_str(rendering, &call->items[0]).text;
    int64_t n = 0;
    bool is_inside = false;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size;) {
        bool is_word = character_is_of_word(codepoints_next(text, &i));
        n += is_word && !is_inside;
        is_inside = is_word;
    }
    return object_integer(n);
}

static struct object center_text(struct rendering *rendering, const struct call *call)
{
    struct object items[3] = {represent_str(rendering, &call->items[0]), call->items[1], {0}};
    if (items[1].kind == OBJECT_MISSING)
        items[1] = object_integer(80);
    const struct function *method = functions_find_method(OBJECT_STRING, TEXT("center"));
    return method->run(rendering, &(struct call){items, 3, NULL, 0, method->variant});
}

// The filter format: `"%s"|format(a, b)` and `"%(x)s"|format(x=1)`.
static struct object format_filter(struct rendering *rendering, const struct call *call)
{
    if (!call->n_items)
        rendering_fail(rendering, "format() misses the argument 'value'");
    if (call->n_items > 1 && call->n_keywords)
        rendering_fail(rendering, "can't handle positional and keyword arguments at the same time");
    struct text format = represent_str(rendering, &call->items[0]).text;
    struct dict *named = dict_create(rendering, call->n_keywords);
    for (size_t i = 0; i < call->n_keywords; i++)
        dict_set_text(rendering, named, call->keywords[i].name, &call->keywords[i].value);
    struct object arguments = call->n_keywords
                                  ? dict_object(named)
                                  : list_wrap(rendering, call->items + 1, call->n_items - 1, OBJECT_TUPLE);
    return format_printf(rendering, format, &arguments);
}

static struct object format_size(struct rendering *rendering, const struct call *call)
{
    static const char prefixes[] = "kMGTPEZY";
    bool is_binary = argument_truth(&call->items[1], false);
    double bytes, base = is_binary ? 1024 : 1000, unit = base;
    const struct object *value = &call->items[0];
    object_check_defined(rendering, value);
    if (object_is_number(value))
        bytes = object_to_double(value);
    else if (value->kind != OBJECT_STRING || !literal_read_float(value->text, &bytes))
        rendering_fail(rendering, "could not convert %s to float", object_type_name(value));
    size_t start = rendering->text.size, i = 0;
    if (!isfinite(bytes))
        rendering_fail(rendering, "filesizeformat of a number that is not finite");
    if (bytes == 1) {
        buffer_add_string(&rendering->text, "1 Byte");
    } else if (bytes < base) {
        buffer_add_format(&rendering->text, "%.0f Bytes", trunc(bytes) + 0.0);
    } else {
        for (unit *= base; bytes >= unit && prefixes[i + 1]; i++)
            unit *= base;
        char prefix = is_binary && i == 0 ? 'K' : prefixes[i];
        buffer_add_format(&rendering->text, "%.1f %c%sB", base * bytes / unit, prefix, is_binary ? "i" : "");
    }
    rendering_note_source(rendering, start, value->kind == OBJECT_STRING ? value->text : (struct text){0});
    return rendering_take(rendering, start);
}

static void add_url_text(struct rendering *rendering, const struct object *value, bool is_query)
{
    static const char hex[] = "0123456789ABCDEF";
    struct text text = represent_str(rendering, value).text;
    struct buffer *buffer = &rendering->text;
    size_t start = buffer->size;
    rendering_spend_bytes(rendering, text.size * 8);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool is_safe = (c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80;
        is_safe = is_safe || (c >= '0' && c <= '9') || (c && strchr("_.-~", c)) || (c == '/' && !is_query);
        if (is_safe)
            buffer_add_byte(buffer, (char)c);
        else if (c == ' ' && is_query)
            buffer_add_byte(buffer, '+');
        else
            buffer_add(buffer, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
    rendering_note_source(rendering, start, text);
    rendering_check_text(rendering);
}

// URL-encodes a text, or the pairs of a dict or list as a=1&b=2.
static struct object encode_url(struct rendering *rendering, const struct call *call)
{
    struct object value = call->items[0];
    size_t start = rendering->text.size;
    if (value.kind == OBJECT_STRING || !iterator_possible(&value)) {
        add_url_text(rendering, &value, false);
        return rendering_take(rendering, start);
    }
    if (value.kind == OBJECT_DICT) {
        value.kind = OBJECT_VIEW;
        value.detail = VIEW_ITEMS;
    }
    const struct object_sequence *pairs = iterator_collect(rendering, &value).sequence;
    for (size_t i = 0; i < pairs->n_items; i++) {
        const struct object_sequence *pair = iterator_collect(rendering, &pairs->items[i]).sequence;
        if (pair->n_items != 2)
            rendering_fail(rendering, "urlencode: expected pairs, got %zu values", pair->n_items);
        if (i)
            buffer_add_byte(&rendering->text, '&');
        add_url_text(rendering, &pair->items[0], true);
        buffer_add_byte(&rendering->text, '=');
        add_url_text(rendering, &pair->items[1], true);
    }
    return rendering_take(rendering, start);
}

// Copies the text without <!-- comments -->, including comments formed by removing another. Returns the size.
static size_t drop_comments(struct text text, char *out)
{
    size_t size = 0, i = 0;
    while (i < text.size) {
        out[size++] = text.data[i++];
        if (size < 4 || memcmp(out + size - 4, "<!--", 4) != 0)
            continue;
        size_t from = i - 2; // <!--> and <!---> are comments
        const char *end = memcmp(text.data + from, "--", 2) == 0
                              ? memmem(text.data + from, text.size - from, "-->", 3)
                              : memmem(text.data + i, text.size - i, "-->", 3);
        if (!end)
            break;
        size -= 4;
        i = (size_t)(end - text.data) + 3;
    }
    memcpy(out + size, text.data + i, text.size - i);
    return size + text.size - i;
}

static size_t drop_tags(char *text, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        const char *end = text[i] == '<' ? memchr(text + i, '>', size - i) : NULL;
        if (text[i] == '<' && !end) {
            memmove(text + kept, text + i, size - i);
            return kept + size - i;
        }
        if (end)
            i = (size_t)(end - text);
        else
            text[kept++] = text[i];
    }
    return kept;
}

static int compare_entity(const void *name, const void *entity)
{
    return strcmp(name, ((const struct entity *)entity)->name);
}

static const struct entity *find_entity(struct text text, size_t size)
{
    char name[ENTITY_BYTES_MAX + 2] = {0};
    if (size > ENTITY_BYTES_MAX + 1 || memchr(text.data, '\0', size))
        return NULL;
    memcpy(name, text.data, size);
    return bsearch(name, entities, sizeof entities / sizeof *entities, sizeof *entities, compare_entity);
}

// Decodes the numeric reference (&#65; &#x41;) after an &, as HTML 5 does. Returns the number of bytes read;
// 0: not a reference.
static size_t add_numbered(struct buffer *buffer, struct text text)
{
    static const uint16_t windows[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                         0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                         0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                         0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
    bool is_hex = text.size > 1 && (text.data[1] | 32) == 'x';
    size_t i = 1 + is_hex, start = i;
    uint32_t number = 0;
    for (; i < text.size; i++) {
        int c = (unsigned char)text.data[i], digit = c >= '0' && c <= '9' ? c - '0' : 99;
        if (is_hex && (c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (c | 32) - 'a' + 10;
        if (digit > (is_hex ? 15 : 9))
            break;
        number = number > 0x110000 ? number : number * (is_hex ? 16 : 10) + (uint32_t)digit;
    }
    if (i == start)
        return 0;
    bool is_nothing = number < 9 || number == 11 || (number > 13 && number < 32) ||
                      (number >= 127 && number < 160) || (number >= 0xFDD0 && number <= 0xFDEF) ||
                      (number & 0xFFFE) == 0xFFFE;
    if (number >= 128 && number < 160)
        codepoints_add(buffer, windows[number - 128]);
    else if (number == 0 || (number >= 0xD800 && number < 0xE000) || number > 0x10FFFF)
        codepoints_add(buffer, 0xFFFD);
    else if (!is_nothing)
        codepoints_add(buffer, number);
    return i + (i < text.size && text.data[i] == ';');
}

// Decodes the named reference after an &: by the whole name, else by its longest known prefix. Returns the
// number of bytes read; 0: unknown.
static size_t add_named(struct buffer *buffer, struct text text)
{
    size_t size = 0, n_characters = 0, next = 0;
    while (size < text.size && n_characters < ENTITY_BYTES_MAX && !strchr("\t\n\f <&#;", text.data[size])) {
        codepoints_next(text, &next);
        size = next;
        n_characters++;
    }
    if (size && size < text.size && text.data[size] == ';')
        size++;
    for (size_t n = size; n > 1; n--) {
        const struct entity *entity = find_entity(text, n);
        if (!entity)
            continue;
        buffer_add_string(buffer, entity->text);
        return n;
    }
    return 0;
}

static void add_unescaped(struct buffer *buffer, struct text text)
{
    for (size_t i = 0; i < text.size;) {
        struct text rest = {text.data + i + 1, text.size - i - 1};
        size_t taken = 0;
        if (text.data[i] == '&' && rest.size)
            taken = rest.data[0] == '#' ? add_numbered(buffer, rest) : add_named(buffer, rest);
        if (!taken)
            buffer_add_byte(buffer, text.data[i]);
        i += 1 + taken;
    }
}

static struct object strip_tags(struct rendering *rendering, const struct call *call)
{
    struct text text = represent_str(rendering, &call->items[0]).text;
    size_t start = rendering->text.size;
    rendering_spend_bytes(rendering, text.size * 16);
    char *plain = rendering_allocate(rendering, text.size + 1);
    size_t size = drop_tags(plain, drop_comments(text, plain));
    const struct object_sequence *words =
        text_split(rendering, (struct text){plain, size}, (struct text){0}, -1, false).sequence;
    for (size_t i = 0; i < words->n_items; i++) {
        if (i)
            buffer_add_byte(&rendering->text, ' ');
        buffer_add_text(&rendering->text, words->items[i].text);
    }
    struct text joined = rendering_take(rendering, start).text;
    add_unescaped(&rendering->text, joined);
    rendering_note_source(rendering, start, text);
    return rendering_take(rendering, start);
}

static struct object force_escape(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    string.markup = false;
    return represent_escape(rendering, &string);
}

static const struct function functions[] = {
    FUNCTION("wordcount", count_words, 0, 1, "s"),
    FUNCTION("center", center_text, 0, 1, "value", "width"),
    ANY_ARGUMENTS("format", format_filter, 0),
    FUNCTION("filesizeformat", format_size, 0, 1, "value", "binary"),
    FUNCTION("urlencode", encode_url, 0, 1, "value"),
    FUNCTION("striptags", strip_tags, 0, 1, "value"),
    FUNCTION("forceescape", force_escape, 0, 1, "value"),
};

const struct function_table filters_of_layout = FUNCTION_TABLE(functions);

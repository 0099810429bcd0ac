#include "engine/template/represent.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/rendering.h"
#include "engine/template/sort.h"

#include <inttypes.h>
#include <math.h>

static void add_json(struct rendering *rendering, const struct object *object, const struct json_style *style,
                     unsigned level);

static void add_character(struct buffer *buffer, uint32_t codepoint, bool ensure_ascii)
{
    static const char short_names[] = "btn.fr"; // for 8 to 13; 11 has no short name
    if (codepoint == '"' || codepoint == '\\') {
        buffer_add(buffer, (char[]){'\\', (char)codepoint}, 2);
    } else if (codepoint >= 8 && codepoint <= 13 && codepoint != 11) {
        buffer_add(buffer, (char[]){'\\', short_names[codepoint - 8]}, 2);
    } else if (codepoint < ' ' || (ensure_ascii && codepoint > '~' && codepoint < 0x10000)) {
        codepoints_add_escape(buffer, 'u', 4, codepoint);
    } else if (ensure_ascii && codepoint >= 0x10000) {
        codepoint -= 0x10000;
        codepoints_add_escape(buffer, 'u', 4, 0xD800 | codepoint >> 10);
        codepoints_add_escape(buffer, 'u', 4, 0xDC00 | (codepoint & 0x3FF));
    } else {
        codepoints_add(buffer, codepoint);
    }
}

static bool is_plain(char byte, bool ensure_ascii)
{
    unsigned char c = (unsigned char)byte;
    return c >= ' ' && c != '"' && c != '\\' && !(ensure_ascii && c > '~');
}

static void add_string(struct rendering *rendering, struct text text, const struct json_style *style)
{
    struct buffer *buffer = &rendering->text;
    buffer_add_byte(buffer, '"');
    size_t start_of_text = buffer->size;
    for (size_t i = 0; i < text.size;) {
        size_t start = i;
        while (i < text.size && is_plain(text.data[i], style->ensure_ascii))
            i++;
        buffer_add(buffer, text.data + start, i - start);
        if (i < text.size)
            add_character(buffer, codepoints_next(text, &i), style->ensure_ascii);
    }
    if (!rendering->environment->is_json)
        rendering_note_source(rendering, start_of_text, text);
    buffer_add_byte(buffer, '"');
    rendering_spend_bytes(rendering, text.size * 4);
    rendering_check_text(rendering);
}

static void add_float(struct buffer *buffer, double number)
{
    if (isnan(number))
        buffer_add_string(buffer, "NaN");
    else if (isinf(number))
        buffer_add_string(buffer, number < 0 ? "-Infinity" : "Infinity");
    else
        represent_add_float(buffer, number);
}

static void add_line(struct buffer *buffer, const struct json_style *style, unsigned level)
{
    if (!style->indent.data)
        return;
    buffer_add_byte(buffer, '\n');
    for (unsigned i = 0; i < level; i++)
        buffer_add_text(buffer, style->indent);
}

static void add_key(struct rendering *rendering, const struct object *key, const struct json_style *style)
{
    bool is_plain = key->kind == OBJECT_NONE || object_is_number(key);
    if (!is_plain && key->kind != OBJECT_STRING)
        rendering_fail(rendering, "keys must be str, int, float, bool or None, not %s",
                       object_type_name(key));
    if (is_plain)
        buffer_add_byte(&rendering->text, '"');
    add_json(rendering, key, style, 0);
    if (is_plain)
        buffer_add_byte(&rendering->text, '"');
}

static size_t *sorted_keys(struct rendering *rendering, const struct dict *dict)
{
    struct object *keys = rendering_allocate_array(rendering, dict->n_entries + 1, sizeof *keys);
    for (size_t i = 0; i < dict->n_entries; i++)
        keys[i] = dict->entries[i].key;
    return sort_order(rendering, keys, dict->n_entries, false);
}

static void add_container(struct rendering *rendering, const struct object *object,
                          const struct json_style *style, unsigned level)
{
    struct buffer *buffer = &rendering->text;
    bool is_dict = object->kind == OBJECT_DICT;
    size_t n = is_dict ? object->dict->n_entries : object->sequence->n_items;
    const size_t *order = is_dict && style->sorts_keys ? sorted_keys(rendering, object->dict) : NULL;
    buffer_add_byte(buffer, is_dict ? '{' : '[');
    for (size_t k = 0; k < n; k++) {
        size_t i = order ? order[k] : k;
        if (k)
            buffer_add_text(buffer, style->item_separator);
        add_line(buffer, style, level + 1);
        if (is_dict) {
            add_key(rendering, &object->dict->entries[i].key, style);
            buffer_add_text(buffer, style->key_separator);
        }
        add_json(rendering, is_dict ? &object->dict->entries[i].value : &object->sequence->items[i], style,
                 level + 1);
    }
    if (n)
        add_line(buffer, style, level);
    buffer_add_byte(buffer, is_dict ? '}' : ']');
}

static void add_json(struct rendering *rendering, const struct object *object, const struct json_style *style,
                     unsigned level)
{
    struct buffer *buffer = &rendering->text;
    rendering_spend(rendering, 1);
    rendering_check_text(rendering);
    switch ((enum object_kind)object->kind) {
    case OBJECT_NONE:
        buffer_add_string(buffer, "null");
        break;
    case OBJECT_BOOL:
        buffer_add_string(buffer, object->boolean ? "true" : "false");
        break;
    case OBJECT_INTEGER:
        buffer_add_format(buffer, "%" PRId64, object->integer);
        break;
    case OBJECT_FLOAT:
    case OBJECT_LONG:
        if (object->digits)
            buffer_add_string(buffer, object->digits);
        else
            add_float(buffer, object->number);
        break;
    case OBJECT_STRING:
        add_string(rendering, object->text, style);
        break;
    case OBJECT_LIST:
    case OBJECT_TUPLE:
    case OBJECT_DICT:
        rendering_enter(rendering);
        add_container(rendering, object, style, level);
        rendering_leave(rendering);
        break;
    default:
        rendering_fail(rendering, "Object of type %s is not JSON serializable", object_type_name(object));
    }
}

void represent_add_json(struct rendering *rendering, const struct object *object,
                        const struct json_style *style)
{
    add_json(rendering, object, style, 0);
}

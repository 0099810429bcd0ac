#include "engine/template/markup.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

void markup_add_escaped(struct rendering *rendering, struct text text)
{
    struct buffer *buffer = &rendering->text;
    size_t start = buffer->size;
    for (size_t i = 0; i < text.size; i++) {
        switch (text.data[i]) {
        case '&':
            buffer_add_string(buffer, "&amp;");
            break;
        case '<':
            buffer_add_string(buffer, "&lt;");
            break;
        case '>':
            buffer_add_string(buffer, "&gt;");
            break;
        case '\'':
            buffer_add_string(buffer, "&#39;");
            break;
        case '"':
            buffer_add_string(buffer, "&#34;");
            break;
        default:
            buffer_add_byte(buffer, text.data[i]);
        }
    }
    rendering_note_source(rendering, start, text);
}

bool markup_escape(struct rendering *rendering, const struct object *object, struct object *string)
{
    struct object printed;
    if (!represent_str(rendering, object, &printed))
        return false;
    *string = printed;
    if (!printed.markup) {
        size_t start = rendering->text.size;
        markup_add_escaped(rendering, printed.text);
        if (!rendering_spend_bytes(rendering, printed.text.size * 8) ||
            !rendering_take(rendering, start, string))
            return false;
    }
    string->markup = true;
    return true;
}

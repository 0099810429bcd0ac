#include "engine/unicode/codepoints.h"

#include <stdbool.h>

static bool is_start(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

size_t codepoints_count(struct text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += is_start(text.data[i]);
    return count;
}

size_t codepoints_offset(struct text text, size_t index)
{
    if (index >= text.size)
        return text.size; // a codepoint has at least one byte
    for (size_t i = 0; i < text.size; i++)
        if (is_start(text.data[i]) && index-- == 0)
            return i;
    return text.size;
}

size_t codepoints_offset_from_end(struct text text, size_t index)
{
    size_t offset = text.size;
    while (index > 0 && offset > 0)
        if (is_start(text.data[--offset]))
            index--;
    return offset;
}

struct text codepoints_slice(struct text text, size_t start, size_t stop)
{
    size_t first = codepoints_offset(text, start);
    struct text rest = {text.data + first, text.size - first};
    rest.size = codepoints_offset(rest, stop - start);
    return rest;
}

uint32_t codepoints_next(struct text text, size_t *offset)
{
    unsigned char byte = (unsigned char)text.data[*offset];
    if (byte < 0x80) {
        ++*offset;
        return byte;
    }
    uint32_t codepoint = 0xFFFD;
    size_t length = utf8_decode(text.data + *offset, text.size - *offset, &codepoint);
    *offset += length ? length : 1;
    return codepoint;
}

uint32_t codepoints_previous(struct text text, size_t *offset)
{
    --*offset;
    while (*offset > 0 && !is_start(text.data[*offset]))
        --*offset;
    size_t at = *offset;
    return codepoints_next(text, &at);
}

int codepoints_cut(struct text text)
{
    enum { SHOWN_BYTES_MAX = 400 };
    return (int)(text.size <= SHOWN_BYTES_MAX ? text.size : utf8_complete_prefix(text.data, SHOWN_BYTES_MAX));
}

void codepoints_add(struct buffer *buffer, uint32_t codepoint)
{
    char bytes[4];
    buffer_add(buffer, bytes, utf8_encode(codepoint, bytes));
}

void codepoints_add_escape(struct buffer *buffer, char letter, unsigned n_digits, uint32_t codepoint)
{
    char bytes[2 + 8] = {'\\', letter};
    for (unsigned i = 0; i < n_digits; i++)
        bytes[2 + i] = "0123456789abcdef"[codepoint >> 4 * (n_digits - 1 - i) & 0xF];
    buffer_add(buffer, bytes, 2 + n_digits);
}

#include "schemas/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_white_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

struct text text_trim_start(struct text text)
{
    while (text.size && is_white_space(text.data[0]))
        text = (struct text){text.data + 1, text.size - 1};
    return text;
}

struct text text_trim(struct text text)
{
    text = text_trim_start(text);
    while (text.size && is_white_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

struct text text_from_integer(int64_t integer, char out[INTEGER_TEXT_BYTES])
{
    char *end = out + INTEGER_TEXT_BYTES, *at = end;
    uint64_t left = integer < 0 ? -(uint64_t)integer : (uint64_t)integer;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (integer < 0)
        *--at = '-';
    return (struct text){at, (size_t)(end - at)};
}

bool buffer_reserve(struct buffer *buffer, size_t extra)
{
    if (buffer->failed)
        return false;
    size_t wanted;
    if (__builtin_add_overflow(buffer->size, extra, &wanted) || wanted == SIZE_MAX ||
        (buffer->size_max && wanted > buffer->size_max)) {
        buffer->failed = true;
        buffer->is_full = buffer->size_max > 0;
        return false;
    }
    if (wanted + 1 <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < wanted + 1)
        capacity = capacity > SIZE_MAX / 2 ? wanted + 1 : capacity * 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void buffer_add(struct buffer *buffer, const void *data, size_t size)
{
    if (!buffer_reserve(buffer, size))
        return;
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void buffer_add_text(struct buffer *buffer, struct text text)
{
    buffer_add(buffer, text.data, text.size);
}

void buffer_add_string(struct buffer *buffer, const char *string)
{
    buffer_add(buffer, string, strlen(string));
}

void buffer_add_byte(struct buffer *buffer, char byte)
{
    bool has_room =
        buffer->size + 1 < buffer->capacity && (!buffer->size_max || buffer->size < buffer->size_max);
    if (!has_room || buffer->failed) {
        buffer_add(buffer, &byte, 1);
        return;
    }
    buffer->data[buffer->size++] = byte;
    buffer->data[buffer->size] = '\0';
}

void buffer_add_integer(struct buffer *buffer, int64_t integer)
{
    char digits[INTEGER_TEXT_BYTES];
    buffer_add_text(buffer, text_from_integer(integer, digits));
}

void buffer_add_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0 || !buffer_reserve(buffer, (size_t)size)) {
        buffer->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)size;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void buffer_finish(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

// Length of a sequence, and allowed range of its second byte, for each lead byte (RFC 3629, section 4).
static size_t sequence_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *low = 0xA0;
        if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *low = 0x90;
        if (lead == 0xF4)
            *high = 0x8F;
        return 4;
    }
    return 0;
}

bool codepoint_is_space(uint32_t codepoint)
{
    static const struct {
        uint32_t first, last;
    } spaces[] = {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                  {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (codepoint >= spaces[i].first && codepoint <= spaces[i].last)
            return true;
    return false;
}

size_t utf8_decode(const char *data, size_t size, uint32_t *codepoint)
{
    if (size == 0)
        return 0;
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned char low, high;
    size_t length = sequence_length(bytes[0], &low, &high);
    if (length == 0 || length > size)
        return 0;
    if (length == 1) {
        *codepoint = bytes[0];
        return 1;
    }
    uint32_t value = bytes[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (bytes[i] < (i == 1 ? low : 0x80) || bytes[i] > (i == 1 ? high : 0xBF))
            return 0;
        value = value << 6 | (bytes[i] & 0x3Fu);
    }
    *codepoint = value;
    return length;
}

size_t utf8_bad_length(const char *data, size_t size, bool *unfinished)
{
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned char low, high;
    size_t expected = sequence_length(bytes[0], &low, &high), length = 1;
    while (length < expected && length < size && bytes[length] >= (length == 1 ? low : 0x80) &&
           bytes[length] <= (length == 1 ? high : 0xBF))
        length++;
    *unfinished = length == size && length < expected;
    return length;
}

bool utf8_valid(const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        if ((unsigned char)data[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t codepoint;
        size_t length = utf8_decode(data + i, size - i, &codepoint);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

size_t utf8_encode(uint32_t codepoint, char *out)
{
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    if (codepoint < 0x800) {
        out[0] = (char)(0xC0 | codepoint >> 6);
        out[1] = (char)(0x80 | (codepoint & 0x3F));
        return 2;
    }
    if (codepoint < 0x10000) {
        out[0] = (char)(0xE0 | codepoint >> 12);
        out[1] = (char)(0x80 | (codepoint >> 6 & 0x3F));
        out[2] = (char)(0x80 | (codepoint & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | codepoint >> 18);
    out[1] = (char)(0x80 | (codepoint >> 12 & 0x3F));
    out[2] = (char)(0x80 | (codepoint >> 6 & 0x3F));
    out[3] = (char)(0x80 | (codepoint & 0x3F));
    return 4;
}

size_t utf8_complete_prefix(const char *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = bytes[size - back];
        if ((byte & 0xC0) == 0x80)
            continue;
        unsigned char low, high;
        size_t length = sequence_length(byte, &low, &high);
        if (length <= back)
            return size;
        if (back >= 2 && (bytes[size - back + 1] < low || bytes[size - back + 1] > high))
            return size;
        return size - back;
    }
    return size;
}

bool utf8_is_printable(uint32_t codepoint)
{
    return !(codepoint < 0x20 || (codepoint >= 0x7F && codepoint <= 0x9F) || codepoint == 0x61C ||
             codepoint == 0x200E || codepoint == 0x200F || (codepoint >= 0x2028 && codepoint <= 0x202E) ||
             (codepoint >= 0x2066 && codepoint <= 0x2069));
}

void utf8_make_printable(char *string)
{
    size_t size = strlen(string), end = 0;
    size_t whole = utf8_complete_prefix(string, size);
    for (size_t i = 0; i < whole;) {
        uint32_t codepoint;
        size_t length = utf8_decode(string + i, whole - i, &codepoint);
        bool is_shown = length && utf8_is_printable(codepoint);
        if (is_shown)
            memmove(string + end, string + i, length);
        else
            string[end] = length ? ' ' : '?';
        end += is_shown ? length : 1;
        i += length ? length : 1;
    }
    string[end] = '\0';
}

static size_t columns_of(uint32_t codepoint)
{
    static const struct {
        uint32_t first, last;
    } wide[] = {{0x1100, 0x115F}, {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
                {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    if ((codepoint >= 0x300 && codepoint <= 0x36F) || (codepoint >= 0x200B && codepoint <= 0x200D))
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (codepoint >= wide[i].first && codepoint <= wide[i].last)
            return 2;
    return 1;
}

size_t utf8_columns_prefix(const char *data, size_t size, size_t n_columns, size_t n_bytes)
{
    size_t at = 0;
    while (at < size) {
        uint32_t codepoint;
        size_t length = utf8_decode(data + at, size - at, &codepoint);
        size_t columns = length ? columns_of(codepoint) : 1;
        length = length ? length : 1;
        if (columns > n_columns || at + length > n_bytes)
            break;
        n_columns -= columns;
        at += length;
    }
    return at;
}

size_t utf8_columns(const char *data, size_t size)
{
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t codepoint;
        size_t length = utf8_decode(data + at, size - at, &codepoint);
        n += length ? columns_of(codepoint) : 1;
        at += length ? length : 1;
    }
    return n;
}

void buffer_add_printable(struct buffer *buffer, struct text text, size_t n_columns)
{
    size_t before = buffer->size;
    buffer_add(buffer, text.data, text.size);
    if (buffer->failed)
        return;
    if (text.size) {
        utf8_make_printable(buffer->data + before);
        buffer->size = before + strlen(buffer->data + before);
    }
    size_t shown = text.size ? utf8_columns(buffer->data + before, buffer->size - before) : 0;
    for (; shown < n_columns; shown++)
        buffer_add_byte(buffer, ' ');
}

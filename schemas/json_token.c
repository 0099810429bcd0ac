#include "schemas/json_token.h"

// ---- strings ----

// Copies bytes up to the first backslash, quote, control byte or byte above 0x7F.
static void take_plain(struct json_cursor *cursor)
{
    const char *at = cursor->at, *end = cursor->end;
    char *out = cursor->strings;
    for (json_bytes bytes; end - at >= 16; at += 16, out += 16) {
        memcpy(&bytes, at, sizeof bytes);
        if (json_any_special(bytes))
            break;
        memcpy(out, &bytes, sizeof bytes);
    }
    for (uint64_t bytes; end - at >= 8; at += 8, out += 8) {
        memcpy(&bytes, at, sizeof bytes);
        if (json_has_special(bytes))
            break;
        memcpy(out, &bytes, sizeof bytes);
    }
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\')
        *out++ = *at++;
    cursor->at = at;
    cursor->strings = out;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

// Returns the value of the four digits of \uXXXX; -1: invalid.
static int32_t take_unit(struct json_cursor *cursor)
{
    if (cursor->end - cursor->at < 4)
        return -1;
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*cursor->at++);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

// Reads the rest of an escape after "\u". A surrogate is valid only as half of a pair.
static bool take_codepoint(struct json_cursor *cursor)
{
    int32_t unit = take_unit(cursor);
    if (unit < 0)
        return json_fail(cursor, "\\u without four hexadecimal digits");
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return json_fail(cursor, "the second half of a surrogate pair without the first");
    uint32_t codepoint = (uint32_t)unit;
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        int32_t low = json_take_byte(cursor, '\\') && json_take_byte(cursor, 'u') ? take_unit(cursor) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return json_fail(cursor, "the first half of a surrogate pair without the second");
        codepoint = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    }
    cursor->strings += utf8_encode(codepoint, cursor->strings);
    return true;
}

// Reads the rest of an escape after the backslash. No escape is shorter than its character in UTF-8.
static bool take_escape(struct json_cursor *cursor)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (cursor->at == cursor->end)
        return json_fail(cursor, "the string does not end");
    char name = *cursor->at++;
    if (name == 'u')
        return take_codepoint(cursor);
    const char *found = name ? strchr(names, name) : NULL;
    if (!found)
        return json_fail(cursor, "no such escape");
    *cursor->strings++ = bytes[found - names];
    return true;
}

static bool take_character(struct json_cursor *cursor)
{
    if (cursor->at == cursor->end)
        return json_fail(cursor, "the string does not end");
    uint32_t codepoint;
    size_t size = utf8_decode(cursor->at, (size_t)(cursor->end - cursor->at), &codepoint);
    if (size < 2)
        return json_fail(cursor, size ? "a control character in a string" : "not UTF-8");
    memcpy(cursor->strings, cursor->at, size);
    cursor->strings += size;
    cursor->at += size;
    return true;
}

bool json_take_string(struct json_cursor *cursor, struct text *text)
{
    if (!json_take_byte(cursor, '"'))
        return json_fail(cursor, "expected a string");
    text->data = cursor->strings;
    for (;;) {
        take_plain(cursor);
        if (json_take_byte(cursor, '"'))
            break;
        if (!(json_take_byte(cursor, '\\') ? take_escape(cursor) : take_character(cursor)))
            return false;
    }
    text->size = (size_t)(cursor->strings - text->data);
    return true;
}

// ---- numbers and names ----

static size_t skip_digits(struct json_cursor *cursor)
{
    const char *start = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return (size_t)(cursor->at - start);
}

// Takes [-](0|[1-9][0-9]*)[.[0-9]+][(e|E)[+-][0-9]+].
bool json_take_number(struct json_cursor *cursor, struct text *number, bool *is_integer)
{
    const char *start = cursor->at;
    bool negative = json_take_byte(cursor, '-');
    bool zero = json_peek(cursor) == '0';
    size_t n_digits = skip_digits(cursor);
    *is_integer = true;
    if (n_digits == 0)
        return json_fail(cursor, negative                   ? "expected a digit"
                                 : cursor->at < cursor->end ? "expected a value"
                                                            : "expected a value, got the end");
    if (zero && n_digits > 1)
        return json_fail(cursor, "a number with a leading zero");
    if (json_take_byte(cursor, '.')) {
        *is_integer = false;
        if (skip_digits(cursor) == 0)
            return json_fail(cursor, "expected a digit");
    }
    if (json_take_byte(cursor, 'e') || json_take_byte(cursor, 'E')) {
        *is_integer = false;
        if (!json_take_byte(cursor, '+'))
            json_take_byte(cursor, '-');
        if (skip_digits(cursor) == 0)
            return json_fail(cursor, "expected a digit");
    }
    *number = (struct text){start, (size_t)(cursor->at - start)};
    return true;
}

bool json_take_name(struct json_cursor *cursor, const char *name)
{
    size_t size = strlen(name);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, name, size) != 0)
        return json_fail(cursor, "expected a value");
    cursor->at += size;
    return true;
}

// ---- containers ----

bool json_take_colon(struct json_cursor *cursor)
{
    json_skip_space(cursor);
    return json_take_byte(cursor, ':') || json_fail(cursor, "expected ':'");
}

bool json_take_key(struct json_cursor *cursor, struct text *key)
{
    json_skip_space(cursor);
    return json_take_string(cursor, key) && json_take_colon(cursor);
}

bool json_take_close(struct json_cursor *cursor, char close)
{
    return json_take_byte(cursor, close) ||
           json_fail(cursor, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
}

static bool skip_container(struct json_cursor *cursor, char close, int depth_max)
{
    if (depth_max == 0)
        return json_fail(cursor, "nested too deeply");
    cursor->at++;
    json_skip_space(cursor);
    if (json_take_byte(cursor, close))
        return true;
    do {
        struct text key;
        if ((close == '}' && !json_take_key(cursor, &key)) || !json_skip_value(cursor, depth_max - 1))
            return false;
        json_skip_space(cursor);
    } while (json_take_byte(cursor, ','));
    return json_take_close(cursor, close);
}

bool json_skip_value(struct json_cursor *cursor, int depth_max)
{
    char *strings = cursor->strings;
    struct text text;
    bool is_integer, is_value;
    json_skip_space(cursor);
    switch (json_peek(cursor)) {
    case '{':
        is_value = skip_container(cursor, '}', depth_max);
        break;
    case '[':
        is_value = skip_container(cursor, ']', depth_max);
        break;
    case '"':
        is_value = json_take_string(cursor, &text);
        break;
    case 't':
        is_value = json_take_name(cursor, "true");
        break;
    case 'f':
        is_value = json_take_name(cursor, "false");
        break;
    case 'n':
        is_value = json_take_name(cursor, "null");
        break;
    default:
        is_value = json_take_number(cursor, &text, &is_integer);
    }
    cursor->strings = strings;
    return is_value;
}

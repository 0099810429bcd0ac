#include "engine/regex/pattern_class.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status pattern_refuse(struct pattern_reader *reader, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(reader->error, STATUS_REJECT, ERROR_INVALID_FIELD, "pattern, byte %zu: %s", reader->at,
                     text);
}

bool pattern_next_is(const struct pattern_reader *reader, const char *string)
{
    size_t size = strlen(string);
    return reader->text.size - reader->at >= size &&
           memcmp(reader->text.data + reader->at, string, size) == 0;
}

bool pattern_take(struct pattern_reader *reader, const char *string)
{
    bool there = pattern_next_is(reader, string);
    reader->at += there ? strlen(string) : 0;
    return there;
}

static uint32_t one_code_point(struct expressions *pool, uint32_t code_point)
{
    return expression_set(pool, &(struct code_range){code_point, code_point}, 1);
}

uint32_t pattern_dot(const struct pattern_reader *reader)
{
    static const struct code_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    size_t n = reader->dialect != PATTERN_SEARCH ? 1 : sizeof line_ends / sizeof *line_ends;
    return expression_set_complement(reader->pool, expression_set(reader->pool, line_ends, n));
}

// Matches WhiteSpace and LineTerminator of ECMA-262. Python's re.ASCII has only the first two ranges.
static uint32_t white_space(const struct pattern_reader *reader)
{
    static const struct code_range ranges[] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                                               {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                               {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                               {0xFEFF, 0xFEFF}};
    return expression_set(reader->pool, ranges,
                          reader->dialect != PATTERN_SEARCH ? 2 : sizeof ranges / sizeof *ranges);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct pattern_reader *reader, size_t n_digits, uint32_t *value)
{
    *value = 0;
    if (reader->text.size - reader->at < n_digits)
        return false;
    for (size_t i = 0; i < n_digits; i++) {
        int digit = digit_value(reader->text.data[reader->at + i]);
        if (digit < 0)
            return false;
        *value = *value * 16 + (uint32_t)digit;
    }
    reader->at += n_digits;
    return true;
}

// Called after "\u": reads XXXX, a surrogate pair XXXX\uXXXX (ECMA-262 only), or {X...}.
static enum status read_unicode(struct pattern_reader *reader, uint32_t *set)
{
    uint32_t value = 0, low;
    if (pattern_take(reader, "{")) {
        const char *digits = reader->text.data + reader->at,
                   *end = memchr(digits, '}', reader->text.size - reader->at);
        size_t n = end ? (size_t)(end - digits) : 0;
        if (n == 0 || n > 6 || !read_hex(reader, n, &value) || value > CODE_POINT_MAX)
            return pattern_refuse(reader, "\\u{...} is no code point");
        reader->at++;
    } else if (!read_hex(reader, 4, &value)) {
        return pattern_refuse(reader, "\\u needs four hexadecimal digits");
    }
    if (reader->dialect == PATTERN_SEARCH && value >= 0xD800 && value <= 0xDBFF &&
        pattern_next_is(reader, "\\u")) {
        size_t before = reader->at;
        reader->at += 2;
        if (read_hex(reader, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        else
            reader->at = before;
    }
    if (value >= 0xD800 && value <= 0xDFFF)
        return pattern_refuse(reader, "a lone surrogate (\\u%04x) is no character", value);
    *set = one_code_point(reader->pool, value);
    return STATUS_OK;
}

static bool is_character(uint32_t value)
{
    return value <= CODE_POINT_MAX && (value < 0xD800 || value > 0xDFFF);
}

static bool read_class_escape(struct pattern_reader *reader, char c, uint32_t *set)
{
    struct expressions *pool = reader->pool;
    switch (c | 0x20) {
    case 'd':
        *set = expression_set(pool, &(struct code_range){'0', '9'}, 1);
        break;
    case 'w':
        *set = pattern_word_characters(pool);
        break;
    case 's':
        *set = white_space(reader);
        break;
    default:
        return false;
    }
    if (!(c & 0x20))
        *set = expression_set_complement(pool, *set);
    return true;
}

static enum status refuse_escape(struct pattern_reader *reader, char c, bool in_class)
{
    if (c == '0' || (in_class && c >= '1' && c <= '9'))
        return pattern_refuse(reader, "octal escapes (\\%c) are not supported", c);
    if (c == 'p' || c == 'P')
        return pattern_refuse(reader, "Unicode property classes (\\%c) are not supported", c);
    if (c == 'k' || (c >= '1' && c <= '9'))
        return pattern_refuse(reader, "backreferences (\\%c) are not regular", c);
    return pattern_refuse(reader, "unknown escape \\%c", c);
}

enum status pattern_read_escape(struct pattern_reader *reader, bool in_class, uint32_t *set)
{
    static const char letters[] = "tnvfr", values[] = "\t\n\v\f\r";
    if (reader->at >= reader->text.size)
        return pattern_refuse(reader, "ends in a backslash");
    char c = reader->text.data[reader->at];
    if ((unsigned char)c >= 0x80)
        return pattern_read_character(reader, set);
    reader->at++;
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t value;
    if (letter) {
        *set = one_code_point(reader->pool, (uint32_t)values[letter - letters]);
    } else if (read_class_escape(reader, c, set)) {
        return STATUS_OK;
    } else if (c == 'u') {
        return read_unicode(reader, set);
    } else if (c == 'a' && reader->dialect != PATTERN_SEARCH) {
        *set = one_code_point(reader->pool, '\a');
    } else if (c == 'U' && reader->dialect != PATTERN_SEARCH) {
        if (!read_hex(reader, 8, &value) || !is_character(value))
            return pattern_refuse(reader, "\\U needs the eight hexadecimal digits of a character");
        *set = one_code_point(reader->pool, value);
    } else if ((c == '<' || c == '>') && reader->dialect != PATTERN_SEARCH && !in_class) {
        return pattern_refuse(reader, "\\%c is a character to Python and a word's boundary to Rust: write %c",
                              c, c);
    } else if (c == 'x') {
        if (!read_hex(reader, 2, &value))
            return pattern_refuse(reader, "\\x needs two hexadecimal digits");
        *set = one_code_point(reader->pool, value);
    } else if (c == 'c' && reader->at < reader->text.size &&
               ((reader->text.data[reader->at] | 0x20) >= 'a') &&
               ((reader->text.data[reader->at] | 0x20) <= 'z')) {
        *set = one_code_point(reader->pool, (uint32_t)reader->text.data[reader->at++] & 31);
    } else if (c == '0' && !(reader->at < reader->text.size && reader->text.data[reader->at] >= '0' &&
                             reader->text.data[reader->at] <= '9')) {
        *set = one_code_point(reader->pool, 0);
    } else if (c == 'b' && in_class) {
        *set = one_code_point(reader->pool, '\b');
    } else if (((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9')) {
        reader->at--;
        return refuse_escape(reader, c, in_class);
    } else {
        *set = one_code_point(reader->pool, (uint32_t)c);
    }
    return STATUS_OK;
}

enum status pattern_read_character(struct pattern_reader *reader, uint32_t *set)
{
    uint32_t code_point;
    size_t size = utf8_decode(reader->text.data + reader->at, reader->text.size - reader->at, &code_point);
    if (size == 0)
        return pattern_refuse(reader, "not UTF-8");
    reader->at += size;
    *set = one_code_point(reader->pool, code_point);
    return STATUS_OK;
}

static enum status read_class_item(struct pattern_reader *reader, uint32_t *set)
{
    return pattern_take(reader, "\\") ? pattern_read_escape(reader, true, set)
                                      : pattern_read_character(reader, set);
}

// Rejects pairs that are characters in Python and operators in Rust, or that cause a warning in Python.
static enum status refuse_operator(struct pattern_reader *reader)
{
    static const char *const operators[] = {"--", "&&", "~~", "||"};
    if (reader->dialect == PATTERN_SEARCH)
        return STATUS_OK;
    if (pattern_next_is(reader, "["))
        return pattern_refuse(reader,
                              "a [ in a class is a character to Python and a class to Rust: write \\[");
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (pattern_next_is(reader, operators[i]))
            return pattern_refuse(reader,
                                  "%s in a class is two characters to Python and may be an operator "
                                  "to Rust: escape them",
                                  operators[i]);
    return STATUS_OK;
}

static enum status read_class_range(struct pattern_reader *reader, uint32_t *set)
{
    enum status status = read_class_item(reader, set);
    if (status != STATUS_OK || !pattern_next_is(reader, "-") || pattern_next_is(reader, "-]") ||
        reader->at + 1 >= reader->text.size)
        return status;
    uint32_t first, last, last_set;
    if (!expression_code_point(reader->pool, *set, &first))
        return STATUS_OK; // [\w-.]: the hyphen is a character
    status = refuse_operator(reader);
    size_t before = reader->at++;
    if (status == STATUS_OK)
        status = refuse_operator(reader);
    if (status == STATUS_OK)
        status = read_class_item(reader, &last_set);
    if (status != STATUS_OK)
        return status;
    if (!expression_code_point(reader->pool, last_set, &last)) {
        reader->at = before;
        return STATUS_OK;
    }
    if (first > last)
        return pattern_refuse(reader, "range out of order in a class");
    *set = expression_set(reader->pool, &(struct code_range){first, last}, 1);
    return STATUS_OK;
}

static enum status read_class_part(struct pattern_reader *reader, uint32_t *set)
{
    if (reader->at >= reader->text.size)
        return pattern_refuse(reader, "a class is not closed");
    enum status status = refuse_operator(reader);
    reader->had_bracket |= pattern_next_is(reader, "[");
    return status == STATUS_OK ? read_class_range(reader, set) : status;
}

enum status pattern_read_class(struct pattern_reader *reader, uint32_t *set)
{
    bool negative = pattern_take(reader, "^");
    VECTOR(uint32_t) parts = {0};
    enum status status = STATUS_OK;
    // A leading ']' is a character in Python and Rust, and the end of an empty class in ECMA-262.
    bool is_character = reader->dialect != PATTERN_SEARCH && pattern_next_is(reader, "]");
    reader->had_bracket |= pattern_next_is(reader, "]");
    while (status == STATUS_OK && (is_character || !pattern_take(reader, "]"))) {
        uint32_t part = EXPRESSION_NOTHING;
        is_character = false;
        status = read_class_part(reader, &part);
        if (status == STATUS_OK && !VECTOR_ADD(&parts, part))
            expressions_fail_memory(reader->pool);
        if (status == STATUS_OK)
            status = expressions_status(reader->pool, reader->error);
    }
    *set =
        status == STATUS_OK ? expression_either_many(reader->pool, parts.items, parts.n) : EXPRESSION_NOTHING;
    if (status == STATUS_OK && negative)
        *set = expression_set_complement(reader->pool, *set);
    VECTOR_FINISH(&parts);
    return status;
}

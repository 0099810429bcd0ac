#include "engine/template/literal.h"
#include "engine/template/codepoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 400 }; // of a float; more digits don't matter to a double

static int digit_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return 99;
}

static int digit_at(struct text text, size_t position)
{
    return position < text.size ? digit_value(text.data[position]) : 99;
}

// The end of digits that single underscores may separate.
static size_t digits_end(struct text text, size_t position, int base)
{
    while (digit_at(text, position) < base) {
        position++;
        if (position < text.size && text.data[position] == '_' && digit_at(text, position + 1) < base)
            position++;
    }
    return position;
}

static size_t exponent_end(struct text text, size_t position)
{
    if (position >= text.size || (text.data[position] | 32) != 'e')
        return position;
    size_t digits = position + 1;
    if (digits < text.size && (text.data[digits] == '+' || text.data[digits] == '-'))
        digits++;
    return digit_at(text, digits) < 10 ? digits_end(text, digits, 10) : position;
}

static bool integer_value(struct text digits, int base, int64_t *integer)
{
    *integer = 0;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] == '_')
            continue;
        if (__builtin_mul_overflow(*integer, base, integer) ||
            __builtin_add_overflow(*integer, digit_value(digits.data[i]), integer))
            return false;
    }
    return true;
}

static double float_value(struct text text)
{
    char digits[NUMBER_BYTES_MAX];
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '_')
            continue;
        if (size + 1 == sizeof digits)
            break;
        digits[size++] = text.data[i];
    }
    digits[size] = '\0';
    return strtod(digits, NULL);
}

bool literal_number(struct text text, bool after_dot, struct literal_number *number)
{
    size_t whole = digits_end(text, 0, 10), end = whole;
    if (whole + 1 < text.size && text.data[whole] == '.' && digit_at(text, whole + 1) < 10)
        end = digits_end(text, whole + 1, 10);
    end = exponent_end(text, end);
    if (end > whole && !after_dot) {
        *number = (struct literal_number){.is_float = true, .size = end};
        number->number = float_value((struct text){text.data, end});
        return true;
    }
    int base = 10;
    size_t start = 0;
    if (text.data[0] == '0') {
        char letter = text.size > 1 ? (char)(text.data[1] | 32) : '\0';
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 1;
        start = base == 1 ? 0 : 2;
        if (start == 2 && text.size > 2 && text.data[2] == '_')
            start = 3;
        end = base == 1 ? 0 : digits_end(text, start, base);
        if (end <= start) { // no digit behind 0x, or a decimal: zeros only, as in Python
            base = 1;
            start = 0;
            end = digits_end(text, 0, 1);
        }
    } else {
        end = whole;
    }
    *number = (struct literal_number){.size = end};
    return integer_value((struct text){text.data + start, end - start}, base, &number->integer);
}

static bool hexadecimal(struct text body, size_t *position, size_t n_digits, uint32_t *codepoint)
{
    *codepoint = 0;
    for (size_t i = 0; i < n_digits; i++, ++*position) {
        int digit = digit_at(body, *position);
        if (digit >= 16)
            return false;
        *codepoint = *codepoint << 4 | (uint32_t)digit;
    }
    return true;
}

static uint32_t octal(struct text body, size_t *position)
{
    uint32_t codepoint = 0;
    for (int i = 0; i < 3 && digit_at(body, *position) < 8; i++)
        codepoint = codepoint << 3 | (uint32_t)digit_at(body, (*position)++);
    return codepoint;
}

static const char *hexadecimal_problem(char letter)
{
    return letter == 'x'   ? "truncated \\xXX escape"
           : letter == 'u' ? "truncated \\uXXXX escape"
                           : "truncated \\UXXXXXXXX escape";
}

// What follows a backslash, at *position. Returns a problem or NULL.
static const char *unescape_one(struct text body, size_t *position, char *out, size_t *size)
{
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    char letter = body.data[*position];
    const char *known = letter ? strchr(letters, letter) : NULL;
    uint32_t codepoint;
    if (known) {
        ++*position;
        out[(*size)++] = bytes[known - letters];
    } else if (letter == '\n') {
        ++*position;
    } else if (letter >= '0' && letter <= '7') {
        *size += utf8_encode(octal(body, position), out + *size);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        ++*position;
        if (!hexadecimal(body, position, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, &codepoint))
            return hexadecimal_problem(letter);
        if (codepoint > 0x10FFFF || (codepoint >= 0xD800 && codepoint < 0xE000))
            return "an escape that is no character";
        *size += utf8_encode(codepoint, out + *size);
    } else if (letter == 'N') {
        return "\\N escapes are not supported";
    } else if ((unsigned char)letter >= 0x80) {
        // Python's detour over ASCII makes the backslash escape the one of the character's own escape.
        codepoint = codepoints_next(body, position);
        *size += (size_t)sprintf(out + *size,
                                 codepoint < 0x100     ? "\\x%02x"
                                 : codepoint < 0x10000 ? "\\u%04x"
                                                       : "\\U%08x",
                                 codepoint);
    } else {
        out[(*size)++] = '\\';
    }
    return NULL;
}

bool literal_unescape(struct text body, struct arena *arena, struct text *text, const char **problem)
{
    if (!body.size || !memchr(body.data, '\\', body.size)) {
        *text = body;
        return true;
    }
    char *out = arena_allocate(arena, body.size * 4 + 16); // \ and 2 bytes may become \xNN: below 4 times
    if (!out)
        return false;
    size_t size = 0;
    for (size_t i = 0; i < body.size && !*problem;) {
        char byte = body.data[i++];
        if (byte == '\\' && i < body.size)
            *problem = unescape_one(body, &i, out, &size);
        else
            out[size++] = byte;
    }
    *text = (struct text){out, size};
    return !*problem;
}

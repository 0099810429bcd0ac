#include "engine/template/literal.h"
#include "engine/template/number_text.h"

#include <ctype.h>
#include <string.h>

static size_t digits_end(struct text text, size_t position)
{
    while (position < text.size && text.data[position] >= '0' && text.data[position] <= '9')
        position++;
    return position;
}

static size_t exponent_end(struct text text, size_t position)
{
    if (position >= text.size || (text.data[position] | 32) != 'e')
        return position;
    size_t digits = position + 1;
    if (digits < text.size && (text.data[digits] == '+' || text.data[digits] == '-'))
        digits++;
    return digits_end(text, digits) > digits ? digits_end(text, digits) : position;
}

// 0x1F, 1_000, 007: other ways to write numbers.
static bool is_other_form(struct text text, size_t whole, size_t end)
{
    bool follows = end < text.size && (text.data[end] == '_' || isalnum((unsigned char)text.data[end]));
    return follows || (whole > 1 && text.data[0] == '0');
}

const char *literal_number(struct text text, bool after_dot, struct literal_number *number)
{
    size_t whole = digits_end(text, 0), end = whole;
    *number = (struct literal_number){.size = whole};
    if (whole + 1 < text.size && text.data[whole] == '.')
        end = digits_end(text, whole + 1) > whole + 1 ? digits_end(text, whole + 1) : whole;
    end = exponent_end(text, end);
    if (end > whole && !after_dot) {
        number->is_float = true;
        number->size = end;
    }
    struct text digits = {text.data, number->size};
    if (is_other_form(text, whole, number->size))
        return "a number in a form that is not supported: decimal digits only, no underscores, no zeros in "
               "front";
    if (number->is_float)
        return number_text_float(digits, &number->number) ? NULL : "a number of too many digits";
    return number_text_integer(digits, &number->integer) == NUMBER_TEXT_OK ? NULL : "a number beyond 64 bits";
}

static int digit_at(struct text text, size_t position)
{
    const char *digits = "0123456789abcdef";
    const char *digit = position < text.size && text.data[position]
                            ? strchr(digits, tolower((unsigned char)text.data[position]))
                            : NULL;
    return digit ? (int)(digit - digits) : 99;
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

static const char *hexadecimal_problem(char letter)
{
    return letter == 'x'   ? "truncated \\xXX escape"
           : letter == 'u' ? "truncated \\uXXXX escape"
                           : "truncated \\UXXXXXXXX escape";
}

// Decodes an escape sequence behind its backslash, at *position. Returns a problem or NULL.
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
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        ++*position;
        if (!hexadecimal(body, position, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, &codepoint))
            return hexadecimal_problem(letter);
        if (codepoint > 0x10FFFF || (codepoint >= 0xD800 && codepoint < 0xE000))
            return "an escape that is no character";
        *size += utf8_encode(codepoint, out + *size);
    } else if (letter == 'N' || (letter >= '0' && letter <= '7') || (unsigned char)letter >= 0x80) {
        return letter == 'N' ? "\\N escapes are not supported"
                             : "an escape of digits, or of a character beyond ASCII, is not supported";
    } else {
        out[(*size)++] = '\\';
    }
    return NULL;
}

const char *literal_unescape(struct text body, char *out, struct text *text)
{
    const char *problem = NULL;
    size_t size = 0;
    for (size_t i = 0; i < body.size && !problem;) {
        char byte = body.data[i++];
        if (byte == '\\' && i < body.size)
            problem = unescape_one(body, &i, out, &size);
        else
            out[size++] = byte;
    }
    *text = (struct text){out, size};
    return problem;
}

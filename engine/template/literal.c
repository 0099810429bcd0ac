#include "engine/template/literal.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES_MAX = LITERAL_DIGITS_MAX };

// Copies the text, replacing digits of all scripts by ASCII digits. False: the text has another character
// beyond ASCII, or does not fit.
static bool copy_digits(struct text text, char *plain, size_t capacity)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size;) {
        uint32_t codepoint = codepoints_next(text, &i);
        int digit = codepoint < 0x80 ? -1 : character_decimal(codepoint);
        if (!codepoint || size + 1 == capacity || (codepoint >= 0x80 && digit < 0))
            return false;
        plain[size++] = digit < 0 ? (char)codepoint : (char)('0' + digit);
    }
    plain[size] = '\0';
    return true;
}

// Copies the number without surrounding whitespace and without underscores between digits (with_letters: or
// letters). False: an underscore is elsewhere, or the text does not fit in `plain`.
static bool copy_plain(struct text text, bool with_letters, char *plain, size_t capacity)
{
    int (*is_digit)(int character) = with_letters ? isalnum : isdigit;
    if (!copy_digits(text_strip(text, (struct text){0}, true, true), plain, capacity))
        return false;
    size_t size = 0;
    for (size_t i = 0; plain[i]; i++) {
        bool between =
            i > 0 && is_digit((unsigned char)plain[i - 1]) && is_digit((unsigned char)plain[i + 1]);
        if (plain[i] == '_' && !between)
            return false;
        if (plain[i] != '_')
            plain[size++] = plain[i];
    }
    plain[size] = '\0';
    return true;
}

// Returns the base of the prefix 0x, 0o or 0b; 0: no prefix.
static int prefix_base(const char *digits)
{
    char letter = digits[0] == '0' ? (char)tolower((unsigned char)digits[1]) : '\0';
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

static bool is_digit_of(int base, uint32_t codepoint)
{
    int character = codepoint < 0x80 ? (int)codepoint : 0;
    int digit = isalpha(character)   ? tolower(character) - 'a' + 10
                : isdigit(character) ? character - '0'
                                     : -1;
    if (codepoint >= 0x80)
        digit = character_decimal(codepoint);
    return digit >= 0 && digit < (base ? base : 16);
}

// True for a number of more digits than a `plain` holds: a sign, a prefix such as 0x, digits and underscores.
static bool is_long_number(struct text text, int base)
{
    struct text stripped = text_strip(text, (struct text){0}, true, true);
    size_t n = 0;
    for (size_t i = 0; i < stripped.size; n++) {
        uint32_t codepoint = codepoints_next(stripped, &i);
        bool is_prefix = n < 3 && base != 10 && codepoint < 0x80 && strchr("xXoO", (int)codepoint);
        bool is_sign = n == 0 && (codepoint == '-' || codepoint == '+');
        if (!is_digit_of(base, codepoint) && codepoint != '_' && !is_prefix && !is_sign)
            return false;
    }
    return n + 1 >= NUMBER_BYTES_MAX;
}

enum literal_status literal_read_integer(struct text text, int base, int64_t *integer)
{
    char plain[NUMBER_BYTES_MAX], *end;
    if (!copy_plain(text, base != 10, plain, sizeof plain))
        return is_long_number(text, base) ? LITERAL_TOO_LARGE : LITERAL_NONE;
    size_t start = plain[0] == '-' || plain[0] == '+';
    int prefixed = prefix_base(plain + start);
    if (base == 0 && !prefixed && plain[start] == '0' && plain[start + strspn(plain + start, "0")])
        return LITERAL_NONE; // 012 is not a number
    bool has_prefix = prefixed && (base == 0 || base == prefixed);
    base = base ? base : prefixed ? prefixed : 10;
    if (has_prefix)
        memmove(plain + start, plain + start + 2, strlen(plain + start + 2) + 1);
    if (!isalnum((unsigned char)plain[start]) ||
        (base != 10 && prefix_base(plain + start) == base && base == 16))
        return LITERAL_NONE; // strtoll would accept a second sign or prefix
    errno = 0;
    *integer = strtoll(plain, &end, base);
    if (*end || end == plain + start)
        return LITERAL_NONE;
    return errno ? LITERAL_TOO_LARGE : LITERAL_OK;
}

bool literal_read_long(struct text text, char digits[LITERAL_DIGITS_MAX + 1])
{
    char plain[NUMBER_BYTES_MAX];
    if (!copy_plain(text, false, plain, sizeof plain))
        return false;
    const char *first = plain + strspn(plain, "+-");
    sprintf(digits, "%s%s", *plain == '-' ? "-" : "", first + strspn(first, "0"));
    return true;
}

bool literal_read_float(struct text text, double *number)
{
    char plain[NUMBER_BYTES_MAX], *end;
    if (!copy_plain(text, false, plain, sizeof plain))
        return false;
    bool is_decimal = plain[strspn(plain, "0123456789+-.eE")] == '\0';
    *number = strtod(plain, &end);
    const char *word = plain + (plain[0] == '-' || plain[0] == '+');
    bool is_word =
        strcasecmp(word, "nan") == 0 || strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0;
    return (is_decimal || is_word) && end > plain && !*end;
}

// Rounds to a multiple of 10^n, even if 10^n exceeds the number.
static double round_to_power(double number, int n)
{
    char text[512];
    snprintf(text, sizeof text, "%.40e", fabs(number));
    int n_digits = atoi(strchr(text, 'e') + 1) - n; // digits to keep after the first one
    if (number == 0 || n_digits < -1)
        return copysign(0, number);
    if (n_digits >= 0)
        snprintf(text, sizeof text, "%.*e", n_digits, number);
    else
        snprintf(text, sizeof text, "%s1e%d", number < 0 ? "-" : "", n);
    double rounded = strtod(text, NULL), half = n_digits < 0 ? strtod("5e0", NULL) * pow(10, n - 1) : 0;
    return n_digits < 0 && fabs(number) <= half ? copysign(0, number) : rounded;
}

double literal_round(double number, int64_t precision)
{
    enum { DIGITS_MAX = 323 }; // 323 = 15 + 308 digits distinguish all doubles; more digits change nothing
    if (!isfinite(number) || precision > DIGITS_MAX)
        return number;
    if (precision < 0)
        return precision < -309 ? copysign(0, number) : round_to_power(number, (int)-precision);
    char text[DIGITS_MAX + 320];
    snprintf(text, sizeof text, "%.*f", (int)precision, number); // rounds the exact value, ties to even
    return strtod(text, NULL);
}

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

// Other spellings of a number: 0x1F, 1_000, 007.
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
        return literal_read_float(digits, &number->number) ? NULL : "a number of too many digits";
    return literal_read_integer(digits, 10, &number->integer) == LITERAL_OK ? NULL
                                                                            : "a number beyond 64 bits";
}

static int digit_at(struct text text, size_t position)
{
    int byte = position < text.size ? tolower((unsigned char)text.data[position]) : 0;
    return byte >= '0' && byte <= '9' ? byte - '0' : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : 99;
}

static bool read_hexadecimal(struct text body, size_t *position, size_t n_digits, uint32_t *codepoint)
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

// Decodes the escape sequence at *position, after its backslash. Returns a problem or NULL.
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
        if (!read_hexadecimal(body, position, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, &codepoint))
            return letter == 'x'   ? "truncated \\xXX escape"
                   : letter == 'u' ? "truncated \\uXXXX escape"
                                   : "truncated \\UXXXXXXXX escape";
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

#include "engine/template/number_text.h"
#include "engine/template/text_operations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FLOAT_BYTES_MAX = 400 };

static unsigned digit_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return (unsigned)(byte - '0');
    byte |= 32;
    return byte >= 'a' && byte <= 'z' ? (unsigned)(byte - 'a') + 10 : 99;
}

static unsigned prefix_base(struct text text)
{
    if (text.size < 3 || text.data[0] != '0')
        return 10;
    char letter = (char)(text.data[1] | 32);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
}

enum number_text_status number_text_integer(struct text text, int64_t base, int64_t *integer)
{
    text = text_strip(text, (struct text){0}, true, true);
    bool negative = text.size && text.data[0] == '-', digits = false, underscore_allowed = false,
         overflow = false;
    if (negative || (text.size && text.data[0] == '+'))
        text = (struct text){text.data + 1, text.size - 1};
    if ((base != 0 && base < 2) || base > 36)
        return NUMBER_TEXT_NONE;
    unsigned prefixed = prefix_base(text);
    bool any_base = base == 0;
    if (any_base)
        base = prefixed;
    if (prefixed != 10 && base == prefixed) {
        text = (struct text){text.data + 2, text.size - 2};
        underscore_allowed = true;
    }
    *integer = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = digit_value(text.data[i]);
        if (text.data[i] == '_' && underscore_allowed && i + 1 < text.size) {
            underscore_allowed = false;
            continue;
        }
        if (digit >= (unsigned)base || (any_base && prefixed == 10 && i == 1 && text.data[0] == '0' && digit))
            return NUMBER_TEXT_NONE;
        overflow = overflow || __builtin_mul_overflow(*integer, base, integer) ||
                   __builtin_sub_overflow(*integer, (int64_t)digit, integer); // downward: INT64_MIN fits
        digits = underscore_allowed = true;
    }
    if (!digits)
        return NUMBER_TEXT_NONE;
    if (!negative)
        overflow = __builtin_sub_overflow(0, *integer, integer) || overflow;
    return overflow ? NUMBER_TEXT_TOO_LARGE : NUMBER_TEXT_OK;
}

// Digits with single underscores between, into out. Returns how many digits, or -1 for a misplaced
// underscore.
static int copy_digits(struct text text, size_t *position, char *out, size_t *size)
{
    int n = 0;
    for (; *position < text.size; ++*position) {
        char byte = text.data[*position];
        if (byte == '_') {
            bool between = n > 0 && *position + 1 < text.size && digit_value(text.data[*position + 1]) < 10 &&
                           text.data[*position - 1] != '_';
            if (!between)
                return -1;
            continue;
        }
        if (digit_value(byte) >= 10)
            break;
        if (*size < FLOAT_BYTES_MAX)
            out[(*size)++] = byte;
        n++;
    }
    return n;
}

static bool special_float(struct text text, double *number)
{
    bool negative = text.size && text.data[0] == '-';
    size_t sign = negative || (text.size && text.data[0] == '+') ? 1 : 0;
    const char *word = text.data + sign;
    size_t size = text.size - sign;
    if (size == 3 && strncasecmp(word, "nan", 3) == 0)
        *number = NAN;
    else if ((size == 3 && strncasecmp(word, "inf", 3) == 0) ||
             (size == 8 && strncasecmp(word, "infinity", 8) == 0))
        *number = INFINITY;
    else
        return false;
    if (negative)
        *number = -*number;
    return true;
}

bool number_text_float(struct text text, double *number)
{
    char plain[FLOAT_BYTES_MAX + 16];
    size_t size = 0, i = 0;
    text = text_strip(text, (struct text){0}, true, true);
    if (special_float(text, number))
        return true;
    if (text.size > FLOAT_BYTES_MAX)
        return false;
    if (i < text.size && (text.data[i] == '-' || text.data[i] == '+'))
        plain[size++] = text.data[i++];
    int whole = copy_digits(text, &i, plain, &size), fraction = 0;
    if (i < text.size && text.data[i] == '.') {
        plain[size++] = '.';
        i++;
        fraction = copy_digits(text, &i, plain, &size);
    }
    if (whole < 0 || fraction < 0 || whole + fraction == 0)
        return false;
    if (i < text.size && (text.data[i] | 32) == 'e') {
        plain[size++] = 'e';
        i++;
        if (i < text.size && (text.data[i] == '-' || text.data[i] == '+'))
            plain[size++] = text.data[i++];
        if (copy_digits(text, &i, plain, &size) <= 0)
            return false;
    }
    if (i != text.size)
        return false;
    plain[size] = '\0';
    *number = strtod(plain, NULL);
    return true;
}

double number_text_round(double number, int64_t precision)
{
    // 15 + 308 digits hold every double exactly enough: more change nothing, fewer than -308 leave nothing.
    enum { DIGITS_MAX = 323, DIGITS_MIN = -308 };
    if (!isfinite(number) || precision > DIGITS_MAX)
        return number;
    if (precision < DIGITS_MIN)
        return copysign(0, number);
    char text[DIGITS_MAX + 320];
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, number); // rounds the exact value, ties to even
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-precision), scaled = number / unit, whole = round(scaled);
    if (fabs(scaled - whole) == 0.5)
        whole = 2 * round(scaled / 2);
    return whole * unit;
}

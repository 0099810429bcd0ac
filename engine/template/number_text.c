#include "engine/template/number_text.h"
#include "engine/template/text_operations.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES_MAX = 400 };

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

// Without blanks around, and without the underscores between digits. False: an underscore elsewhere, or too
// long for `plain`.
static bool copy_plain(struct text text, char *plain, size_t capacity)
{
    size_t size = 0;
    text = text_strip(text, (struct text){0}, true, true);
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        bool between = i > 0 && i + 1 < text.size && is_digit(text.data[i - 1]) && is_digit(text.data[i + 1]);
        if (!byte || size + 1 == capacity || (byte == '_' && !between))
            return false;
        if (byte != '_')
            plain[size++] = byte;
    }
    plain[size] = '\0';
    return true;
}

enum number_text_status number_text_integer(struct text text, int64_t *integer)
{
    char plain[NUMBER_BYTES_MAX], *end;
    if (!copy_plain(text, plain, sizeof plain))
        return text.size < sizeof plain ? NUMBER_TEXT_NONE : NUMBER_TEXT_TOO_LARGE;
    size_t sign = plain[0] == '-' || plain[0] == '+', n_digits = strspn(plain + sign, "0123456789");
    if (!n_digits || plain[sign + n_digits])
        return NUMBER_TEXT_NONE;
    errno = 0;
    *integer = strtoll(plain, &end, 10);
    return errno ? NUMBER_TEXT_TOO_LARGE : NUMBER_TEXT_OK;
}

static bool is_special(const char *word)
{
    return strcasecmp(word, "nan") == 0 || strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0;
}

bool number_text_float(struct text text, double *number)
{
    char plain[NUMBER_BYTES_MAX];
    if (!copy_plain(text, plain, sizeof plain))
        return false;
    const char *c = plain + (plain[0] == '-' || plain[0] == '+');
    size_t whole = strspn(c, "0123456789"),
           fraction = c[whole] == '.' ? strspn(c + whole + 1, "0123456789") : 0;
    const char *end = c + whole + fraction + (c[whole] == '.');
    if (whole + fraction && (*end | 32) == 'e') {
        const char *digits = end + 1 + (end[1] == '-' || end[1] == '+');
        size_t n_digits = strspn(digits, "0123456789");
        end = n_digits ? digits + n_digits : end;
    }
    if (!is_special(c) && (whole + fraction == 0 || *end))
        return false;
    *number = strtod(plain, NULL);
    return true;
}

double number_text_round(double number, int64_t precision)
{
    enum { DIGITS_MAX = 323 }; // 15 + 308 digits hold every double exactly enough: more change nothing
    if (!isfinite(number) || precision > DIGITS_MAX || precision < 0)
        return number;
    char text[DIGITS_MAX + 320];
    snprintf(text, sizeof text, "%.*f", (int)precision, number); // rounds the exact value, ties to even
    return strtod(text, NULL);
}

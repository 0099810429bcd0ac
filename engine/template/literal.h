// Parses number and string literals of the template language, and numbers in text as Python's int() and
// float() do; Python's round().
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct literal_number {
    bool is_float;
    int64_t integer;
    double number;
    size_t size; // bytes of source
};

// Parses the number at the start of `text`, which starts with a digit. After a dot (`a.0.1`) it is an
// integer. Returns a problem or NULL.
const char *literal_number(struct text text, bool after_dot, struct literal_number *number);
// Decodes a string literal, whose source between the quotes is `body`, like Python's unicode-escape. `out`
// has room for body.size + 4 bytes. Returns a problem or NULL.
const char *literal_unescape(struct text body, char *out, struct text *text);

enum literal_status { LITERAL_NONE, LITERAL_OK, LITERAL_TOO_LARGE };

// Reads an integer with surrounding whitespace, a sign, single underscores between digits, and decimal digits
// of any script. `base` is 2 to 36 (2, 8 and 16 also accept their prefix), or 0: the prefix 0x, 0o or 0b
// decides.
enum literal_status literal_read_integer(struct text text, int base, int64_t *integer);
enum { LITERAL_DIGITS_MAX = 400 };
// Reads a decimal integer as "-12", without leading zeros. False: it has too many digits.
bool literal_read_long(struct text text, char digits[LITERAL_DIGITS_MAX + 1]);
bool literal_read_float(struct text text, double *number);
// Rounds the exact binary value to `precision` decimal digits, ties to even. A negative precision rounds to
// tens, hundreds and so on.
double literal_round(double number, int64_t precision);

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

// The number at the start of `text`, which starts with a digit. After a dot (`a.0.1`) it is an integer.
// Returns a problem or NULL.
const char *literal_number(struct text text, bool after_dot, struct literal_number *number);
// The text of a string literal with the source `body` between its quotes, as Python's unicode-escape; `out`
// has room for body.size + 4 bytes. Returns a problem or NULL.
const char *literal_unescape(struct text body, char *out, struct text *text);

enum literal_status { LITERAL_NONE, LITERAL_OK, LITERAL_TOO_LARGE };

// Accepts surrounding whitespace, a sign, single underscores between digits, decimal digits of any script.
// Base: 2 to 36 (base 2, 8 or 16
// also accepts its own prefix), or 0: by the prefix 0x, 0o or 0b.
enum literal_status literal_read_integer(struct text text, int base, int64_t *integer);
enum { LITERAL_DIGITS_MAX = 400 };
// A decimal integer as "-12", without zeros in front. False: it has more digits.
bool literal_read_long(struct text text, char digits[LITERAL_DIGITS_MAX + 1]);
bool literal_read_float(struct text text, double *number);
// Rounds to `precision` decimal digits (negative: to tens, hundreds) by the exact binary value; ties to even.
double literal_round(double number, int64_t precision);

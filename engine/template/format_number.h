// Numbers and text as printf-style and str.format formatting print them (format.h).
#pragma once

#include "engine/template/object.h"

enum { FORMAT_WIDTH_MAX = 100000, FORMAT_PRECISION_MAX = 1000 };

// A parsed format specification. A zeroed one has no effect.
struct format_style {
    uint32_t fill;     // 0: a blank
    char align;        // '<', '>', '^', '=' (padding after the sign); 0: the kind's default
    char sign;         // '+', ' ' or 0
    char type;         // 0: none given
    char grouping;     // ',' or '_' between thousands, or 0
    bool is_alternate; // #
    int64_t width;     // in characters
    int64_t precision; // -1: none given
};

// A formatted number in three parts: sign, prefix, digits.
struct format_digits {
    char sign; // 0: none
    char prefix[3];
    char text[FORMAT_PRECISION_MAX + 400];
};

// Formats an integer. style->type is b, o, x, X, or d (also 0).
void format_integer(int64_t integer, const struct format_style *style, struct format_digits *digits);
// Formats an integer beyond 64 bits from its digits in base 10. False: they do not fit.
bool format_long(const char *spelling, const struct format_style *style, struct format_digits *digits);
// Formats a float. style->type is e, E, f, F, g, G or %. With 0 the result is the same as for str();
// with 0 and a precision it is the same as for g, but with ".0" on whole numbers.
void format_float(double number, const struct format_style *style, struct format_digits *digits);
// Appends the digits, grouped, padded and aligned, to rendering->text.
void format_add_digits(struct rendering *rendering, const struct format_digits *digits,
                       const struct format_style *style);
// Appends a text, cut to style->precision characters, padded and aligned.
void format_add_text(struct rendering *rendering, struct text text, const struct format_style *style);

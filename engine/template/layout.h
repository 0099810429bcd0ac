// How the formatters lay out one value: sign, digits, grouping, padding.
#pragma once

#include "engine/template/object.h"

enum { LAYOUT_PRECISION_MAX = 1000, LAYOUT_NUMBER_BYTES_MAX = LAYOUT_PRECISION_MAX + 340 };

struct layout {
    uint32_t fill;  // ' ' when not given
    char align;     // '<', '>', '^', '=' (padding behind the sign)
    char sign;      // '-', '+', ' '
    bool alternate; // '#'
    char grouping;  // ',', '_', or '\0'
    int64_t width;
    int precision; // -1: not given
    char type;     // '\0': not given
};

// Each appends to rendering->text.
bool layout_add_text(struct rendering *rendering, struct text text, const struct layout *layout);
// type: one of d b o x X.
bool layout_add_integer(struct rendering *rendering, int64_t integer, const struct layout *layout);
// type: one of e E f F g G %, or '\0' for the shortest form.
bool layout_add_float(struct rendering *rendering, double number, const struct layout *layout);

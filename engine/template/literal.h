// Number and string literals of the template language.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stdint.h>

struct literal_number {
    bool is_float;
    int64_t integer;
    double number;
    size_t size; // bytes it takes
};

// The number at the start of `text`, which starts with a digit. After a dot (`a.0.1`) it is an integer.
// Returns a problem or NULL.
const char *literal_number(struct text text, bool after_dot, struct literal_number *number);
// The text of a string literal whose inside is `body`, as Python's unicode-escape; `out` has room for 4 bytes
// more than the body. Returns a problem or NULL.
const char *literal_unescape(struct text body, char *out, struct text *text);

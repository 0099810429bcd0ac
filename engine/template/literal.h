// Number and string literals of the template language.
#pragma once

#include "schemas/arena.h"
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
// The text that a string literal's inside stands for, as Python's unicode-escape. False: *problem says why,
// or is NULL when memory ran out.
bool literal_unescape(struct text body, struct arena *arena, struct text *text, const char **problem);

// Finds the known name most similar to an unknown one, for a message: the smallest Levenshtein distance, at
// most half of the name's bytes. A known name that begins with the unknown one (3 bytes or more) counts as
// distance 1. Names above 64 bytes are not compared.
#pragma once

#include "schemas/base/text.h"

struct nearest {
    struct text name;  // the unknown one
    struct text found; // points into the candidate; data NULL: none is similar
    size_t distance;   // of `found`; before one is found, the limit
};

struct nearest nearest_begin(struct text name);
// Compares a candidate. True: it is now `found`.
bool nearest_try(struct nearest *nearest, struct text candidate);
struct text nearest_name(struct text name, const struct text *names, size_t n);

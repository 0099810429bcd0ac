// Finds the known name that is most similar to an unknown one, for an error message: the one with the
// smallest Levenshtein distance, which must be at most half of the name's bytes. A known name that begins
// with the unknown one (3 bytes or more) counts as distance 1. Names above 64 bytes are not compared.
#pragma once

#include "schemas/base/text.h"

struct nearest {
    struct text name;  // the unknown name
    struct text found; // points into the candidate; data NULL: none is similar
    size_t distance;   // distance of `found`; the limit before one is found
};

struct nearest nearest_begin(struct text name);
// Compares a candidate with the best one so far. Returns true if the candidate becomes `found`.
bool nearest_try(struct nearest *nearest, struct text candidate);
struct text nearest_name(struct text name, const struct text *names, size_t n);

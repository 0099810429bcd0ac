// The known name that is most like an unknown one, for a message. By Levenshtein's distance, at most half of
// the name's bytes; a name that begins with the unknown one, of 3 bytes or more, is at distance 1. None of
// names above 64 bytes.
#pragma once

#include "schemas/text.h"

struct nearest {
    struct text name;  // the unknown one
    struct text found; // data NULL: none is like it. Points to the candidate
    size_t distance;   // of `found`; without one, the limit
};

struct nearest nearest_begin(struct text name);
// Whether `candidate` is now the one found.
bool nearest_try(struct nearest *nearest, struct text candidate);
struct text nearest_name(struct text name, const struct text *names, size_t n);

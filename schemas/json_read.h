// The reader of JSON for what is JSON: one pass from the text to the value tree, several times faster than a parser
// that makes a tree of its own first. It has no words for faults: whatever is not plainly right it leaves to json.c,
// where jansson reads the text again and says what is wrong. Internal to schemas/ and its tests.
#pragma once

#include "schemas/value.h"

// Reads the whole input to the rules of json_decode (value.h). `strings` has room for input.size bytes and is the arena's.
// False: not read, for a fault, a limit, or no memory; what it took of the arena stays there, unused.
bool json_read(struct text input, size_t n_values_max, struct arena *arena, char *strings, struct value *value) WARN_UNUSED;

// json.c's other way alone, by which tests measure this one.
enum status json_decode_by_library(struct text input, size_t n_values_max, struct arena *arena, char *strings,
                                   struct value *value, struct error *error) WARN_UNUSED;

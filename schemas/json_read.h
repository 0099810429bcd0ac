// The reader of JSON: one pass from the text to the value tree, several times as fast as a parser with a tree
// of its own. Internal to schemas/ and its tests.
#pragma once

#include "schemas/value.h"

// Reads the whole input to the rules of json_decode (value.h), or json_decode_spelled. `strings` has room for
// input.size + 1 bytes and is the arena's. Errors name the byte, counted from 0, and the cause; allocations
// of a failed call remain in the arena, unused.
enum status json_read(struct text input, size_t n_values_max, bool is_spelled, struct arena *arena,
                      char *strings, struct value *value, struct error *error) WARN_UNUSED;

// The reader of JSON: one pass from the text to the value tree, several times as fast as a parser with a tree
// of its own. Internal to schemas/ and its tests.
#pragma once

#include "schemas/value.h"

// Reads the whole input to the rules of json_decode (value.h), or json_decode_spelled. `strings` has room for
// input.size + 1 bytes and is the arena's. Errors name the byte, counted from 0, and the cause; allocations
// of a failed call remain in the arena, unused.
enum status json_read(struct text input, size_t n_values_max, bool is_spelled, struct arena *arena,
                      char *strings, struct value *value, struct error *error) WARN_UNUSED;

// Whether one of the eight bytes is a quote, a backslash, below 0x20 or above 0x7F: the usual bit tricks on
// words (H. S. Warren, "Hacker's Delight", 6-1). A byte behind the first one may be a false positive, which
// only costs a test.
static inline bool json_has_special(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = bytes ^ ones * '"', backslash = bytes ^ ones * '\\';
    uint64_t found = (bytes - ones * 0x20) | (quote - ones) | (backslash - ones) | bytes;
    return found & tops;
}

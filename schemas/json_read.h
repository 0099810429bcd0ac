// JSON reader: one pass from the text to the value tree, several times as fast as converting another parser's
// tree. Internal to schemas/ and its tests.
#pragma once

#include "schemas/value.h"

enum json_rules {
    JSON_STRICT = 0,      // the rules of json_decode (value.h)
    JSON_SPELLED = 1,     // numbers keep their digits, as in json_decode_spelled
    JSON_LAST_MEMBER = 2, // a key may occur twice and contain NUL, as in json_decode_answer (json_answer.h)
};

// Reads the whole input. `rules` is a sum of enum json_rules. `strings` has input.size + 1 bytes in the
// arena. Errors name the byte (counted from 0) and the cause. Allocations of a failed call stay in the arena,
// unused.
enum status json_read(struct text input, size_t n_values_max, int rules, struct arena *arena, char *strings,
                      struct value *value, struct error *error) WARN_UNUSED;

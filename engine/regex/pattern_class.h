// Parts of a pattern that match one character: escapes and classes in brackets. Internal to engine/grammar/.
#pragma once

#include "engine/regex/pattern_tree.h"

struct pattern_reader {
    struct expressions *pool;
    enum pattern_dialect dialect;
    struct pattern_tree tree;
    struct text text;
    size_t at;
    unsigned depth;
    bool had_bracket; // an empty class, or a class with '[': a bare ']' behind it is refused
    struct error *error;
};

// STATUS_REJECT: "pattern, byte 5: ...".
enum status pattern_refuse(struct pattern_reader *reader, const char *format, ...) PRINTF_LIKE(2, 3);
bool pattern_next_is(const struct pattern_reader *reader, const char *string); // ASCII
bool pattern_take(struct pattern_reader *reader, const char *string);          // and moves behind it

// After a backslash: a set in *set. STATUS_REJECT when it is no character's escape.
enum status pattern_read_escape(struct pattern_reader *reader, bool in_class, uint32_t *set);
// After '[': to behind the ']'.
enum status pattern_read_class(struct pattern_reader *reader, uint32_t *set);
// One character as it is: it belongs to the set.
enum status pattern_read_character(struct pattern_reader *reader, uint32_t *set);
uint32_t pattern_dot(const struct pattern_reader *reader);

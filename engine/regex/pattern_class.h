// Reads the parts of a pattern that match one character: escapes and bracket classes. Internal to
// engine/regex/ and engine/grammar/.
#pragma once

#include "engine/regex/pattern_tree.h"

struct pattern_reader {
    struct expressions *pool;
    enum pattern_dialect dialect;
    struct pattern_tree tree;
    struct text text;
    size_t at;
    unsigned depth;
    bool had_bracket; // an empty class or a class with '[' was read; after it a bare ']' is rejected
    struct error *error;
};

// Sets an error with the byte, "pattern, byte 5: ...". Returns STATUS_REJECT.
enum status pattern_refuse(struct pattern_reader *reader, const char *format, ...) PRINTF_LIKE(2, 3);
bool pattern_next_is(const struct pattern_reader *reader, const char *string); // ASCII
bool pattern_take(struct pattern_reader *reader, const char *string);          // skips it if it is next

// Called after a backslash: *set becomes the set of code points. STATUS_REJECT: not an escape of a character
// or class.
enum status pattern_read_escape(struct pattern_reader *reader, bool in_class, uint32_t *set);
// Called after '[': reads up to and including ']'.
enum status pattern_read_class(struct pattern_reader *reader, uint32_t *set);
// Reads one literal character.
enum status pattern_read_character(struct pattern_reader *reader, uint32_t *set);
uint32_t pattern_dot(const struct pattern_reader *reader);

// JSON values as text for `sheaf grammar`: compact, or with a blank behind each comma and colon and without
// any character above ASCII, as Python's json.dumps writes. The order of keys stays as it is. An instance's
// numbers are written as answers have them, so that a verdict is about its values.
#pragma once

#include "engine/json_schema/json_document.h"

enum { GRAMMAR_TEXT_INTEGER_DIGITS = 19 }; // longer integers that were written with an exponent keep one

enum grammar_text_numbers {
    GRAMMAR_TEXT_NUMBERS_AS_WRITTEN, // of schemas
    GRAMMAR_TEXT_NUMBERS_GENERATED,
    GRAMMAR_TEXT_NUMBERS_DRAFT_4, // the same, and 1.0 stays apart from 1
};

struct grammar_text_style {
    bool has_spaces;
    enum grammar_text_numbers numbers;
};

void grammar_text_write(const struct json_node *node, struct grammar_text_style style, struct buffer *out);
// How instances of the schema are written.
enum grammar_text_numbers grammar_text_numbers_of(const struct json_node *schema);

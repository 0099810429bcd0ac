// Writes JSON values as text for `sheaf grammar`: compact, or as Python's json.dumps does, with a blank after
// each comma and colon and without characters above ASCII. The order of keys is kept. Numbers of instances
// are spelled as in answers, so that a verdict depends on their values alone.
#pragma once

#include "engine/json_schema/json_document.h"

enum { GRAMMAR_TEXT_INTEGER_DIGITS = 19 }; // longer integers that were written with an exponent keep one

enum grammar_text_numbers {
    GRAMMAR_TEXT_NUMBERS_AS_WRITTEN, // for schemas
    GRAMMAR_TEXT_NUMBERS_GENERATED,
    GRAMMAR_TEXT_NUMBERS_DRAFT_4, // as generated, but 1.0 is not written as 1
};

struct grammar_text_style {
    bool has_spaces;
    enum grammar_text_numbers numbers;
};

void grammar_text_write(const struct json_node *node, struct grammar_text_style style, struct buffer *out);
// How instances of the schema are written.
enum grammar_text_numbers grammar_text_numbers_of(const struct json_node *schema);

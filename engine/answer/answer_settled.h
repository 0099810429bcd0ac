// The beginnings of an answer's thoughts and content that no later text changes, for streaming while the answer
// is generated. They are beginnings of what answer_parse() finds in the whole answer. For answers without calls.
#pragma once

#include "engine/answer/answer_format.h"

struct settled_answer {
    struct buffer reasoning; // the caller clears and frees it. `failed`: out of memory
    struct text content;     // a part of `text`
};

// `text`: UTF-8, with the names of the format's special tokens. is_open: the prompt ends with the opening of
// thoughts.
void answer_settle(const struct thinking_format *format, bool is_open, struct text text,
                   struct settled_answer *settled);

// Splits the text of an answer into reasoning, content and tool calls.
//
// If a call is invalid (cut off by max_tokens, a function that was not offered, arguments that are not a JSON
// object), the whole answer is content, as in vLLM.
#pragma once

#include "engine/answer/answer_format.h"
#include "schemas/base/span.h"
#include "schemas/job.h"

struct answer_parts {
    struct text content;
    struct text reasoning; // data NULL: none
    // Ranges of `raw` with the thoughts between their delimiters, including blanks at their ends. The caller
    // frees them, even after an error.
    struct text_spans thoughts;
    struct tool_call *calls; // [n_calls] in the arena, without ids
    int32_t n_calls;
};

// Splits `raw`, UTF-8 with special tokens as grammar_special_token() writes them. Tokens that the format does
// not know are dropped. `thinking` is the state at the end of the prompt. STATUS_RETRY: out of memory.
enum status answer_parse(const struct answer_format *format, const struct tools *tools,
                         enum thinking_state thinking, struct text raw, struct arena *arena,
                         struct answer_parts *parts, struct error *error) WARN_UNUSED;
// Sets the id of the call at a position. It is a function of the seed, which is derived from the request and
// the choice. False: out of memory.
bool answer_call_id(const struct tool_format *format, uint64_t seed, int32_t position, struct tool_call *call,
                    struct arena *arena) WARN_UNUSED;

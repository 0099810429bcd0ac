// Splits the text of an answer into thoughts, content and calls of tools.
//
// Text that looks like a call but is none (cut by max_tokens, a function that was not offered, arguments that
// are no JSON object) leaves the whole answer as content, as in vLLM.
#pragma once

#include "engine/answer/answer_format.h"
#include "schemas/job.h"
#include "schemas/span.h"

struct answer_parts {
    struct text content;
    struct text reasoning; // data NULL: none
    // Of `raw`: the thoughts between their marks, with the blanks around them. The caller's to finish, also
    // after an error.
    struct text_spans thoughts;
    struct tool_call *calls; // [n_calls] in the arena, without ids
    int32_t n_calls;
};

// `raw` is UTF-8 in which special tokens stand as grammar_special_token() writes them; those that the format
// does not know are left out. `thinking`: of the prompt. STATUS_RETRY: no memory.
enum status answer_parse(const struct answer_format *format, const struct tools *tools,
                         enum thinking_state thinking, struct text raw, struct arena *arena,
                         struct answer_parts *parts, struct error *error) WARN_UNUSED;
// The id of the call at a position: a function of the seed, which names request and choice.
bool answer_call_id(const struct tool_format *format, uint64_t seed, int32_t position, struct tool_call *call,
                    struct arena *arena) WARN_UNUSED;

// Grammar rules for an answer in the model's format: reasoning, then content or tool calls. Text is free
// until the marker of a call or of the end of the reasoning. From there a call must name one of the
// functions, and its arguments must match that function's schema.
#pragma once

#include "engine/answer/answer_format.h"
#include "engine/grammar/rules.h"
#include "schemas/job.h"

// Limit on the JSON of all functions' parameters together. For one function
// GRAMMAR_LIMIT_SOURCE_BYTES applies.
enum { ANSWER_SCHEMA_BYTES_MAX = 4 << 20 };

struct answer_task {
    const struct answer_format *format;
    enum thinking_state thinking;
    const struct tools *tools; // choice TOOLS_NONE: no calls
    bool has_content;          // `content` constrains the text
    uint32_t content;          // symbol of the rules, if has_content; else any text
    // Returns whether the vocabulary has a special token of this name. NULL: it has no special tokens.
    bool (*is_special)(const void *context, struct text name);
    const void *context;
};

// Errors: STATUS_REJECT if a schema cannot be enforced or a limit is exceeded. *function is then the index of
// the tool, or -1 if the error is not about a tool.
enum status answer_grammar_build(const struct answer_task *task, struct rules *rules, uint32_t *start,
                                 int32_t *function, struct error *error) WARN_UNUSED;

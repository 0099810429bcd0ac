// Grammar rules for an answer in the model's format: reasoning, then content or tool calls. Text is free
// until the marker of a call or of the end of the reasoning. From there a call must name one of the
// functions, and its arguments must match that function's schema.
#pragma once

#include "engine/answer/answer_format.h"
#include "engine/grammar/rules.h"
#include "schemas/job.h"

// JSON of the parameters of all functions together. One function may have grammar_source_bytes.
enum { ANSWER_SCHEMA_BYTES_MAX = 4 << 20 };

struct answer_task {
    const struct answer_format *format;
    enum thinking_state thinking;
    const struct tools *tools; // choice TOOLS_NONE: no calls
    bool has_content;          // `content` constrains the text
    uint32_t content;          // symbol of the rules, if has_content; else any text
    // Whether the vocabulary has a special token of this name; NULL: it has none.
    bool (*is_special)(const void *context, struct text name);
    const void *context;
};

// STATUS_REJECT: a schema that cannot be enforced, or a limit; *function is then the index of the tool
// concerned, or -1.
enum status answer_grammar_build(const struct answer_task *task, struct rules *rules, uint32_t *start,
                                 int32_t *function, struct error *error) WARN_UNUSED;

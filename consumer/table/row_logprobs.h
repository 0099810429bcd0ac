// The column `logprobs`, where --parameters asks for them: a list of the answer's tokens, as OpenAI's chat
// completions have it. Thread: main.
#pragma once

#include "schemas/job.h"

// [{"token", "logprob", "top_logprobs": [{"token", "logprob"}]}], in the arena and of the choice's texts;
// top_logprobs only where alternatives were asked for. False: out of memory.
bool row_logprobs(const struct choice *choice, struct arena *arena, struct value *logprobs);

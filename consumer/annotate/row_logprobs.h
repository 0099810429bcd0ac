// The column `logprobs`, if --parameters asks for logprobs: a list of the answer's tokens, in the format of
// OpenAI's chat completions. Thread: main.
#pragma once

#include "schemas/job.h"

// Makes this list in the arena; its texts belong to the choice. top_logprobs only if alternatives were
// requested.
//
//   [{"token", "logprob", "top_logprobs": [{"token", "logprob"}]}]
//
// False: out of memory.
bool row_logprobs(const struct choice *choice, struct arena *arena, struct value *logprobs);

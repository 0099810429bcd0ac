// Scores the values of a schema's enums and booleans (choice_logprobs), each as the continuation of what was generated
// before it:
//
//   answer    {"why":"cheap","tone":"warm","ok":true}      tokens  {" why ": "... tone ":" warm ", ...
//   branch    {"why":"cheap","tone":"cold","               the answer's tokens before the value, the rest tokenized
//
// A branch keeps the answer's tokens before the token in which the value begins. The rest is tokenized: the start of that
// token, the value, and the text to the end of the token that has the first byte after the value. So the score of 1 does
// not include 10, and a quote is scored with the text after it, as in the answer. There are no scores for an optional
// property that the answer lacks, for an answer that max_tokens cut, and for a branch beyond the context.
//
// The branches enter the window when the answer has ended (batcher.c). They share the prompt's pages and compute the
// answer's tokens again. Thread: engine; property_scores_wait on the pool.
#pragma once

#include "batching/scoring.h"

// Marks the branches of a prompt that has no answer yet: they have nothing to compute.
void property_scores_wait(struct prompt *prompt);
// Sets the targets of the branches after the answer has ended. False: there are no branches, the targets were set
// before, or prompt->error is set.
bool property_scores_begin(struct prompt *prompt, const struct prompt_environment *environment);

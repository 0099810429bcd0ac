// Scores in a result: logprobs of given texts, not of generated ones. Internal to schemas/; result.c and
// openai.c write them as members.
//   choice_logprobs   [{"choice", "logprob", "probability"}], in the order of the job's choices
#pragma once

#include "schemas/job.h"

size_t scores_n_values(const struct result *result); // upper bound of the values in the result map
// Adds members to the result map. False: out of memory.
bool scores_build(struct arena *arena, const struct result *result, struct value *object) WARN_UNUSED;
// Reads the members of the result map into the job's result.
enum status scores_read(struct job *job, const struct value *root, struct error *error) WARN_UNUSED;
// Writes members of a completion, each after a comma.
void scores_add_members(struct buffer *out, const struct result *result);

// A job's result as the body of a response. Thread: any.
#pragma once

#include "schemas/job.h"

// The body of OpenAI's response, a chat.completion, a text_completion or an error, and its HTTP status. False:
// the record is no result, or memory ran out.
bool answer_body_write(struct text record, struct buffer *body, int *status) WARN_UNUSED;
// The same for a request that is no job, as `error` says.
void answer_body_refuse(struct job *job, const struct error *error, bool is_chat, struct buffer *body,
                        int *status);

// A job's result as the body of a response, and as the events of a stream. Thread: any.
#pragma once

#include "schemas/job.h"

// The body of OpenAI's response, a chat.completion, a text_completion or an error, and its HTTP status. False:
// the record is no result, or memory ran out.
bool answer_body_write(struct text record, struct buffer *body, int *status) WARN_UNUSED;
// The same for a request that is no job, as `error` says.
void answer_body_refuse(struct job *job, const struct error *error, bool is_chat, struct buffer *body,
                        int *status);

// The events of a streamed answer (text/event-stream), "data: [DONE]" last: the texts of its chunks, put
// together, are the texts of the body. Usage is a last chunk without choices, if it is wanted. False: out of
// memory, or the body is too large.
bool answer_events_write(struct text body, bool is_chat, bool include_usage,
                         struct buffer *events) WARN_UNUSED;
// An error within a stream.
void answer_events_fail(struct text body, struct buffer *events);

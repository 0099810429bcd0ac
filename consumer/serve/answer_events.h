// The events of a streamed answer (text/event-stream): pieces of its text while it is computed, then what the
// complete body has beside them. All texts of a choice, put together, are the text of the body. Thread: any.
#pragma once

#include "schemas/job.h"

struct answer_events {
    bool is_chat, include_usage;
    struct buffer name; // members of all chunks before "choices"
    struct sent_choice {
        bool has_begun;
        struct buffer content, reasoning; // what was sent, as in JSON
    } sent[JOB_N_MAX], beyond; // beyond: of the further choices of a list of prompts, which has no pieces
};

void answer_events_finish(struct answer_events *events);
// Writes the members that all chunks of the job's answer have: id, object, created, model.
void answer_events_name(const struct job *job, struct buffer *name);
// Writes a piece of a choice's content or thoughts. `name` is set.
void answer_events_add(struct answer_events *events, uint32_t choice, bool is_reasoning, struct text bytes,
                       struct buffer *out);
// Writes the rest of the answer, usage as a last chunk without choices if it is wanted, and "data: [DONE]".
// False: out of memory, or the body's text is not what was sent.
bool answer_events_end(struct answer_events *events, struct text body, struct buffer *out) WARN_UNUSED;
// An error within a stream.
void answer_events_fail(struct text body, struct buffer *out);

// The results of a request's jobs as one body. One result is its own body. The results of a list of prompts
// are one list of choices, numbered from 0, with the sum of their usage. Thread: any.
#pragma once

#include "schemas/base/text.h"

// A zeroed struct is empty.
struct answer_merge {
    struct buffer records; // one after another
    size_t *ends;          // [n]
    size_t n, capacity;
};

// Copies a result's record; in order. False: out of memory.
bool answer_merge_add(struct answer_merge *merge, struct text record) WARN_UNUSED;
// The body and HTTP's status: the first error's, if a job failed. False: a record is no result, or memory ran
// out.
bool answer_merge_write(const struct answer_merge *merge, struct buffer *body, int *status) WARN_UNUSED;
void answer_merge_finish(struct answer_merge *merge);

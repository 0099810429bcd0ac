// The batcher of jobs of inputs: the counterpart of batcher.h for a worker that computes vectors, or the scores of a
// classification head (input_task.h).
//
//   jobs with inputs left                tokens            one step
//   urgency 0  dataset x  a b   ── in turns ──> ready inputs ──> embedder ──> vectors ──> finished jobs
//              dataset y  c
//   urgency 1  dataset x  d
//
// Inputs are planned one by one. Datasets of equal urgency take turns by tokens, as in generation
// (batching/lists/turns.h). The jobs of a dataset take turns, an input each, so a job of 2,048 inputs delays the others by one input. Inputs are tokenized as their turns come, some more
// than the tokens of two steps ahead, so memory is bounded. A vector depends neither on the other inputs nor on the step.
//
// A job fails with the error of its first bad input, whatever was computed first; with `partial` each bad input
// has its own error. The texts of errors begin with the input: "input[3]: the text has ...".
// Thread: engine.
#pragma once

#include "batching/embedding/input_task.h"
#include "batching/job_batcher.h"
#include "schemas/base/pool.h"

struct embedding_batcher;

struct embedding_batcher_config {
    const struct input_task *task; // must outlive the batcher
    struct pool *pool;             // tokenizes; may be the pool of the embedder's backend
    int32_t n_jobs_max;
    int32_t n_tokens_max, n_texts_max;   // of one step
    const struct dataset_shares *shares; // weights of datasets; must outlive the batcher. NULL: equal weights
    int64_t (*wall_clock_us)(void);      // since 1970 UTC, for deadlines; NULL: clock_wall_us
};

enum status embedding_batcher_create(struct embedding_batcher **batcher,
                                     const struct embedding_batcher_config *config,
                                     struct error *error) WARN_UNUSED;
// The batcher must be empty: finish or release its jobs first.
void embedding_batcher_destroy(struct embedding_batcher *batcher);
struct job_batcher *embedding_batcher_base(struct embedding_batcher *batcher);

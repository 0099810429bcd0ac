// Detects a model that does not work at all. Until the first answer, jobs that fail because of the model
// (error_is_of_model) are not committed. When at least `limit` have failed this way, the worker ends and
// releases them. Jobs that end in one step are counted together: NaN logits fail a whole batch. The first
// answer, or TRIAL_HOLD_MS without other computation, moves them to the commit. A zeroed struct is valid:
// nothing is held. Thread: main.
#pragma once

#include "batching/batcher.h"

enum { TRIAL_HOLD_MS = 1000 };

struct trial {
    int32_t limit;    // 0: nothing is held
    int32_t n_failed; // because of the model, before any answer
    bool passed;      // a job has an answer
    struct job_list held;
    int64_t since_ms; // when the last one was held
};

// Moves finished jobs to `ready` or holds them.
void trial_add(struct trial *trial, struct job_list *finished, struct job_list *ready, int64_t now_ms);
// Moves held jobs to `ready` after the hold time. `idle`: the engine has no job.
void trial_release(struct trial *trial, bool idle, struct job_list *ready, int64_t now_ms);
// STATUS_REFUSE when the model has failed; names the first job's error.
enum status trial_check(const struct trial *trial, struct error *error) WARN_UNUSED;

// Whether the model works at all. Until it has answered a job, jobs that fail for the model's reasons (error_is_of_model) are held back
// from the commit. When the first `limit` jobs fail so, the worker ends and gives them back unfinished; the first answer, or
// TRIAL_HOLD_MS in which nothing else is computed, lets them go. A zeroed struct is valid: nothing is held. Thread: main.
#pragma once

#include "batching/batcher.h"

enum { TRIAL_HOLD_MS = 1000 };

struct trial {
    int32_t limit;        // 0: nothing is held
    int32_t n_failed;     // for the model's reasons, before any answer
    bool passed;          // a job was answered
    struct job_list held;
    int64_t since_ms;     // when the last one was held
};

// Moves finished jobs to `ready`, or holds them.
void trial_add(struct trial *trial, struct job_list *finished, struct job_list *ready, int64_t now_ms);
// Lets held jobs go to `ready` when it is time. `idle`: the engine has no job.
void trial_let_go(struct trial *trial, bool idle, struct job_list *ready, int64_t now_ms);
// STATUS_REFUSE when the model has failed; names the first job's error.
enum status trial_check(const struct trial *trial, struct error *error) WARN_UNUSED;

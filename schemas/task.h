// The tasks of jobs: what a job asks of the model. A worker has one task. The one table of tasks: a new job type
// is a value of enum task (schemas/job.h), a row here, the decoder of its request (as schemas/embedding_request.c),
// the codec of its result (as schemas/embedding_result.c), and a struct job_batcher that computes it.
#pragma once

#include "schemas/job.h"

struct task_traits {
    const char *name;   // of --task
    const char *paths;  // OpenAI's, for messages
    const char *input;  // the field that makes a request one of this task
    const char *needs;  // the model that a worker of this task has
    const char *object; // of the result map; NULL: it depends on the request
};

const struct task_traits *task_traits(enum task task);
bool task_find(struct text name, enum task *task); // by name
// STATUS_REJECT, ERROR_UNSUPPORTED_FIELD: the job's task is not the worker's. The text says what to start.
enum status task_check(enum task worker, const struct job *job, struct error *error) WARN_UNUSED;

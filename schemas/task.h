// The tasks of jobs: what a job asks of the model. A worker has one task. The one table of tasks: a new job type
// is a value of enum task (schemas/job.h), a row here, the decoder of its request (as schemas/embedding_request.c),
// the codec of its result (as schemas/embedding_result.c), and a struct job_batcher that computes it.
#pragma once

#include "schemas/job.h"

struct task_traits {
    const char *name;  // of --task
    const char *paths; // for messages
    const char *input; // the field that makes a request one of this task
    const char *needs; // the model that a worker of this task has
};

// What a request's URL asks for. vLLM's spellings without /v1 are the same paths, and Cohere's /v2/rerank.
enum path { PATH_NONE, PATH_CHAT, PATH_COMPLETION, PATH_EMBEDDING, PATH_CLASSIFY, PATH_RERANK, PATH_SCORE };

// The paths, for messages.
#define TASK_PATHS(last)                                                                                     \
    "/v1/chat/completions, /v1/completions, /v1/embeddings, /v1/classify, /v1/rerank " last " /v1/score"

#define TASK_NAMES "generate, embed, classify or rerank"

const struct task_traits *task_traits(enum task task);
bool task_find(struct text name, enum task *task); // by name
enum path task_path(struct text url);              // PATH_NONE: unknown
// The member `object` of the result map: "chat.completion", "text_completion", "embeddings", "classifications", "rerank",
// "scores".
const char *task_object(const struct request *request);
// Sets what the object's name says about the request: its task, a chat or not, scores or a ranking. False: unknown.
bool task_find_object(struct text name, struct request *request);
// The field of the job's inputs, for errors: "input", "documents", "text_2".
const char *job_input_name(const struct job *job);
// STATUS_REJECT, ERROR_UNSUPPORTED_FIELD: the job's task is not the worker's. The text says what to start.
enum status task_check(enum task worker, const struct job *job, struct error *error) WARN_UNUSED;

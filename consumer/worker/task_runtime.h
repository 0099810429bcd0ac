// The runtime of a worker with the batcher of its task. The one place where a worker chooses its task: a further
// task is a case of choose_settings and open_engine, or a function that opens its batcher.
// Thread: main opens and closes it; the engine thread owns the batcher while it runs.
#pragma once

#include "batching/embedding/embedding_batcher.h"
#include "consumer/worker/classifier_runtime.h"
#include "consumer/worker/embedding_runtime.h"
#include "consumer/worker/runtime.h"

struct task_runtime {
    struct runtime runtime;
    enum task task;
    struct job_batcher *jobs; // of the task, for the engine thread
    int64_t input_bytes;      // memory of one input's result until it is committed; 0: counted elsewhere
    int32_t n_dimensions;     // of an input's vector or scores; 0: none
    struct embedding_runtime embedding; // TASK_EMBED
    struct classifier_runtime scores;   // TASK_CLASSIFY, TASK_RERANK
    struct input_task inputs;           // all tasks but TASK_GENERATE
    struct embedding_batcher *embedding_batcher;
    char options[192]; // runtime.task_options
};

// Everything that the worker's task needs; logs the plan. STATUS_RESTART after an interrupt (NULL: none).
enum status task_runtime_open(struct task_runtime *tasks, const struct settings *settings, const char *path,
                              const struct interrupt *interrupt, struct error *error) WARN_UNUSED;
void task_runtime_close(struct task_runtime *tasks);

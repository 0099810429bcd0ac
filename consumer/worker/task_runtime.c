#include "consumer/worker/task_runtime.h"

#include "consumer/observe/log.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/worker/embedding_prompts.h"
#include "consumer/worker/required_arithmetic.h"
#include "engine/file/gguf.h"
#include "engine/file/interrupt.h"
#include "schemas/task.h"

#include <stdio.h>
#include <string.h>

// ---- the task ----

// A model that says how its hidden states are pooled, or that has no logits, is one for embeddings. No task is one
// of a classification head: as a generator its model is refused, with the commands that score.
static enum task task_of_model(const struct model *model)
{
    char key[128];
    snprintf(key, sizeof key, "%s.pooling_type", model_family_name(model));
    if (model->classifier.output.data)
        return TASK_GENERATE;
    return gguf_has(model->gguf, key) || !model_has_logits(model) ? TASK_EMBED : TASK_GENERATE;
}

static enum status choose_task(struct task_runtime *tasks, const struct worker_options *options,
                               struct error *error)
{
    const char *name = options->task;
    if (!name || strcmp(name, "auto") == 0) {
        tasks->task = task_of_model(tasks->runtime.model);
        return STATUS_OK;
    }
    if (task_find(text_from_string(name), &tasks->task))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--task: expected auto, generate or embed, got \"%s\"", name);
}

// ---- embeddings ----

// Options of the engine that the embedder has not.
static enum status refuse_options(const struct engine_options *options, struct error *error)
{
    const char *name = options->test          ? "--engine-test"
                       : options->trace_steps ? "--trace-steps"
                       : options->check_cpu   ? "--check-cpu"
                       : options->speculate   ? "--speculate"
                                              : NULL;
    if (!name)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "%s: the worker computes embeddings, this is an option of generation", name);
}

static void say_jobs(const struct task_runtime *tasks)
{
    const struct limits_plan *plan = &tasks->runtime.plan;
    const struct value *prompts = &tasks->embedding.rules.prompts;
    log_write(LOG_INFO, "jobs for /v1/embeddings: up to %d texts and %d tokens a step, window of %d jobs",
              plan->batch.n_sequences_max, plan->batch.n_tokens_max, plan->batch.n_jobs_max);
    for (size_t i = 0; prompts->kind == VALUE_OBJECT && i < prompts->object.n_members; i++)
        log_write(LOG_INFO,
                  "the model's prompt %.*s (input_type, prompt_name) is put before a text only if its job "
                  "asks for it",
                  (int)prompts->object.members[i].key.size, prompts->object.members[i].key.data);
    embedding_prompts_warn(&tasks->embedding.rules, tasks->runtime.model, true);
    log_write(LOG_INFO, "system_fingerprint of results: %s", tasks->runtime.arithmetic);
}

static enum status create_embedding_batcher(struct task_runtime *tasks, struct error *error)
{
    const struct batch_limits *batch = &tasks->runtime.plan.batch;
    struct embedding_batcher_config config = {.embedder = tasks->embedding.embedder,
                                              .rules = &tasks->embedding.rules,
                                              .pool = tasks->runtime.device.pool,
                                              .n_jobs_max = batch->n_jobs_max,
                                              .n_tokens_max = batch->n_tokens_max,
                                              .n_texts_max = batch->n_sequences_max};
    enum status status = embedding_batcher_create(&tasks->embedding_batcher, &config, error);
    if (status != STATUS_OK)
        return status;
    tasks->jobs = embedding_batcher_base(tasks->embedding_batcher);
    // the vector, and its text in the record that is committed
    tasks->input_bytes = (int64_t)tasks->embedding.n_dimensions * (int64_t)(sizeof(float) + 6);
    return STATUS_OK;
}

static enum status open_embedding(struct task_runtime *tasks, const struct settings *settings,
                                  const char *path, const struct interrupt *interrupt, struct error *error)
{
    struct runtime *runtime = &tasks->runtime;
    struct embedding_runtime *embedding = &tasks->embedding;
    enum status status = refuse_options(&settings->engine, error);
    if (status == STATUS_OK)
        status = runtime_open_tokenizer(runtime, &settings->model, path, error);
    if (status == STATUS_OK)
        status = embedding_runtime_choose(embedding, runtime, &settings->embed, error);
    if (status != STATUS_OK)
        return status;
    struct buffer options = {0};
    embedding_runtime_name(embedding, &settings->embed, &options);
    snprintf(tasks->options, sizeof tasks->options, "%.*s", (int)options.size,
             options.data ? options.data : "");
    buffer_finish(&options);
    runtime->task_options = tasks->options;
    status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = embedding_runtime_plan(embedding, runtime, &settings->engine, error);
    if (status == STATUS_OK)
        status = arithmetic_name(runtime, settings, interrupt, error);
    if (status == STATUS_OK && settings->worker.require_arithmetic)
        status = required_arithmetic_check(settings->worker.require_arithmetic, runtime->arithmetic, error);
    if (status == STATUS_OK)
        status = embedding_runtime_open(embedding, runtime, interrupt, error);
    if (status == STATUS_OK)
        status = create_embedding_batcher(tasks, error);
    if (status == STATUS_OK)
        say_jobs(tasks);
    return status;
}

// ---- open, close ----

enum status task_runtime_open(struct task_runtime *tasks, const struct settings *settings, const char *path,
                              const struct interrupt *interrupt, struct error *error)
{
    *tasks = (struct task_runtime){0};
    enum status status = runtime_begin(&tasks->runtime, settings, path, error);
    if (status == STATUS_OK)
        status = choose_task(tasks, &settings->worker, error);
    if (status != STATUS_OK)
        return status;
    if (tasks->task == TASK_EMBED)
        return open_embedding(tasks, settings, path, interrupt, error);
    status = runtime_open_generation(&tasks->runtime, settings, path, interrupt, error);
    if (status == STATUS_OK)
        tasks->jobs = batcher_base(tasks->runtime.batcher);
    return status;
}

void task_runtime_close(struct task_runtime *tasks)
{
    embedding_batcher_destroy(tasks->embedding_batcher);
    embedding_runtime_close(&tasks->embedding);
    runtime_close(&tasks->runtime);
}

#include "consumer/worker/task_runtime.h"

#include "consumer/observe/log.h"
#include "consumer/options/share_settings.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/worker/embedding_prompts.h"
#include "consumer/worker/required_arithmetic.h"
#include "engine/file/gguf.h"
#include "engine/file/interrupt.h"
#include "schemas/task.h"

#include <stdio.h>
#include <string.h>

enum { SCORE_ITEM_BYTES = 512 }; // members of an item of a result, as values and as text

// ---- the task ----

// A classification head decides, then the model says how its hidden states are pooled, or has no logits.
static enum task task_of_model(const struct model *model)
{
    struct classifier_facts facts;
    struct error error; // of a head that is refused later, by its name
    char key[128];
    snprintf(key, sizeof key, "%s.pooling_type", model_family_name(model));
    if (classifier_runtime_has_head(model))
        return classifier_facts_read(&facts, model, &error) == STATUS_OK && facts.relevant >= 0
                   ? TASK_RERANK
                   : TASK_CLASSIFY;
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
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--task: expected auto, " TASK_NAMES ", got \"%s\"",
                     name);
}

// ---- tasks of inputs ----

// Options of the engine that only generation has.
static enum status refuse_options(const struct settings *settings, enum task task, struct error *error)
{
    const struct engine_options *options = &settings->engine;
    static const char *const computed[] = {
        [TASK_EMBED] = "embeddings", [TASK_CLASSIFY] = "scores", [TASK_RERANK] = "scores"};
    const char *name = options->test             ? "--engine-test"
                       : options->trace_steps    ? "--trace-steps"
                       : options->check_cpu      ? "--check-cpu"
                       : options->speculate      ? "--speculate"
                       : settings->model.modules ? "--lora-modules"
                                                 : NULL;
    if (!name)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "%s: the worker computes %s, this is an option of generation", name, computed[task]);
}

static void say_jobs(const struct task_runtime *tasks)
{
    const struct limits_plan *plan = &tasks->runtime.plan;
    const struct value *prompts = &tasks->embedding.rules.prompts;
    log_write(LOG_INFO, "jobs for %s: up to %d texts and %d tokens a step, window of %d jobs",
              task_traits(tasks->task)->paths, plan->batch.n_sequences_max, plan->batch.n_tokens_max,
              plan->batch.n_jobs_max);
    for (size_t i = 0; prompts->kind == VALUE_OBJECT && i < prompts->object.n_members; i++)
        log_write(LOG_INFO,
                  "the model's prompt %.*s (input_type, prompt_name) is put before a text only if its job "
                  "asks for it",
                  (int)prompts->object.members[i].key.size, prompts->object.members[i].key.data);
    if (tasks->task == TASK_EMBED)
        embedding_prompts_warn(&tasks->embedding.rules, tasks->runtime.model, true);
    log_write(LOG_INFO, "system_fingerprint of results: %s", tasks->runtime.arithmetic);
}

static enum status create_input_batcher(struct task_runtime *tasks, struct error *error)
{
    const struct batch_limits *batch = &tasks->runtime.plan.batch;
    struct embedding_batcher_config config = {.task = &tasks->inputs,
                                              .pool = tasks->runtime.device.pool,
                                              .n_jobs_max = batch->n_jobs_max,
                                              .n_tokens_max = batch->n_tokens_max,
                                              .n_texts_max = batch->n_sequences_max,
                                              .shares = &tasks->runtime.shares};
    enum status status = embedding_batcher_create(&tasks->embedding_batcher, &config, error);
    if (status != STATUS_OK)
        return status;
    tasks->jobs = embedding_batcher_base(tasks->embedding_batcher);
    // the vector, and its text in the record that is committed; a score's item has values beside it
    tasks->n_dimensions = input_task_width(&tasks->inputs);
    tasks->input_bytes = (int64_t)tasks->n_dimensions * (int64_t)(sizeof(float) + 6);
    if (tasks->task != TASK_EMBED)
        tasks->input_bytes += (int64_t)sizeof(struct value) * tasks->n_dimensions + SCORE_ITEM_BYTES;
    return STATUS_OK;
}

static enum status choose_settings(struct task_runtime *tasks, const struct settings *settings,
                                   struct error *error)
{
    struct buffer name = {0};
    enum status status;
    if (tasks->task == TASK_EMBED) {
        status = embedding_runtime_choose(&tasks->embedding, &tasks->runtime, &settings->embed, error);
        if (status == STATUS_OK)
            embedding_runtime_name(&tasks->embedding, &settings->embed, &name);
    } else {
        status = classifier_runtime_choose(&tasks->scores, &tasks->runtime, &settings->score,
                                           tasks->task == TASK_RERANK, error);
        if (status == STATUS_OK)
            classifier_runtime_name(&tasks->scores, &name);
        if (settings->embed.max_length)
            buffer_add_format(&name, " max-length=%lld", (long long)settings->embed.max_length);
    }
    snprintf(tasks->options, sizeof tasks->options, "%.*s", (int)name.size, name.data ? name.data : "");
    tasks->runtime.task_options = tasks->options;
    buffer_finish(&name);
    return status;
}

// From the backend to what computes the vectors or the scores.
static enum status open_engine(struct task_runtime *tasks, const struct settings *settings,
                               const struct interrupt *interrupt, struct error *error)
{
    struct runtime *runtime = &tasks->runtime;
    bool embeds = tasks->task == TASK_EMBED;
    enum status status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = embeds ? embedding_runtime_plan(&tasks->embedding, runtime, &settings->engine, error)
                        : classifier_runtime_plan(&tasks->scores, runtime, &settings->engine,
                                                  settings->embed.max_length, error);
    if (status == STATUS_OK)
        status = arithmetic_name(runtime, settings, interrupt, error);
    if (status == STATUS_OK && settings->worker.require_arithmetic)
        status =
            required_arithmetic_check(settings->worker.require_arithmetic, runtime->fleet_arithmetic, error);
    if (status == STATUS_OK)
        status = embeds ? embedding_runtime_open(&tasks->embedding, runtime, interrupt, error)
                        : classifier_runtime_open(&tasks->scores, runtime, interrupt, error);
    return status;
}

static enum status open_inputs(struct task_runtime *tasks, const struct settings *settings, const char *path,
                               const struct interrupt *interrupt, struct error *error)
{
    struct ranking_labels labels;
    enum status status = refuse_options(settings, tasks->task, error);
    if (status == STATUS_OK)
        status = runtime_open_tokenizer(&tasks->runtime, &settings->model, path, error);
    if (status == STATUS_OK)
        status = choose_settings(tasks, settings, error);
    if (status == STATUS_OK)
        status = open_engine(tasks, settings, interrupt, error);
    if (status == STATUS_OK && tasks->task != TASK_EMBED)
        status = classifier_runtime_labels(&tasks->scores, tasks->runtime.model, &labels, error);
    if (status != STATUS_OK)
        return status;
    tasks->inputs = tasks->task == TASK_EMBED
                        ? input_task_embedding(tasks->embedding.embedder, &tasks->embedding.rules)
                        : input_task_scores(tasks->scores.classifier, &tasks->scores.reader, &labels);
    status = create_input_batcher(tasks, error);
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
        status = share_settings_read(&tasks->runtime.shares, &settings->worker, error);
    if (status == STATUS_OK)
        status = choose_task(tasks, &settings->worker, error);
    if (status != STATUS_OK)
        return status;
    if (tasks->task != TASK_GENERATE)
        return open_inputs(tasks, settings, path, interrupt, error);
    status = runtime_open_generation(&tasks->runtime, settings, path, interrupt, error);
    if (status == STATUS_OK)
        tasks->jobs = batcher_base(tasks->runtime.batcher);
    return status;
}

void task_runtime_close(struct task_runtime *tasks)
{
    embedding_batcher_destroy(tasks->embedding_batcher);
    embedding_runtime_close(&tasks->embedding);
    classifier_runtime_close(&tasks->scores);
    runtime_close(&tasks->runtime);
}

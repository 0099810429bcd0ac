#include "consumer/worker/classifier_runtime.h"

#include "batching/embedding/input_task.h"
#include "consumer/observe/log.h"
#include "consumer/queue/fault.h"
#include "consumer/worker/runtime.h"
#include "engine/file/interrupt.h"
#include "schemas/base/hash.h"

#include <string.h>

// ---- what the options and the model's files say ----

bool classifier_runtime_has_head(const struct model *model)
{
    return model->classifier.output.data || model->classifier.dense.data;
}

static enum status choose_head(struct classifier_runtime *scores, const struct runtime *runtime,
                               const struct score_options *options, bool ranks, struct error *error)
{
    const struct model *model = runtime->model;
    const char *activation = options->activation;
    bool judges = options->answers || (!classifier_runtime_has_head(model) && model_has_logits(model));
    enum status status =
        judges ? classifier_judge_read(&scores->facts, model, runtime->tokenizer, options->answers, error)
               : classifier_facts_read(&scores->facts, model, error);
    if (status != STATUS_OK)
        return status;
    status = classifier_choose_function(&scores->facts, model, ranks, &scores->function, error);
    if (!activation || strcmp(activation, "model") == 0)
        return status;
    if (ranks && scores->facts.relevant < 0)
        return status;
    if (score_function_find(activation, &scores->function))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--activation: expected model, none, sigmoid or softmax, got \"%s\"", activation);
}

enum status classifier_runtime_choose(struct classifier_runtime *scores, const struct runtime *runtime,
                                      const struct score_options *options, bool ranks, struct error *error)
{
    scores->reader = (struct classifier_reader){.model = runtime->model,
                                                .tokenizer = runtime->tokenizer,
                                                .facts = &scores->facts,
                                                .instruct = text_from_string(options->instruct)};
    enum status status = choose_head(scores, runtime, options, ranks, error);
    return status == STATUS_OK ? classifier_reader_check(&scores->reader, error) : status;
}

enum status classifier_runtime_labels(struct classifier_runtime *scores, const struct model *model,
                                      struct ranking_labels *labels, struct error *error)
{
    int32_t n = scores->facts.n_labels;
    struct text *names = arena_allocate_array(&scores->arena, (size_t)n, sizeof *names);
    for (int32_t i = 0; names && i < n; i++) {
        char made[CLASSIFIER_LABEL_BYTES];
        struct text name = classifier_label(&scores->facts, model, i, made);
        names[i] = (struct text){arena_copy(&scores->arena, name.data, name.size), name.size};
        if (!names[i].data)
            names = NULL;
    }
    *labels = (struct ranking_labels){names, n, scores->facts.relevant, scores->function == SCORE_RAW};
    return names ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the labels' names");
}

void classifier_runtime_name(const struct classifier_runtime *scores, struct buffer *name)
{
    const struct classifier_facts *facts = &scores->facts;
    struct text template = facts->template, instruct = scores->reader.instruct;
    buffer_add_format(name, " pooling=%s activation=%s", head_pooling_name(facts->pooling),
                      score_function_name(scores->function));
    if (facts->answers[0].id >= 0)
        buffer_add_format(name, " answers=%d,%d", facts->answers[0].id, facts->answers[1].id);
    if (template.size || instruct.size)
        buffer_add_format(
            name, " template=%016llx",
            (unsigned long long)hash_bytes(template.data, template.size,
                                           instruct.size ? hash_bytes(instruct.data, instruct.size, 0) : 0));
}

// ---- lengths ----

void classifier_runtime_limit(struct classifier_runtime *scores, int64_t n_longest_wanted)
{
    int32_t n_context = scores->reader.model->shape.n_context;
    scores->reader.n_longest =
        n_longest_wanted && n_longest_wanted < n_context ? (int32_t)n_longest_wanted : n_context;
}

enum status classifier_runtime_count(const struct classifier_runtime *scores, const struct job *job,
                                     int64_t *n_tokens, struct error *error)
{
    const struct request_embedding *request = &job->request.embedding;
    const struct ranking_labels labels = {.n_labels = scores->facts.n_labels};
    const struct input_task task = input_task_scores(NULL, &scores->reader, &labels);
    struct input_plan plan = {.cut = {request->truncate_tokens, request->truncates_left}};
    struct input_tokens tokens = {.n_cut = 0};
    enum status status = task.impl->plan(&task, job, &plan, error);
    for (int32_t i = 0; i < request->n_inputs && status == STATUS_OK; i++)
        status = task.impl->encode(&task, job, &plan, i, &tokens, error);
    *n_tokens = (int64_t)tokens.ids.n_ids;
    token_array_finish(&tokens.ids);
    token_array_finish(&tokens.types);
    return status;
}

// ---- memory ----

enum status classifier_runtime_plan(struct classifier_runtime *scores, struct runtime *runtime,
                                    const struct engine_options *options, int64_t n_longest_wanted,
                                    struct error *error)
{
    const struct model_shape *shape = &runtime->model->shape;
    classifier_runtime_limit(scores, n_longest_wanted);
    int32_t n_longest = scores->reader.n_longest;
    enum kv_type kv_type;
    struct limits_wanted wanted = {.n_tokens_max = (int32_t)options->n_tokens_max,
                                   .n_jobs_max = (int32_t)options->window,
                                   .no_snapshots = true,
                                   .page_bytes = options->kv_memory_bytes,
                                   .backend = runtime->device.backend,
                                   .device = runtime->device.on_gpu};
    if (shape->bidirectional && (options->kv_type || options->kv_memory_bytes))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: family %s attends in both directions, so it holds no KV pages",
                         options->kv_type ? "--kv-type" : "--kv-memory", model_family_name(runtime->model));
    enum status status = runtime_kv_type(options, &kv_type, error);
    if (options->kv_type)
        wanted.kv_type = &kv_type;
    limits_set_embedding(&wanted, runtime->model, n_longest);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, options, &wanted, error);
    if (status != STATUS_OK)
        return status;
    struct forward_limits *limits = &runtime->plan.forward;
    int64_t n_pages = embedder_pages(limits, n_longest);
    limits->n_pages = n_pages < limits->n_pages ? (int32_t)n_pages : limits->n_pages;
    int32_t longest = embedder_longest(limits, runtime->model);
    scores->reader.n_longest = longest < n_longest ? longest : n_longest;
    if (longest > 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                     "--kv-memory: %d pages of %d positions hold no text beside a step of %d tokens: give "
                     "more, or a smaller --max-rows",
                     limits->n_pages, limits->page_positions, limits->n_tokens_max);
}

// ---- the classifier ----

static void say_head(const struct classifier_runtime *scores, const struct runtime *runtime)
{
    const struct classifier_facts *facts = &scores->facts;
    log_write(LOG_INFO, "%s on %s: %d label%s, pooling %s, activation %s, texts of up to %d tokens%s",
              runtime->model->name, runtime->device.backend->device.name, facts->n_labels,
              facts->n_labels == 1 ? "" : "s", head_pooling_name(facts->pooling),
              score_function_name(scores->function), scores->reader.n_longest,
              facts->template.size ? ", pairs by the model's template" : "");
}

static bool goes_on(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)done_bytes, (void)total_bytes;
    return !interrupt_requested(context);
}

enum status classifier_runtime_open(struct classifier_runtime *scores, struct runtime *runtime,
                                    const struct interrupt *interrupt, struct error *error)
{
    enum status status = forward_create(&runtime->forward, runtime->model, runtime->device.backend,
                                        &runtime->plan.forward, goes_on, (void *)interrupt, error);
    struct classifier_options options = {.model = runtime->model,
                                         .facts = &scores->facts,
                                         .function = scores->function,
                                         .forward = runtime->forward,
                                         .limits = runtime->plan.forward,
                                         .n_longest = scores->reader.n_longest,
                                         .before_step = fault_step};
    if (status == STATUS_OK)
        status = classifier_create(&scores->classifier, &options, error);
    if (status == STATUS_OK)
        say_head(scores, runtime);
    return status;
}

void classifier_runtime_close(struct classifier_runtime *scores)
{
    classifier_destroy(scores->classifier);
    arena_finish(&scores->arena);
    *scores = (struct classifier_runtime){0};
}

#include "consumer/worker/embedding_runtime.h"

#include "consumer/observe/log.h"
#include "consumer/queue/fault.h"
#include "consumer/worker/runtime.h"
#include "engine/embedding_head.h"
#include "engine/file/interrupt.h"

#include <string.h>

// ---- what the options and the model's files say ----

static enum status choose_pooling(struct embedding_runtime *embedding, const struct model *model,
                                  const struct embed_options *options, struct error *error)
{
    const char *name = options->pooling;
    if (!name || strcmp(name, "model") == 0)
        return pooling_of_model(model, &embedding->pooling, error);
    if (pooling_find(name, &embedding->pooling))
        return STATUS_OK;
    return error_set(
        error, STATUS_REFUSE, ERROR_USAGE,
        "--pooling: expected model, last, mean, cls, max, mean_sqrt_len or weightedmean, got \"%s\"", name);
}

static enum status choose_dimensions(struct embedding_runtime *embedding, const struct model *model,
                                     const struct embed_options *options, struct error *error)
{
    int32_t width = embedding_width(model);
    enum status status = options->dimensions ? STATUS_OK : embedding_check_dimensions(model, error);
    if (status != STATUS_OK)
        return status;
    embedding->n_dimensions = options->dimensions ? (int32_t)options->dimensions : width;
    embedding->rules.n_dimensions_max = embedding->n_dimensions;
    if (embedding->n_dimensions <= width)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--dimensions: expected at most %d, the model's width, got %d", width,
                     embedding->n_dimensions);
}

// Options override the settings in the model's files.
static enum status choose_defaults(struct embedding_runtime *embedding, const struct model *model,
                                   const struct embed_options *options, struct error *error)
{
    struct embedding_defaults defaults = {0};
    struct embedding_rules *rules = &embedding->rules;
    if (options->normalize && options->no_normalize)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--normalize and --no-normalize: expected one");
    if (options->prefix && options->prompt_name)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--prefix and --prompt-name: expected one");
    enum status status = embedding_read_defaults(&defaults, model, error);
    if (status == STATUS_OK)
        status = embedding_read_prompts(model, &embedding->arena, &rules->prompts, error);
    rules->prompt = options->prefix ? text_from_string(options->prefix) : defaults.prompt;
    rules->is_prompt_given = options->prefix || options->prompt_name;
    if (status == STATUS_OK && options->prompt_name)
        status = embedding_find_prompt(model, options->prompt_name, &embedding->arena, &rules->prompt, error);
    rules->n_longest = model->shape.n_context;
    rules->limited_by = "the model's context";
    int32_t n_given = options->max_length ? (int32_t)options->max_length : defaults.n_tokens_max;
    if (n_given && n_given < rules->n_longest) {
        rules->n_longest = n_given;
        rules->limited_by = options->max_length ? "--max-length" : "the model's max_seq_length";
    }
    embedding->normalize = defaults.normalize;
    if (options->normalize || options->no_normalize)
        embedding->normalize = options->normalize;
    return status;
}

enum status embedding_runtime_choose(struct embedding_runtime *embedding, const struct runtime *runtime,
                                     const struct embed_options *options, struct error *error)
{
    const struct model *model = runtime->model;
    embedding->rules =
        (struct embedding_rules){.tokenizer = runtime->tokenizer, .n_vocab = model->shape.n_vocab};
    enum status status = embedding_check_model(model, error);
    if (status == STATUS_OK)
        status = choose_defaults(embedding, model, options, error);
    if (status == STATUS_OK)
        status = choose_pooling(embedding, model, options, error);
    return status == STATUS_OK ? choose_dimensions(embedding, model, options, error) : status;
}

void embedding_runtime_name(const struct embedding_runtime *embedding, const struct embed_options *options,
                            struct buffer *name)
{
    buffer_add_format(name, " pooling=%s%s", pooling_name(embedding->pooling),
                      embedding->normalize ? "" : " no-normalize=1");
    if (options->max_length)
        buffer_add_format(name, " max-length=%lld", (long long)options->max_length);
}

// ---- memory ----

static enum status refuse_pages(const struct runtime *runtime, const struct engine_options *options,
                                struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "%s: family %s attends in both directions, so it holds keys and values of one layer, "
                     "and no KV pages",
                     options->kv_type ? "--kv-type" : "--kv-memory", model_family_name(runtime->model));
}

// With fewer pages than the plan may have: only what texts of n_longest need.
static enum status limit_pages(struct embedding_runtime *embedding, struct runtime *runtime,
                               struct error *error)
{
    struct forward_limits *limits = &runtime->plan.forward;
    int64_t n_pages = embedder_pages(limits, embedding->rules.n_longest);
    limits->n_pages = n_pages < limits->n_pages ? (int32_t)n_pages : limits->n_pages;
    int32_t n_longest = embedder_longest(limits, runtime->model);
    if (n_longest < embedding->rules.n_longest) {
        embedding->rules.n_longest = n_longest;
        embedding->rules.limited_by = "the positions of --kv-memory";
    }
    if (n_longest > 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                     "--kv-memory: %d pages of %d positions hold no text beside a step of %d tokens: give "
                     "more, or a smaller --max-rows",
                     limits->n_pages, limits->page_positions, limits->n_tokens_max);
}

enum status embedding_runtime_plan(struct embedding_runtime *embedding, struct runtime *runtime,
                                   const struct engine_options *options, struct error *error)
{
    enum kv_type kv_type;
    bool bidirectional = runtime->model->shape.bidirectional;
    struct limits_wanted wanted = {.n_tokens_max = (int32_t)options->n_tokens_max, // 0: derived
                                   .n_jobs_max = (int32_t)options->window,
                                   .no_snapshots = true,
                                   .page_bytes = options->kv_memory_bytes,
                                   .backend = runtime->device.backend,
                                   .device = runtime->device.on_gpu};
    if (bidirectional && (options->kv_type || options->kv_memory_bytes))
        return refuse_pages(runtime, options, error);
    enum status status = runtime_kv_type(options, &kv_type, error);
    if (options->kv_type)
        wanted.kv_type = &kv_type;
    limits_set_embedding(&wanted, runtime->model, embedding->rules.n_longest);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, options, &wanted, error);
    if (status != STATUS_OK && bidirectional)
        return error_prefix(error, "texts of up to %d tokens (--max-length)", embedding->rules.n_longest);
    return status == STATUS_OK ? limit_pages(embedding, runtime, error) : status;
}

// ---- the embedder ----

static void say_memory(const struct embedding_runtime *embedding, const struct runtime *runtime)
{
    const struct limits_plan *plan = &runtime->plan;
    const struct model *model = runtime->model;
    double pages = (double)forward_page_bytes(model, runtime->device.backend, plan->forward.page_positions,
                                              plan->forward.kv_type) *
                   plan->forward.n_pages;
    log_write(LOG_INFO, "memory: weights %.1f MB, matrices %.1f MB, %s %.1f MB, rows of texts %.1f MB",
              (double)plan->weight_bytes / 1e6, (double)plan->matrix_bytes / 1e6,
              model->shape.bidirectional ? "keys and values of one layer" : "KV", pages / 1e6,
              (double)embedder_bytes(&plan->forward, model, embedding->rules.n_longest) / 1e6);
}

static void say_model(const struct embedding_runtime *embedding, const struct runtime *runtime)
{
    struct text prompt = embedding->rules.prompt;
    log_write(LOG_INFO, "%s on %s: vectors of %d%s, pooling %s, texts of up to %d tokens%s%.*s%s",
              runtime->model->name, runtime->device.backend->device.name, embedding->n_dimensions,
              embedding->normalize ? "" : ", not normalized", pooling_name(embedding->pooling),
              embedding->rules.n_longest, prompt.size ? " after the prompt \"" : "", (int)prompt.size,
              prompt.size ? prompt.data : "", prompt.size ? "\"" : "");
}

static bool goes_on(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    return !interrupt_requested(context);
}

enum status embedding_runtime_open(struct embedding_runtime *embedding, struct runtime *runtime,
                                   const struct interrupt *interrupt, struct error *error)
{
    enum status status = forward_create(&runtime->forward, runtime->model, runtime->device.backend,
                                        &runtime->plan.forward, goes_on, (void *)interrupt, error);
    if (status != STATUS_OK)
        return status;
    struct embedder_options options = {.model = runtime->model,
                                       .forward = runtime->forward,
                                       .limits = runtime->plan.forward,
                                       .pooling = embedding->pooling,
                                       .normalize = embedding->normalize,
                                       .n_dimensions = embedding->n_dimensions,
                                       .n_longest = embedding->rules.n_longest,
                                       .before_step = fault_step};
    status = embedder_create(&embedding->embedder, &options, error);
    if (status == STATUS_OK) {
        say_memory(embedding, runtime);
        say_model(embedding, runtime);
    }
    return status;
}

void embedding_runtime_close(struct embedding_runtime *embedding)
{
    embedder_destroy(embedding->embedder);
    arena_finish(&embedding->arena);
    *embedding = (struct embedding_runtime){0};
}

#include "consumer/command/scorer.h"

#include "consumer/observe/log.h"
#include "consumer/worker/arithmetic.h"
#include "schemas/base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A group's limits: tokens in steps of n_tokens_max, and inputs.
enum { GROUP_STEPS = 8, GROUP_INPUTS_MAX = 4096 };

// --- Opening ---

static enum status choose_head(struct scorer *scorer, const struct settings *settings, bool ranks,
                               struct error *error)
{
    struct runtime *runtime = scorer->runtime;
    const char *activation = settings->score.activation;
    bool has_head = runtime->model->classifier.output.data || runtime->model->classifier.dense.data;
    bool judges = settings->score.answers || (!has_head && model_has_logits(runtime->model));
    enum status status = judges ? classifier_judge_read(&scorer->facts, runtime->model, runtime->tokenizer,
                                                        settings->score.answers, error)
                                : classifier_facts_read(&scorer->facts, runtime->model, error);
    if (status != STATUS_OK)
        return status;
    status = classifier_choose_function(&scorer->facts, runtime->model, ranks, &scorer->function, error);
    if (!activation || strcmp(activation, "model") == 0)
        return status;
    if (ranks && scorer->facts.relevant < 0)
        return status;
    if (score_function_find(activation, &scorer->function))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--activation: expected model, none, sigmoid or softmax, got \"%s\"", activation);
}

static enum status place_model(struct scorer *scorer, const struct settings *settings, struct error *error)
{
    struct runtime *runtime = scorer->runtime;
    const struct model_shape *shape = &runtime->model->shape;
    int64_t n_max = settings->score.max_length;
    int32_t n_longest = n_max && n_max < shape->n_context ? (int32_t)n_max : shape->n_context;
    enum kv_type kv_type;
    struct limits_wanted wanted = {.n_tokens_max = (int32_t)settings->engine.n_tokens_max,
                                   .no_snapshots = true,
                                   .page_bytes = settings->engine.kv_memory_bytes,
                                   .backend = runtime->device.backend,
                                   .device = runtime->device.on_gpu};
    if (shape->bidirectional && (settings->engine.kv_type || settings->engine.kv_memory_bytes))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: family %s attends in both directions, so it holds no KV pages",
                         settings->engine.kv_type ? "--kv-type" : "--kv-memory",
                         model_family_name(runtime->model));
    enum status status = runtime_kv_type(&settings->engine, &kv_type, error);
    if (settings->engine.kv_type)
        wanted.kv_type = &kv_type;
    limits_set_embedding(&wanted, runtime->model, n_longest);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, &settings->engine, &wanted, error);
    if (status != STATUS_OK)
        return status;
    struct forward_limits *limits = &runtime->plan.forward;
    int64_t n_pages = embedder_pages(limits, n_longest);
    limits->n_pages = n_pages < limits->n_pages ? (int32_t)n_pages : limits->n_pages;
    int32_t longest = embedder_longest(limits, runtime->model);
    scorer->reader.n_longest = longest < n_longest ? longest : n_longest;
    if (n_max) // cut to what is computed
        scorer->reader.n_tokens_max = (size_t)scorer->reader.n_longest;
    if (longest > 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                     "--kv-memory: %d pages of %d positions hold no text beside a step of %d tokens: give "
                     "more, or a smaller --max-rows",
                     limits->n_pages, limits->page_positions, limits->n_tokens_max);
}

static void say_head(const struct scorer *scorer)
{
    const struct runtime *runtime = scorer->runtime;
    const struct classifier_facts *facts = &scorer->facts;
    log_write(LOG_INFO, "%s on %s: %d label%s, pooling %s, activation %s, texts of up to %d tokens%s",
              runtime->model->name, runtime->device.backend->device.name, facts->n_labels,
              facts->n_labels == 1 ? "" : "s", head_pooling_name(facts->pooling),
              score_function_name(scorer->function), scorer->reader.n_longest,
              facts->template.size ? ", pairs by the model's template" : "");
}

enum status scorer_open(struct scorer *scorer, struct runtime *runtime, const struct settings *settings,
                        bool ranks, struct error *error)
{
    *scorer = (struct scorer){.runtime = runtime};
    scorer->reader = (struct classifier_reader){.model = runtime->model,
                                                .tokenizer = runtime->tokenizer,
                                                .facts = &scorer->facts,
                                                .instruct = text_from_string(settings->score.instruct)};
    enum status status = choose_head(scorer, settings, ranks, error);
    if (status == STATUS_OK)
        status = classifier_reader_check(&scorer->reader, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = place_model(scorer, settings, error);
    if (status == STATUS_OK)
        status = forward_create(&runtime->forward, runtime->model, runtime->device.backend,
                                &runtime->plan.forward, NULL, NULL, error);
    struct classifier_options options = {.model = runtime->model,
                                         .facts = &scorer->facts,
                                         .function = scorer->function,
                                         .forward = runtime->forward,
                                         .limits = runtime->plan.forward,
                                         .n_longest = scorer->reader.n_longest};
    if (status == STATUS_OK)
        status = classifier_create(&scorer->classifier, &options, error);
    scorer->n_group_tokens = (size_t)GROUP_STEPS * (size_t)options.limits.n_tokens_max;
    if (status == STATUS_OK)
        say_head(scorer);
    return status;
}

void scorer_close(struct scorer *scorer)
{
    classifier_destroy(scorer->classifier);
    token_array_finish(&scorer->ids);
    token_array_finish(&scorer->types);
    free(scorer->inputs);
    free(scorer->texts);
    free(scorer->scores);
}

// --- The group ---

static enum status reserve(struct scorer *scorer, struct error *error)
{
    if (scorer->n_inputs < scorer->capacity)
        return STATUS_OK;
    size_t capacity = scorer->capacity ? 2 * scorer->capacity : 64, n_labels = (size_t)scorer->facts.n_labels;
    void *inputs = realloc(scorer->inputs, capacity * sizeof *scorer->inputs);
    scorer->inputs = inputs ? inputs : scorer->inputs;
    void *texts = realloc(scorer->texts, capacity * sizeof *scorer->texts);
    scorer->texts = texts ? texts : scorer->texts;
    void *scores = realloc(scorer->scores, capacity * n_labels * sizeof *scorer->scores);
    scorer->scores = scores ? scores : scorer->scores;
    if (!inputs || !texts || !scores)
        return error_memory(error, STATUS_REFUSE, "the scores of texts");
    scorer->capacity = capacity;
    return STATUS_OK;
}

enum status scorer_add(struct scorer *scorer, const struct text texts[2], size_t n_texts, struct error *error)
{
    size_t n_cut;
    enum status status = reserve(scorer, error);
    if (status != STATUS_OK)
        return status;
    struct scored_input *input = &scorer->inputs[scorer->n_inputs++];
    *input =
        (struct scored_input){.first_id = scorer->ids.n_ids, .first_type = scorer->types.n_ids, .scores = -1};
    status = classifier_input_encode(&scorer->reader, texts, n_texts, &scorer->ids, &scorer->types, &n_cut,
                                     &input->error);
    input->n_ids = scorer->ids.n_ids - input->first_id;
    scorer->n_cut += status == STATUS_OK && n_cut > 0;
    if (status == STATUS_OK || status == STATUS_REJECT)
        return STATUS_OK;
    *error = input->error;
    return status;
}

bool scorer_is_full(const struct scorer *scorer)
{
    return scorer->n_inputs >= GROUP_INPUTS_MAX || scorer->ids.n_ids >= scorer->n_group_tokens;
}

enum status scorer_compute(struct scorer *scorer, struct error *error)
{
    bool typed = scorer->runtime->model->token_types.data != NULL;
    int32_t n_texts = 0;
    for (size_t i = 0; i < scorer->n_inputs; i++) {
        struct scored_input *input = &scorer->inputs[i];
        if (input->error.status != STATUS_OK)
            continue;
        input->scores = n_texts;
        scorer->texts[n_texts++] =
            (struct embedding_text){.ids = scorer->ids.ids + input->first_id,
                                    .n_ids = (int32_t)input->n_ids,
                                    .types = typed ? scorer->types.ids + input->first_type : NULL};
    }
    return classifier_compute(scorer->classifier, scorer->texts, n_texts, scorer->scores, error);
}

const float *scorer_scores(struct scorer *scorer, size_t index)
{
    struct scored_input *input = &scorer->inputs[index];
    if (input->scores < 0)
        return NULL;
    const float *scores = scorer->scores + input->scores * scorer->facts.n_labels;
    for (int32_t i = 0; i < scorer->facts.n_labels; i++)
        if (!isfinite(scores[i])) {
            (void)error_set(&input->error, STATUS_REJECT, ERROR_LOGITS_NAN,
                            "the model's scores have a NaN or an infinity");
            return NULL;
        }
    return scores;
}

void scorer_clear(struct scorer *scorer)
{
    scorer->n_inputs = 0;
    scorer->ids.n_ids = 0;
    scorer->types.n_ids = 0;
}

enum status scorer_name_making(struct scorer *scorer, const struct settings *settings, struct buffer *name,
                               struct error *error)
{
    enum status status = arithmetic_name(scorer->runtime, settings, NULL, error);
    struct text template = scorer->facts.template, instruct = scorer->reader.instruct;
    buffer_add_format(name, "%s pooling=%s activation=%s", scorer->runtime->arithmetic,
                      head_pooling_name(scorer->facts.pooling), score_function_name(scorer->function));
    if (scorer->facts.answers[0].id >= 0)
        buffer_add_format(name, " answers=%d,%d", scorer->facts.answers[0].id, scorer->facts.answers[1].id);
    if (template.size || instruct.size)
        buffer_add_format(
            name, " template=%016llx",
            (unsigned long long)hash_bytes(template.data, template.size,
                                           instruct.size ? hash_bytes(instruct.data, instruct.size, 0) : 0));
    if (scorer->reader.n_tokens_max)
        buffer_add_format(name, " max-length=%zu", scorer->reader.n_tokens_max);
    if (settings->tool.plain_text)
        buffer_add_string(name, " plain-text=1");
    buffer_add_byte(name, 0);
    return name->failed && status == STATUS_OK ? error_memory(error, STATUS_REFUSE, "the scores of texts")
                                               : status;
}

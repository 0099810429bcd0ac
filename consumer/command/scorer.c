#include "consumer/command/scorer.h"

#include "consumer/worker/arithmetic.h"

#include <math.h>
#include <stdlib.h>

// A group's limits: tokens in steps of n_tokens_max, and inputs.
enum { GROUP_STEPS = 8, GROUP_INPUTS_MAX = 4096 };

// --- Opening ---

enum status scorer_open(struct scorer *scorer, struct runtime *runtime, const struct settings *settings,
                        bool ranks, struct error *error)
{
    struct classifier_runtime *model = &scorer->model;
    *scorer = (struct scorer){.runtime = runtime};
    enum status status = classifier_runtime_choose(model, runtime, &settings->score, ranks, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status =
            classifier_runtime_plan(model, runtime, &settings->engine, settings->score.max_length, error);
    if (status == STATUS_OK)
        status = classifier_runtime_open(model, runtime, NULL, error);
    if (settings->score.max_length) // cut to what is computed
        model->reader.n_tokens_max = (size_t)model->reader.n_longest;
    scorer->n_group_tokens = (size_t)GROUP_STEPS * (size_t)runtime->plan.forward.n_tokens_max;
    return status;
}

void scorer_close(struct scorer *scorer)
{
    classifier_runtime_close(&scorer->model);
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
    size_t capacity = scorer->capacity ? 2 * scorer->capacity : 64,
           n_labels = (size_t)scorer->model.facts.n_labels;
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
    status = classifier_input_encode(&scorer->model.reader, texts, n_texts, &scorer->ids, &scorer->types,
                                     &n_cut, &input->error);
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
    return classifier_compute(scorer->model.classifier, scorer->texts, n_texts, scorer->scores, error);
}

const float *scorer_scores(struct scorer *scorer, size_t index)
{
    struct scored_input *input = &scorer->inputs[index];
    if (input->scores < 0)
        return NULL;
    const float *scores = scorer->scores + input->scores * scorer->model.facts.n_labels;
    for (int32_t i = 0; i < scorer->model.facts.n_labels; i++)
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
    buffer_add_string(name, scorer->runtime->arithmetic);
    classifier_runtime_name(&scorer->model, name);
    if (scorer->model.reader.n_tokens_max)
        buffer_add_format(name, " max-length=%zu", scorer->model.reader.n_tokens_max);
    if (settings->tool.plain_text)
        buffer_add_string(name, " plain-text=1");
    buffer_add_byte(name, 0);
    return name->failed && status == STATUS_OK ? error_memory(error, STATUS_REFUSE, "the scores of texts")
                                               : status;
}

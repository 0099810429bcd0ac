#include "consumer/command/embed_group.h"

#include "consumer/observe/log.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/worker/embedding_prompts.h"
#include "schemas/base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_STEPS = 8,        // steps' tokens
    GROUP_ITEMS_MAX = 4096, // at most
    GROUP_BYTES = 16 << 20, // of vectors
};

enum status embed_cut_choose(struct embedding_cut *cut, const struct embed_options *options,
                             struct error *error)
{
    const char *side = options->truncate;
    *cut = (struct embedding_cut){0};
    if (!side)
        return STATUS_OK;
    *cut = (struct embedding_cut){.n_tokens = -1, .is_left = strcmp(side, "left") == 0};
    if (cut->is_left || strcmp(side, "right") == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--truncate: expected left or right, got \"%s\"",
                     side);
}

enum status embed_group_plan(struct embed_group *group, struct runtime *runtime,
                             const struct settings *settings, struct error *error)
{
    *group = (struct embed_group){.runtime = runtime};
    enum status status = embed_cut_choose(&group->cut, &settings->embed, error);
    if (status == STATUS_OK)
        status = embedding_runtime_choose(&group->embedding, runtime, &settings->embed, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    return status == STATUS_OK ? embedding_runtime_plan(&group->embedding, runtime, &settings->engine, error)
                               : status;
}

enum status embed_group_name(const struct embed_group *group, const struct settings *settings,
                             struct buffer *name, struct error *error)
{
    struct text prompt = group->embedding.rules.prompt;
    enum status status = arithmetic_name(group->runtime, settings, NULL, error);
    if (status != STATUS_OK)
        return status;
    buffer_add_string(name, group->runtime->arithmetic);
    embedding_runtime_name(&group->embedding, &settings->embed, name);
    buffer_add_format(name, " dimensions=%d", group->embedding.n_dimensions);
    if (prompt.size)
        buffer_add_format(name, " prompt=%016llx",
                          (unsigned long long)hash_bytes(prompt.data, prompt.size, 0));
    if (settings->embed.truncate)
        buffer_add_format(name, " truncate=%s", settings->embed.truncate);
    return name->failed ? error_memory(error, STATUS_REFUSE, "the name of what vectors depend on")
                        : STATUS_OK;
}

enum status embed_group_open(struct embed_group *group, struct error *error)
{
    enum status status = embedding_runtime_open(&group->embedding, group->runtime, NULL, error);
    if (status != STATUS_OK)
        return status;
    embedding_prompts_warn(&group->embedding.rules, group->runtime->model, false);
    size_t vector_bytes = (size_t)group->embedding.n_dimensions * sizeof(float);
    size_t n_max = GROUP_BYTES / vector_bytes;
    n_max = n_max < 1 ? 1 : n_max < GROUP_ITEMS_MAX ? n_max : GROUP_ITEMS_MAX;
    group->n_max = (int32_t)n_max;
    group->n_group_tokens = (size_t)GROUP_STEPS * (size_t)group->runtime->plan.forward.n_tokens_max;
    group->items = calloc(n_max, sizeof *group->items);
    group->texts = calloc(n_max, sizeof *group->texts);
    group->vectors = calloc(n_max, vector_bytes);
    if (group->items && group->texts && group->vectors)
        return STATUS_OK;
    return error_memory(error, STATUS_REFUSE, "embeddings");
}

void embed_group_close(struct embed_group *group)
{
    embedding_runtime_close(&group->embedding);
    token_array_finish(&group->ids);
    free(group->items);
    free(group->texts);
    free(group->vectors);
    *group = (struct embed_group){0};
}

enum status embed_group_add(struct embed_group *group, struct text text, struct error *error)
{
    const struct embedding_rules *rules = &group->embedding.rules;
    struct embed_item *item = &group->items[group->n++];
    size_t n_cut = 0;
    *item = (struct embed_item){.first_id = group->ids.n_ids, .vector = -1};
    enum status status =
        embedding_input_encode(rules, rules->prompt, text, &group->cut, &group->ids, &n_cut, &item->error);
    if (status == STATUS_REJECT)
        group->ids.n_ids = item->first_id;
    item->n_ids = group->ids.n_ids - item->first_id;
    group->n_cut += n_cut > 0;
    if (status == STATUS_OK || status == STATUS_REJECT)
        return STATUS_OK;
    *error = item->error;
    return status;
}

void embed_group_add_fault(struct embed_group *group, const struct error *fault)
{
    group->items[group->n++] =
        (struct embed_item){.first_id = group->ids.n_ids, .vector = -1, .error = *fault};
}

bool embed_group_is_full(const struct embed_group *group)
{
    return group->n == group->n_max || group->ids.n_ids >= group->n_group_tokens;
}

static bool is_finite(const float *vector, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(vector[i]))
            return false;
    return true;
}

static const float *row_of(const struct embed_group *group, const struct embed_item *item)
{
    return group->vectors + (ptrdiff_t)item->vector * group->embedding.n_dimensions;
}

enum status embed_group_compute(struct embed_group *group, struct error *error)
{
    int32_t n_texts = 0;
    for (int32_t i = 0; i < group->n; i++) {
        struct embed_item *item = &group->items[i];
        if (item->error.status != STATUS_OK)
            continue;
        item->vector = n_texts;
        group->texts[n_texts++] =
            (struct embedding_text){group->ids.ids + item->first_id, (int32_t)item->n_ids};
    }
    enum status status =
        embedder_compute(group->embedding.embedder, group->texts, n_texts, group->vectors, error);
    group->n_tokens += (int64_t)group->ids.n_ids;
    for (int32_t i = 0; i < group->n && status == STATUS_OK; i++) {
        struct embed_item *item = &group->items[i];
        if (item->vector >= 0 && !is_finite(row_of(group, item), group->embedding.n_dimensions))
            (void)error_set(&item->error, STATUS_REJECT, ERROR_LOGITS_NAN,
                            "the model's hidden state has a NaN or an infinity");
    }
    return status;
}

const float *embed_group_vector(const struct embed_group *group, int32_t item)
{
    return group->items[item].error.status == STATUS_OK ? row_of(group, &group->items[item]) : NULL;
}

void embed_group_clear(struct embed_group *group)
{
    group->n = 0;
    group->ids.n_ids = 0;
}

void embed_group_say_cut(const struct embed_group *group)
{
    if (group->n_cut)
        log_write(LOG_WARNING, "%lld texts were cut to %d tokens, %s", (long long)group->n_cut,
                  group->embedding.rules.n_longest, group->embedding.rules.limited_by);
}

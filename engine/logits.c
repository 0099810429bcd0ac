#include "engine/logits.h"

#include <stdlib.h>

enum { PAGE_POSITIONS = 32 };

static enum status check_ids(const struct model *model, const int32_t *ids, int32_t n_ids,
                             struct error *error)
{
    const struct model_shape *shape = &model->shape;
    if (n_ids <= 0)
        return error_set(error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "no tokens");
    if (n_ids > shape->n_context)
        return error_set(error, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "%d tokens: the model's context has %d",
                         n_ids, shape->n_context);
    for (int32_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= shape->n_vocab)
            return error_set(error, STATUS_REJECT, ERROR_TOKEN_RANGE, "token %d at %d: the vocabulary has %d",
                             ids[i], i, shape->n_vocab);
    return STATUS_OK;
}

struct logits_reader {
    const struct model *model;
    struct forward *forward;
    int32_t *pages; // in order of positions
    bool long_context;
};

void logits_close(struct logits_reader *reader)
{
    if (!reader)
        return;
    forward_destroy(reader->forward);
    free(reader->pages);
    free(reader);
}

enum status logits_open(struct logits_reader **reader, const struct model *model, struct backend *backend,
                        enum kv_type kv_type, int32_t n_ids, struct error *error)
{
    int32_t n_pages = (n_ids - 1) / PAGE_POSITIONS + 1;
    struct logits_reader *created = calloc(1, sizeof *created);
    if (created)
        created->pages = calloc((size_t)n_pages, sizeof *created->pages);
    if (!created || !created->pages) {
        logits_close(created);
        return error_memory(error, STATUS_REFUSE, "%d pages", n_pages);
    }
    for (int32_t i = 0; i < n_pages; i++)
        created->pages[i] = i;
    created->model = model;
    created->long_context = n_ids > model->shape.n_context_original;
    int32_t n_rows = n_ids < LOGITS_CHUNK_TOKENS ? n_ids : LOGITS_CHUNK_TOKENS;
    struct forward_limits limits = {.n_tokens_max = n_rows,
                                    .n_outputs_max = n_rows,
                                    .n_sequences_max = 1,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = n_pages,
                                    .n_state_slots = 1,
                                    .kv_type = kv_type};
    enum status status = forward_create(&created->forward, model, backend, &limits, NULL, NULL, error);
    if (status == STATUS_OK)
        *reader = created;
    else
        logits_close(created);
    return status;
}

enum status logits_read(struct logits_reader *reader, const int32_t *ids, int32_t first, int32_t n,
                        float *logits, struct error *error)
{
    int32_t positions[LOGITS_CHUNK_TOKENS], rows[LOGITS_CHUNK_TOKENS];
    for (int32_t i = 0; i < n; i++) {
        positions[i] = first + i;
        rows[i] = i;
    }
    struct step_sequence sequence = {
        .n_tokens = n, .position = first, .pages = reader->pages, .long_context = reader->long_context};
    struct step step = {.n_tokens = n,
                        .tokens = ids,
                        .positions = positions,
                        .n_sequences = 1,
                        .sequences = &sequence,
                        .n_outputs = logits ? n : 0,
                        .output_rows = rows};
    return forward_step(reader->forward, &step, NULL, logits, error);
}

enum status logits_of_text(const struct model *model, struct backend *backend, enum kv_type kv_type,
                           const int32_t *ids, int32_t n_ids, float *logits, struct error *error)
{
    struct logits_reader *reader = NULL;
    enum status status = check_ids(model, ids, n_ids, error);
    if (status == STATUS_OK)
        status = logits_open(&reader, model, backend, kv_type, n_ids, error);
    for (int32_t first = 0; first < n_ids && status == STATUS_OK; first += LOGITS_CHUNK_TOKENS) {
        int32_t n = n_ids - first < LOGITS_CHUNK_TOKENS ? n_ids - first : LOGITS_CHUNK_TOKENS;
        status = logits_read(reader, ids + first, first, n,
                             logits + (size_t)first * (size_t)model->shape.n_vocab, error);
    }
    logits_close(reader);
    return status;
}

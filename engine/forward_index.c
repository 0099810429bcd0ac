// The indexer of sparse attention: its keys, queries and weights, from which the backend selects the positions that a
// row sees (engine/cpu/selection.h).
//   positions  the lightning indexer (DeepSeek-V3.2, section 2.1, equation 1). Scores are only compared, so their
//              common factor is omitted.
//   blocks     MiniMax-M3: queries of the embedding, whose heads are normalized; no weights
//   means      Qwen4-Exp: the same with one key per block
#include "engine/forward_parts.h"
#include "engine/model/family.h"

// The authors' code gives the norm of a lightning indexer's keys this epsilon.
static const float lightning_epsilon = 1e-6f;

static struct norm_parameters norm_of(const struct pass *pass, const struct forward_layer *layer,
                                      enum layer_slot slot, int32_t n_heads)
{
    bool blocks = pass->shape->index.by_head || pass->shape->index.means;
    return (struct norm_parameters){.kind = blocks ? NORM_RMS : NORM_LAYER,
                                    .weight = layer->weights[slot],
                                    .bias = layer->biases[slot],
                                    .epsilon = blocks ? pass->shape->norm_epsilon : lightning_epsilon,
                                    .n_groups = n_heads};
}

static void rotate(const struct pass *pass, struct matrix *x, int32_t n_heads)
{
    const struct model *model = pass->forward->model;
    enum rope_style style = model->family->index_adjacent ? ROPE_ADJACENT : ROPE_HALVES;
    pass->operations->rope(pass->backend, x, pass->n_rows, n_heads, pass->shape->index.key_dim,
                           model->rope[0].n_dims, style, 0);
}

// Stores keys of all rows, or of blocks, normalized and rotated.
static void store_keys(const struct pass *pass, const struct forward_layer *layer, int32_t number)
{
    struct matrix *key = pass->forward->matrices.index.key;
    struct norm_parameters norm = norm_of(pass, layer, SLOT_INDEX_KEY_NORM, 1);
    if (pass->shape->index.means) {
        pass->operations->index_store_means(pass->backend, number, key, &norm,
                                            pass->forward->model->rope[0].n_dims, ROPE_HALVES);
        return;
    }
    pass->operations->norm(pass->backend, key, key, pass->n_rows, &norm);
    rotate(pass, key, 1);
    pass->operations->index_store(pass->backend, number, key);
}

static bool selects_any(const struct pass *pass)
{
    for (int32_t i = 0; i < pass->step->n_sequences; i++) {
        const struct step_sequence *sequence = &pass->step->sequences[i];
        if (sequence->position + sequence->n_tokens > pass->shape->index.n_selected)
            return true;
    }
    return false;
}

void index_select(const struct pass *pass, int32_t index, const struct matrix *query_input,
                  const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct index_matrices *m = &pass->forward->matrices.index;
    int32_t number = pass->forward->model->layers[index].index, n_heads = pass->shape->index.n_heads;
    bool weighted = layer->weights[SLOT_INDEX_WEIGHTS] != NULL;
    store_keys(pass, layer, number);
    if (!selects_any(pass))
        return;
    struct product query = {m->query, layer->weights[SLOT_INDEX_QUERY], NULL, NULL},
                   weights = {m->weights, layer->weights[SLOT_INDEX_WEIGHTS], NULL, NULL};
    pass->operations->products(pass->backend, &query, 1, query_input, pass->n_rows);
    if (weighted)
        pass->operations->products(pass->backend, &weights, 1, input, pass->n_rows);
    struct norm_parameters norm = norm_of(pass, layer, SLOT_INDEX_QUERY_NORM, n_heads);
    if (norm.weight)
        pass->operations->norm(pass->backend, m->query, m->query, pass->n_rows, &norm);
    rotate(pass, m->query, n_heads);
    pass->operations->select_positions(pass->backend, number, m->query, weighted ? m->weights : NULL);
}

void index_run(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    struct product key = {pass->forward->matrices.index.key, layer->weights[SLOT_INDEX_KEY], NULL, NULL};
    pass->operations->products(pass->backend, &key, 1, input, pass->n_rows);
    index_select(pass, index, input, input);
}

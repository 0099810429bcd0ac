// What differs between layers: heads, MLPs, whose keys and values are read, limits of activations, indexers.
#include "engine/model/family.h"
#include "engine/model/model_parts.h"
#include "engine/model/ngram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The earlier layer of the same kind, windowed or not, whose keys and values a layer beyond `n_own` reads:
// the last one that has its own. -1: none.
static int32_t kv_layer_of(const struct model *model, int32_t layer, int32_t n_own)
{
    int32_t source = layer < n_own ? layer : n_own - 1;
    while (source >= 0 && model->layers[source].windowed != model->layers[layer].windowed)
        source--;
    return source;
}

// Reads what differs between layers: heads, MLPs, and whose keys and values are read. The keys of the family
// without "_swa" are for layers without a window.
void read_layers(struct key_reader *reader, struct model *model)
{
    struct model_shape *shape = &model->shape;
    for (int32_t i = 0; i < shape->n_layers; i++) {
        struct model_layer *layer = &model->layers[i];
        layer->kv_layer = i, layer->n_ff = shape->n_ff;
        layer->output_scale = 1.0f, layer->sparsity = -INFINITY;
    }
    if ((!model->family->layers_vary && !model->family->heads_vary) || reader->status != STATUS_OK)
        return;
    model->heads = calloc((size_t)shape->n_layers, sizeof *model->heads);
    if (!model->heads) {
        reader->status = error_memory(reader->error, STATUS_REFUSE, "%d layers", shape->n_layers);
        return;
    }
    int32_t key_dim = shape->attention.key_dim, value_dim = shape->attention.value_dim;
    struct layer_heads windowed = {
        .key_dim = read_size(reader, "attention.key_length_swa", key_dim, 2, MODEL_HEAD_DIM_MAX),
        .value_dim = read_size(reader, "attention.value_length_swa", value_dim, 1, MODEL_HEAD_DIM_MAX)};
    int32_t n_shared = read_size(reader, "attention.shared_kv_layers", 0, 0, shape->n_layers - 1);
    for (int32_t i = 0; i < shape->n_layers && reader->status == STATUS_OK; i++) {
        struct layer_heads *heads = &model->heads[i];
        struct model_layer *layer = &model->layers[i];
        *heads = layer->windowed ? windowed : (struct layer_heads){0, key_dim, value_dim, 0};
        heads->n_heads = shape->attention.n_heads;
        int32_t least = model->family->layers_partial ? 0 : 1;
        if (model->family->heads_vary)
            heads->n_heads =
                read_layer_size(reader, model, "attention.head_count", i, -1, least, MODEL_HEADS_MAX);
        heads->n_kv_heads = read_layer_size(reader, model, "attention.head_count_kv", i, heads->n_heads,
                                            least, heads->n_heads);
        layer->n_ff = read_layer_size(reader, model, "feed_forward_length", i, -1, least, MODEL_WIDTH_MAX);
        layer->linear = heads->n_heads > 0 && heads->n_kv_heads == 0;
        layer->kv_layer = kv_layer_of(model, i, shape->n_layers - n_shared);
        bool fits =
            layer->kv_layer >= 0 && (heads->n_kv_heads == 0 || heads->n_heads % heads->n_kv_heads == 0);
        if (!fits && reader->status == STATUS_OK)
            reader->status =
                error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                          "layer %d: %d key-value heads for %d heads, %d layers share keys and values", i,
                          heads->n_kv_heads, heads->n_heads, n_shared);
        if (layer->kv_layer != i)
            heads->n_kv_heads = 0;
    }
    shape->attention.key_dim = key_dim > windowed.key_dim ? key_dim : windowed.key_dim;
    shape->attention.value_dim = value_dim > windowed.value_dim ? value_dim : windowed.value_dim;
    shape->n_layer_input = read_size(reader, "embedding_length_per_layer_input", 0, 0, MODEL_WIDTH_MAX);
}

// Limits of experts' gated activations: an array with a number for each layer; 0: none.
void read_limits(struct key_reader *reader, struct model *model, const char *suffix, bool shared)
{
    struct gguf_array limits = {0};
    bool found = false;
    char key[128];
    size_t n_layers = (size_t)model->shape.n_layers, n_beyond = (size_t)model->shape.n_layers_beyond;
    key_name(reader, suffix, key);
    if (!model->family->experts_limited || reader->status != STATUS_OK)
        return;
    reader->status = gguf_array(reader->gguf, key, &limits, &found, reader->error);
    bool fits =
        limits.kind == GGUF_F32 && (limits.n_items == n_layers || limits.n_items == n_layers + n_beyond);
    for (size_t i = 0; found && fits && i < n_layers; i++) {
        float limit = (float)gguf_array_number(&limits, i);
        *(shared ? &model->layers[i].shared_limit : &model->layers[i].experts_limit) = limit;
        fits = limit >= 0.0f && limit < INFINITY;
    }
    if (found && !fits && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s: expected a number from 0 for each of %zu layers", key, n_layers);
}

static bool heads_alike(const struct layer_heads *a, const struct layer_heads *b)
{
    return a->n_kv_heads == b->n_kv_heads && a->key_dim == b->key_dim && a->value_dim == b->value_dim;
}

void share_pages(struct key_reader *reader, struct model *model)
{
    int32_t n_layers = model->shape.n_layers;
    model->paged = calloc((size_t)n_layers, sizeof *model->paged);
    if (!model->paged) {
        reader->status = error_memory(reader->error, STATUS_REFUSE, "%d layers", n_layers);
        return;
    }
    for (int32_t i = 0; i < n_layers; i++) {
        int32_t first = 0;
        while (!heads_alike(&model->heads[first], &model->heads[i]))
            first++;
        model->layers[i].store = first;
        model->paged[first] = model->heads[first];
        if (model->shape.attention.n_layers <= first)
            model->shape.attention.n_layers = first + 1;
    }
}

void read_altup(struct key_reader *reader, struct model *model)
{
    struct altup_shape *altup = &model->shape.altup;
    const struct tensor *laurel = gguf_tensor(model->gguf, "blk.0.laurel_l.weight");
    struct gguf_array scales = {0};
    bool found = false;
    char key[128];
    if (!model->family->altup || reader->status != STATUS_OK)
        return;
    altup->n = read_size(reader, "altup.num_inputs", -1, 2, MODEL_ALTUP_MAX);
    altup->active = read_size(reader, "altup.active_idx", 0, 0, altup->n - 1);
    bool ranked = laurel && laurel->dims[1] >= 1 && laurel->dims[1] <= MODEL_WIDTH_MAX;
    altup->laurel_rank = ranked ? (int32_t)laurel->dims[1] : 1;
    key_name(reader, "activation_sparsity_scale", key);
    if (reader->status == STATUS_OK)
        reader->status = gguf_array(reader->gguf, key, &scales, &found, reader->error);
    bool fits = scales.kind == GGUF_F32 && scales.n_items == (size_t)model->shape.n_layers;
    for (int32_t i = 0; found && fits && i < model->shape.n_layers; i++) {
        model->layers[i].sparsity = (float)gguf_array_number(&scales, (size_t)i);
        fits = model->layers[i].sparsity < INFINITY;
    }
    if (found && !fits && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s: expected a number below infinity for each of %d layers", key,
                                   model->shape.n_layers);
}

// The indexers. A file's types (1: the layer has one) are redundant beside the tensors, but a layer may have tensors
// that it does not use.
static void find_indexers(struct key_reader *reader, struct model *model, const char *key_weight)
{
    struct gguf_array types = {0};
    bool given = find_layer_truths(reader, "attention.indexer.types", model->shape.n_layers,
                                   model->shape.n_layers_beyond, &types);
    for (int32_t i = 0; i < model->shape.n_layers && reader->status == STATUS_OK; i++) {
        struct model_layer *layer = &model->layers[i];
        char name[64];
        snprintf(name, sizeof name, "blk.%d.indexer.%s.weight", i, key_weight);
        layer->indexed =
            given ? gguf_array_integer(&types, (size_t)i) != 0 : gguf_tensor(reader->gguf, name) != NULL;
        layer->selects = layer->indexed || model->family->indexed;
        layer->index = layer->indexed ? model->shape.index.n_layers++ : 0;
    }
}

// Blocks of positions: the keys count blocks.
static void read_block_index(struct key_reader *reader, struct model *model)
{
    struct index_shape *index = &model->shape.index;
    index->by_head = true;
    index->block = read_size(reader, "attention.indexer.block_size", -1, 2, MODEL_CONTEXT_MAX);
    int32_t n_blocks = read_size(reader, "attention.indexer.top_k", -1, 1, MODEL_CONTEXT_MAX);
    index->n_local = read_size(reader, "attention.indexer.local_blocks", 1, 0, n_blocks);
    if (reader->status != STATUS_OK)
        return;
    int64_t n_selected = (int64_t)n_blocks * index->block;
    int32_t n_rotated = read_integer(reader, "rope.dimension_count", model->shape.attention.key_dim, NULL);
    index->n_selected = n_selected < MODEL_CONTEXT_MAX ? (int32_t)n_selected : MODEL_CONTEXT_MAX;
    find_indexers(reader, model, "k_proj");
    if (index->n_layers == 0) // all attention is dense
        *index = (struct index_shape){0};
    else if (reader->status == STATUS_OK && (index->n_heads != model->shape.attention.n_kv_heads ||
                                             n_selected > MODEL_CONTEXT_MAX || index->key_dim < n_rotated))
        reader->status = error_set(
            reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "sparse attention to %d blocks of %d positions: expected a head for each of %d key-value heads, and "
            "keys of at least %d dimensions; got %d, and %d",
            n_blocks, index->block, model->shape.attention.n_kv_heads, n_rotated, index->n_heads,
            index->key_dim);
}

// Blocks with a key: the keys count positions.
static void read_mean_index(struct key_reader *reader, struct model *model)
{
    struct index_shape *index = &model->shape.index;
    int32_t n_rotated = read_integer(reader, "rope.dimension_count", model->shape.attention.key_dim, NULL);
    index->means = true;
    index->block = read_size(reader, "attention.indexer.block_size", -1, 1, MODEL_CONTEXT_MAX);
    int32_t n_selected = read_size(reader, "attention.indexer.top_k", -1, 1, MODEL_CONTEXT_MAX / 2);
    if (reader->status != STATUS_OK)
        return;
    find_indexers(reader, model, "qk_proj");
    if (n_selected % index->block != 0 || index->key_dim < n_rotated)
        reader->status = error_set(
            reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "sparse attention to %d positions in blocks of %d: expected whole blocks, and keys of at "
            "least %d dimensions, got %d",
            n_selected, index->block, n_rotated, index->key_dim);
    index->n_selected = n_selected + index->block - 1; // with an incomplete block
}

void read_index(struct key_reader *reader, struct model *model)
{
    struct index_shape *index = &model->shape.index;
    bool blocks = model->family->index_blocks;
    if ((!model->family->indexed && !blocks && !model->family->index_means) || reader->status != STATUS_OK)
        return;
    index->n_heads = read_size(reader, "attention.indexer.head_count", -1, 1, MODEL_HEADS_MAX);
    index->key_dim = read_size(reader, "attention.indexer.key_length", -1, 2, MODEL_HEAD_DIM_MAX);
    index->block = 1;
    if (blocks) {
        read_block_index(reader, model);
        return;
    }
    if (model->family->index_means) {
        read_mean_index(reader, model);
        return;
    }
    index->n_selected = read_size(reader, "attention.indexer.top_k", -1, 1, MODEL_CONTEXT_MAX);
    find_indexers(reader, model, "attn_k");
    bool fits = model->layers[0].indexed && model->shape.latent.query_dim > 0 &&
                index->key_dim >= model->shape.latent.rope_dim;
    if (reader->status == STATUS_OK && !fits)
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "sparse attention: expected an indexer in layer 0, compressed queries, and keys of "
                      "at least %d dimensions; got %d",
                      model->shape.latent.rope_dim, index->key_dim);
}

static void read_ngrams(struct key_reader *reader, struct model *model)
{
    struct ngram_shape *shape = &model->shape.ngram;
    for (int32_t i = 0; i < model->shape.n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ngram_embd.weight", i);
        bool has = gguf_tensor(reader->gguf, name) != NULL;
        model->layers[i].ngram = has ? shape->n_layers++ : -1;
        if (has && !model->layers[i].recurrent && reader->status == STATUS_OK)
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                       "tensor %s: expected in recurrent layers only", name);
    }
    if (shape->n_layers == 0)
        return;
    shape->size = read_size(reader, "ngram.size", -1, 2, MODEL_NGRAM_MAX);
    shape->n_heads_each =
        read_size(reader, "ngram.head_count", -1, 1, MODEL_NGRAM_HEADS_MAX / MODEL_NGRAM_MAX);
    shape->head_dim = read_size(reader, "ngram.head_length", -1, 1, MODEL_WIDTH_MAX / MODEL_NGRAM_HEADS_MAX);
    shape->n_taps = read_size(reader, "ngram.conv_kernel", -1, 2, MODEL_TAPS_MAX);
    shape->end = read_size(reader, "ngram.end_token_id", -1, 0, MODEL_VOCABULARY_MAX);
    shape->seed = read_size(reader, "ngram.seed", -1, 0, INT32_MAX);
    shape->n_rows_least = read_size(reader, "ngram.vocabulary", -1, 2, INT32_MAX / 2);
    model->ngrams = calloc((size_t)shape->n_layers, sizeof *model->ngrams);
    if (!model->ngrams && reader->status == STATUS_OK)
        reader->status = error_memory(reader->error, STATUS_REFUSE, "%d layers", shape->n_layers);
    for (int32_t i = 0; i < shape->n_layers && reader->status == STATUS_OK; i++)
        ngram_init(&model->ngrams[i], shape, model->shape.n_vocab, i);
}

void read_hyper(struct key_reader *reader, struct model *model)
{
    struct hyper_shape *hyper = &model->shape.hyper;
    for (int32_t i = 0; i < model->shape.n_layers; i++)
        model->layers[i].ngram = -1;
    if (!model->family->hyper || reader->status != STATUS_OK)
        return;
    hyper->n = read_size(reader, "hyper_connection.count", -1, 2, MODEL_STREAMS_MAX);
    hyper->rank = read_size(reader, "hyper_connection.rank", -1, 1, MODEL_WIDTH_MAX);
    if (reader->status == STATUS_OK && (int64_t)hyper->n * model->shape.n_embd > MODEL_WIDTH_MAX)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "%d streams of %d items: at most %d together", hyper->n,
                                   model->shape.n_embd, MODEL_WIDTH_MAX);
    for (int32_t i = 0; i < model->shape.n_layers && reader->status == STATUS_OK; i++)
        if (model->layers[i].attends && !model->layers[i].indexed)
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                       "tensor blk.%d.indexer.qk_proj.weight is missing", i);
    read_ngrams(reader, model);
}

// Finds every tensor a family needs, checks its shape and type, cuts fused ones into slices, and makes sure
// that none is left over. Names: blk.N.NAME.weight and blk.N.NAME.bias as in gguf-py/gguf/constants.py of
// llama.cpp.
#include "engine/model/tensor_search.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum slot_kind { MATRIX, MATRIX_UNBIASED, VECTOR, VECTOR_UNBIASED }; // unbiased: has no bias

// dims: row length, rows, matrices. A bias has one item per row of the weight, or per item of a vector.
static const struct {
    const char *name;
    enum slot_kind kind;
    enum width dims[3];
} slots[SLOT_COUNT] = {
    [SLOT_ATTN_NORM] = {"attn_norm", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_ATTN_NORM_2] = {"attn_norm_2", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_ATTN_Q] = {"attn_q", MATRIX, {EMBD, QUERY, ONE}},
    [SLOT_ATTN_K] = {"attn_k", MATRIX, {EMBD, KEY, ONE}},
    [SLOT_ATTN_V] = {"attn_v", MATRIX, {EMBD, VALUE, ONE}},
    [SLOT_ATTN_Q_NORM] = {"attn_q_norm", VECTOR, {KEY_DIM, ONE, ONE}},
    [SLOT_ATTN_K_NORM] = {"attn_k_norm", VECTOR, {KEY_DIM, ONE, ONE}},
    [SLOT_ATTN_SINKS] = {"attn_sinks", VECTOR_UNBIASED, {HEADS, ONE, ONE}},
    [SLOT_ATTN_GATE] = {"attn_gate", MATRIX_UNBIASED, {EMBD, HEADS_OUT, ONE}},
    [SLOT_ATTN_OUT] = {"attn_output", MATRIX, {HEADS_OUT, EMBD, ONE}},
    [SLOT_ATTN_POST_NORM] = {"post_attention_norm", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_FFN_NORM] = {"ffn_norm", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_FFN_GATE] = {"ffn_gate", MATRIX, {EMBD, FF, ONE}},
    [SLOT_FFN_UP] = {"ffn_up", MATRIX, {EMBD, FF, ONE}},
    [SLOT_FFN_DOWN] = {"ffn_down", MATRIX, {FF, EMBD, ONE}},
    [SLOT_FFN_POST_NORM] = {"post_ffw_norm", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_ROUTER] = {"ffn_gate_inp", MATRIX, {EMBD, EXPERTS, ONE}},
    [SLOT_GATE_EXPERTS] = {"ffn_gate_exps", MATRIX, {EMBD_EXPERT, FF_EXPERT, EXPERTS}},
    [SLOT_UP_EXPERTS] = {"ffn_up_exps", MATRIX, {EMBD_EXPERT, FF_EXPERT, EXPERTS}},
    [SLOT_DOWN_EXPERTS] = {"ffn_down_exps", MATRIX, {FF_EXPERT, EMBD_EXPERT, EXPERTS}},
    [SLOT_SHARED_ROUTER] = {"ffn_gate_inp_shexp", MATRIX_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_SHARED_GATE] = {"ffn_gate_shexp", MATRIX_UNBIASED, {EMBD, FF_SHARED, ONE}},
    [SLOT_SHARED_UP] = {"ffn_up_shexp", MATRIX_UNBIASED, {EMBD, FF_SHARED, ONE}},
    [SLOT_SHARED_DOWN] = {"ffn_down_shexp", MATRIX_UNBIASED, {FF_SHARED, EMBD, ONE}},
    [SLOT_EXPERTS_IN] = {"ffn_latent_down", MATRIX_UNBIASED, {EMBD, EMBD_EXPERT, ONE}},
    [SLOT_EXPERTS_OUT] = {"ffn_latent_up", MATRIX_UNBIASED, {EMBD_EXPERT, EMBD, ONE}},
    [SLOT_ROUTER_PICK_BIAS] = {"exp_probs_b", VECTOR_UNBIASED, {EXPERTS, ONE, ONE}},
    [SLOT_ATTN_Q_A] = {"attn_q_a", MATRIX_UNBIASED, {EMBD, QUERY_LATENT, ONE}},
    [SLOT_ATTN_Q_A_NORM] = {"attn_q_a_norm", VECTOR_UNBIASED, {QUERY_LATENT, ONE, ONE}},
    [SLOT_ATTN_Q_B] = {"attn_q_b", MATRIX_UNBIASED, {QUERY_LATENT, QUERY, ONE}},
    [SLOT_ATTN_KV_A_LATENT] = {"attn_kv_a_mqa", MATRIX_UNBIASED, {EMBD, LATENT, ONE}},
    [SLOT_ATTN_KV_A_ROPE] = {"attn_kv_a_mqa", MATRIX_UNBIASED, {EMBD, LATENT_ROPE, ONE}},
    [SLOT_ATTN_KV_A_NORM] = {"attn_kv_a_norm", VECTOR_UNBIASED, {LATENT, ONE, ONE}},
    [SLOT_ATTN_KV_B] = {"attn_kv_b", MATRIX_UNBIASED, {LATENT, HEADS_KEY_VALUE, ONE}},
    [SLOT_ATTN_K_B] = {"attn_k_b", MATRIX_UNBIASED, {LATENT_KEY, LATENT, HEADS}},
    [SLOT_ATTN_V_B] = {"attn_v_b", MATRIX_UNBIASED, {LATENT, LATENT_VALUE, HEADS}},
    [SLOT_INDEX_QUERY] = {"indexer.attn_q_b", MATRIX_UNBIASED, {QUERY_LATENT, INDEX_QUERY, ONE}},
    [SLOT_INDEX_KEY] = {"indexer.attn_k", MATRIX_UNBIASED, {EMBD, INDEX_KEY, ONE}},
    [SLOT_INDEX_KEY_NORM] = {"indexer.k_norm", VECTOR_UNBIASED, {INDEX_KEY, ONE, ONE}}, // and a bias
    [SLOT_INDEX_WEIGHTS] = {"indexer.proj", MATRIX_UNBIASED, {EMBD, INDEX_HEADS, ONE}},
    [SLOT_INDEX_QUERY_EMBD] = {"indexer.q_proj", MATRIX_UNBIASED, {EMBD, INDEX_QUERY, ONE}},
    [SLOT_INDEX_KEY_EMBD] = {"indexer.k_proj", MATRIX_UNBIASED, {EMBD, INDEX_KEY, ONE}},
    [SLOT_INDEX_QUERY_NORM] = {"indexer.q_norm", VECTOR_UNBIASED, {INDEX_KEY, ONE, ONE}},
    [SLOT_ATTN_POSITION_Q] = {"attn_pos_q", MATRIX, {EMBD, QUERY, ONE}},
    [SLOT_ATTN_POSITION_K] = {"attn_pos_k", MATRIX, {EMBD, KEY, ONE}},
    [SLOT_ROUTER_SCALE] = {"ffn_gate_inp", VECTOR_UNBIASED, {EMBD, ONE, ONE}}, // .scale, not .weight
    [SLOT_FFN_POST_NORM_1] = {"post_ffw_norm_1", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_FFN_NORM_2] = {"pre_ffw_norm_2", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_FFN_POST_NORM_2] = {"post_ffw_norm_2", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_INPUT_GATE] = {"inp_gate", MATRIX_UNBIASED, {EMBD, INPUT, ONE}},
    [SLOT_INPUT_OUT] = {"proj", MATRIX_UNBIASED, {INPUT, EMBD, ONE}},
    [SLOT_INPUT_POST_NORM] = {"post_norm", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_ATTN_SUB_NORM] = {"attn_sub_norm", VECTOR_UNBIASED, {HEADS_OUT, ONE, ONE}},
    [SLOT_FFN_SUB_NORM] = {"ffn_sub_norm", VECTOR_UNBIASED, {FF, ONE, ONE}},
    [SLOT_ALTUP_ROUTER_NORM] = {"altup_router_norm", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_ALTUP_ROUTER] = {"altup_router", MATRIX_UNBIASED, {EMBD, ALTUP, ONE}},
    [SLOT_ALTUP_PREDICT] = {"altup_predict_coef", MATRIX_UNBIASED, {ALTUP, ALTUP_SQUARE, ONE}},
    [SLOT_ALTUP_CORRECT] = {"altup_correct_coef", MATRIX_UNBIASED, {ALTUP, ALTUP, ONE}},
    [SLOT_ALTUP_SCALE] = {"altup_correct_scale", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_LAUREL_IN] = {"laurel_l", MATRIX_UNBIASED, {EMBD, LAUREL, ONE}},
    [SLOT_LAUREL_OUT] = {"laurel_r", MATRIX_UNBIASED, {LAUREL, EMBD, ONE}},
    [SLOT_LAUREL_POST_NORM] = {"laurel_post_norm", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    // names and dims: model_hyper.c
    [SLOT_HYPER_ATTN_NORM] = {.kind = VECTOR},
    [SLOT_HYPER_FFN_NORM] = {.kind = VECTOR},
    [SLOT_NGRAM_KEY_NORM] = {.kind = VECTOR},
    [SLOT_NGRAM_QUERY_NORM] = {.kind = VECTOR},
    [SLOT_NGRAM_STATE_NORM] = {.kind = VECTOR},
    [SLOT_NGRAM_CONVOLUTION] = {.kind = VECTOR},
    // names and dims: model_recurrent.c
    [SLOT_STATE_INPUT] = {.kind = MATRIX},
    [SLOT_STATE_QUERY] = {.kind = MATRIX},
    [SLOT_STATE_KEY] = {.kind = MATRIX},
    [SLOT_STATE_VALUE] = {.kind = MATRIX},
    [SLOT_STATE_GATE_LOW] = {.kind = MATRIX},
    [SLOT_STATE_GATE] = {.kind = MATRIX},
    [SLOT_STATE_BETA] = {.kind = MATRIX},
    [SLOT_STATE_STEP] = {.kind = MATRIX},
    [SLOT_STATE_BETA_STEP] = {.kind = MATRIX},
    [SLOT_STATE_B] = {.kind = MATRIX},
    [SLOT_STATE_C] = {.kind = MATRIX},
    [SLOT_STATE_STEP_LOW] = {.kind = MATRIX},
    [SLOT_STATE_STEP_NORM] = {.kind = VECTOR},
    [SLOT_STATE_B_NORM] = {.kind = VECTOR},
    [SLOT_STATE_C_NORM] = {.kind = VECTOR},
    [SLOT_STATE_CONVOLUTION] = {.kind = VECTOR},
    [SLOT_STATE_CONVOLUTION_KEY] = {.kind = VECTOR},
    [SLOT_STATE_CONVOLUTION_VALUE] = {.kind = VECTOR},
    [SLOT_STATE_STEP_BIAS] = {.kind = VECTOR},
    [SLOT_STATE_DECAY] = {.kind = VECTOR},
    [SLOT_STATE_DIRECT] = {.kind = VECTOR},
    [SLOT_STATE_NORM] = {.kind = VECTOR},
    [SLOT_STATE_OUT] = {.kind = MATRIX},
};

enum {
    QKV = SLOT(ATTN_Q) | SLOT(ATTN_K) | SLOT(ATTN_V),
    ATTENTION = QKV | SLOT(ATTN_Q_NORM) | SLOT(ATTN_K_NORM) | SLOT(ATTN_OUT),
    GATE_UP = SLOT(FFN_GATE) | SLOT(FFN_UP),
    MLP = GATE_UP | SLOT(FFN_DOWN),
    PRE_NORMS = SLOT(ATTN_NORM) | SLOT(FFN_NORM),
    POST_NORMS = SLOT(ATTN_POST_NORM) | SLOT(FFN_POST_NORM),
    MOE = SLOT(ROUTER) | SLOT(GATE_EXPERTS) | SLOT(UP_EXPERTS) | SLOT(DOWN_EXPERTS),
    SHARED_EXPERT = SLOT(SHARED_GATE) | SLOT(SHARED_UP) | SLOT(SHARED_DOWN),
    UNSHARED = SLOT(ATTN_K) | SLOT(ATTN_V) | SLOT(ATTN_K_NORM), // not of a layer that reads another's keys
};

_Static_assert(SLOT_OF_FAMILY_LAST < 32, "a family lists its slots in 32 bits");

bool model_slot_is_vector(enum layer_slot slot)
{
    return slots[slot].kind == VECTOR || slots[slot].kind == VECTOR_UNBIASED;
}

static void set_widths(struct tensor_search *search)
{
    const struct model_shape *shape = &search->model->shape;
    int64_t *widths = search->widths;
    widths[ONE] = 1;
    widths[EMBD] = shape->n_embd;
    widths[VOCABULARY] = shape->n_vocab;
    widths[CONTEXT] = shape->n_context;
    int32_t query_dim =
        shape->latent.dim ? shape->latent.key_dim + shape->latent.rope_dim : shape->attention.key_dim;
    widths[QUERY] = (int64_t)shape->attention.n_heads * query_dim * (shape->attention.gated ? 2 : 1);
    widths[KEY] = (int64_t)shape->attention.n_kv_heads * shape->attention.key_dim;
    widths[VALUE] = (int64_t)shape->attention.n_kv_heads * shape->attention.value_dim;
    widths[HEADS_OUT] = (int64_t)shape->attention.n_heads *
                        (shape->latent.dim ? shape->latent.value_dim : shape->attention.value_dim);
    widths[FF] = shape->n_ff;
    widths[INPUT] = shape->n_layer_input;
    widths[ALTUP] = shape->altup.n;
    widths[ALTUP_SQUARE] = (int64_t)shape->altup.n * shape->altup.n;
    widths[LAUREL] = shape->altup.laurel_rank;
    widths[EXPERTS] = shape->experts.n;
    widths[FF_EXPERT] = shape->experts.n_ff;
    widths[EMBD_EXPERT] = shape->experts.n_latent ? shape->experts.n_latent : shape->n_embd;
    widths[FF_SHARED] = shape->experts.n_ff_shared;
    widths[KEY_DIM] = shape->attention.key_dim;
    widths[HEADS] = shape->attention.n_heads;
    widths[LATENT] = shape->latent.dim;
    widths[LATENT_ROPE] = shape->latent.rope_dim;
    widths[LATENT_KEY] = shape->latent.key_dim;
    widths[LATENT_VALUE] = shape->latent.value_dim;
    widths[QUERY_LATENT] = shape->latent.query_dim;
    widths[HEADS_KEY_VALUE] =
        (int64_t)shape->attention.n_heads * (shape->latent.key_dim + shape->latent.value_dim);
    widths[INDEX_QUERY] = (int64_t)shape->index.n_heads * shape->index.key_dim;
    widths[INDEX_KEY] = shape->index.key_dim;
    widths[INDEX_HEADS] = shape->index.n_heads;
    widths[STREAMS] = (int64_t)shape->hyper.n * shape->n_embd;
    widths[STREAM_COUNT] = shape->hyper.n;
    widths[STREAM_RANK] = shape->hyper.rank;
    widths[NGRAM_DIM] = shape->ngram.head_dim;
    widths[NGRAM_WIDTH] =
        (int64_t)shape->ngram.head_dim * shape->ngram.n_heads_each * (shape->ngram.size - 1);
    widths[NGRAM_TAPS] = shape->ngram.n_taps;
    widths[STATE_CHANNELS] = shape->recurrent.n_channels;
    widths[STATE_INNER] = shape->recurrent.inner;
    widths[STATE_RANK] = shape->recurrent.rank;
    widths[STATE_KEYS] = shape->recurrent.key_dim;
    widths[STATE_GROUPS] = shape->recurrent.n_key_heads;
    widths[STATE_GROUP] =
        shape->recurrent.n_key_heads ? shape->recurrent.inner / shape->recurrent.n_key_heads : 0;
    widths[STATE_HEADS] = shape->recurrent.n_heads;
    widths[STATE_HEADS_TWICE] = 2 * (int64_t)shape->recurrent.n_heads;
    widths[STATE_VALUE] = shape->recurrent.value_dim;
    widths[STATE_TAPS] = shape->recurrent.n_taps;
}

// The widths in which layers may differ.
static void set_layer_widths(struct tensor_search *search, int32_t index)
{
    const struct model *model = search->model;
    struct layer_heads heads = model_layer_heads(model, index);
    int64_t *widths = search->widths;
    widths[FF] = model->layers[index].n_ff;
    if (!model->heads)
        return;
    widths[HEADS] = heads.n_heads;
    widths[QUERY] = (int64_t)heads.n_heads * heads.key_dim;
    widths[KEY] = (int64_t)heads.n_kv_heads * heads.key_dim;
    widths[VALUE] = (int64_t)heads.n_kv_heads * heads.value_dim;
    widths[HEADS_OUT] =
        model->layers[index].linear ? model->shape.n_embd : (int64_t)heads.n_heads * heads.value_dim;
    widths[KEY_DIM] = heads.key_dim;
}

// The slot's name in the family's files.
static const char *slot_name(const struct family *family, enum layer_slot slot)
{
    if (slot == SLOT_FFN_NORM && family->ffn_norm_as_post)
        return slots[SLOT_ATTN_POST_NORM].name;
    if (slot == SLOT_ATTN_POST_NORM && family->normed_after_sum)
        return "attn_output_norm";
    if (slot == SLOT_FFN_POST_NORM && family->normed_after_sum)
        return "layer_output_norm";
    return slots[slot].name;
}

// The norm of q or k: one vector for all heads, one for each head, or one over the full width.
static enum status take_qk_norm(struct tensor_search *search, const char *name, bool required,
                                enum layer_slot slot, struct tensor *out)
{
    int64_t n_heads = search->widths[slot == SLOT_ATTN_Q_NORM ? QUERY : KEY] / search->widths[KEY_DIM];
    if (slot == SLOT_ATTN_Q_NORM && search->model->shape.attention.gated)
        n_heads /= 2;
    const struct tensor *tensor = gguf_tensor(search->model->gguf, name);
    int64_t each[3] = {search->widths[KEY_DIM], n_heads, 1};
    if (search->model->family->qk_norm_full)
        return take_vector(search, name, required, n_heads * each[0], out);
    if (tensor && has_dims(tensor, each))
        return take_tensor(search, name, required, each, out);
    return take_vector(search, name, required, each[0], out);
}

// Whether the gate of attention's output has a row a head.
static bool is_gated_by_head(const struct tensor_search *search, const char *name)
{
    const struct tensor *tensor = gguf_tensor(search->model->gguf, name);
    return search->model->family->gated_by_head || (search->model->family->gated_by_softplus && tensor &&
                                                    tensor->dims[1] == (uint64_t)search->widths[HEADS]);
}

static enum status take_weight(struct tensor_search *search, int32_t index, enum layer_slot slot,
                               bool required)
{
    char name[NAME_BYTES];
    struct tensor *weight = &search->model->layers[index].tensors[slot];
    layer_name(name, index, slot_name(search->model->family, slot),
               slot == SLOT_ROUTER_SCALE ? "scale" : "weight");
    if (slot == SLOT_FFN_NORM && !gguf_tensor(search->model->gguf, name)) { // Falcon-H1's has no suffix
        char bare[NAME_BYTES];
        layer_name(bare, index, slots[slot].name, NULL);
        if (gguf_tensor(search->model->gguf, bare))
            layer_name(name, index, slots[slot].name, NULL);
    }
    if (slot == SLOT_ATTN_Q_NORM || slot == SLOT_ATTN_K_NORM)
        return take_qk_norm(search, name, required, slot, weight);
    int64_t dims[3];
    for (int i = 0; i < 3; i++)
        dims[i] = search->widths[slots[slot].dims[i]];
    if (slot == SLOT_ATTN_GATE && is_gated_by_head(search, name))
        dims[1] = search->widths[HEADS];
    if (model_slot_is_vector(slot))
        return take_vector(search, name, required, dims[0], weight);
    return take_matrix(search, name, required, dims, weight);
}

// A weight, and its bias if it has one.
static enum status take_slot(struct tensor_search *search, int32_t index, enum layer_slot slot, bool required)
{
    enum status status = take_weight(search, index, slot, required);
    const struct tensor *weight = &search->model->layers[index].tensors[slot];
    enum slot_kind kind = slots[slot].kind;
    const struct family *family = search->model->family;
    bool vector = model_slot_is_vector(slot);
    if (status != STATUS_OK || !weight->data || kind == MATRIX_UNBIASED || kind == VECTOR_UNBIASED ||
        (vector && search->model->shape.norm == NORM_RMS))
        return status;
    char name[NAME_BYTES];
    layer_name(name, index, slot_name(family, slot), "bias");
    bool biased = slot <= SLOT_OF_FAMILY_LAST && (family->biased & 1u << slot) != 0;
    int64_t n_items =
        vector ? (int64_t)(weight->dims[0] * weight->dims[1]) : search->widths[slots[slot].dims[1]];
    return take_vectors(search, name, biased, n_items, search->widths[slots[slot].dims[2]],
                        &search->model->layers[index].biases[slot]);
}

// The parts of a fused tensor, in order; `name` lacks ".weight" or ".bias".
struct fused {
    const char *name;
    bool has_bias;
    int n_parts;
    enum layer_slot parts[3];
};

static const struct fused fused_qkv = {"attn_qkv", true, 3, {SLOT_ATTN_Q, SLOT_ATTN_K, SLOT_ATTN_V}};
static const struct fused fused_gate_up = {"ffn_up", true, 2, {SLOT_FFN_GATE, SLOT_FFN_UP}};
static const struct fused fused_kv_a = {
    "attn_kv_a_mqa", false, 2, {SLOT_ATTN_KV_A_LATENT, SLOT_ATTN_KV_A_ROPE}};

static const struct fused fused_index = {
    "indexer.qk_proj", false, 2, {SLOT_INDEX_QUERY_EMBD, SLOT_INDEX_KEY_EMBD}};

static int64_t fused_rows(const struct tensor_search *search, const struct fused *fused)
{
    int64_t n_rows = 0;
    for (int i = 0; i < fused->n_parts; i++)
        n_rows += search->widths[slots[fused->parts[i]].dims[1]];
    return n_rows;
}

static enum status take_fused(struct tensor_search *search, int32_t index, const struct fused *fused)
{
    struct model_layer *layer = &search->model->layers[index];
    char name[NAME_BYTES];
    int64_t n_rows = fused_rows(search, fused);
    uint32_t biased = 0;
    for (int i = 0; i < fused->n_parts && fused->has_bias && !search->model->family->disentangled; i++)
        biased |= search->model->family->biased & 1u << fused->parts[i];
    struct tensor weight = {0}, bias = {0};
    layer_name(name, index, fused->name, "weight");
    enum status status =
        take_matrix(search, name, true, (int64_t[3]){search->widths[EMBD], n_rows, 1}, &weight);
    layer_name(name, index, fused->name, "bias");
    if (status == STATUS_OK && fused->has_bias)
        status = take_vector(search, name, biased != 0, n_rows, &bias);
    if (status != STATUS_OK)
        return status;
    int64_t first = 0;
    for (int i = 0; i < fused->n_parts; i++) {
        enum layer_slot slot = fused->parts[i];
        int64_t n = search->widths[slots[slot].dims[1]];
        layer->tensors[slot] = slice_tensor(&weight, first, n, false);
        if (bias.data)
            layer->biases[slot] = slice_tensor(&bias, first, n, true);
        first += n;
    }
    return STATUS_OK;
}

// Whether the layer's tensor of that name has as many rows as all parts together.
static bool is_fused(const struct tensor_search *search, int32_t index, const struct fused *fused)
{
    char name[NAME_BYTES];
    layer_name(name, index, fused->name, "weight");
    const struct tensor *tensor = gguf_tensor(search->model->gguf, name);
    return tensor && tensor->dims[1] == (uint64_t)fused_rows(search, fused);
}

// attn_qkv is always fused, so a wrong shape is reported for it, not as three missing tensors.
static bool has_qkv(const struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    layer_name(name, index, fused_qkv.name, "weight");
    return gguf_tensor(search->model->gguf, name) != NULL;
}

static void move_slot(struct model_layer *layer, enum layer_slot to, enum layer_slot from)
{
    layer->tensors[to] = layer->tensors[from];
    layer->biases[to] = layer->biases[from];
    layer->tensors[from] = layer->biases[from] = (struct tensor){0};
}

// If there are two norms, the file's attn_norm is the MLP's.
static void move_falcon_norms(struct model_layer *layer)
{
    move_slot(layer, SLOT_FFN_NORM, SLOT_ATTN_NORM);
    move_slot(layer, SLOT_ATTN_NORM, SLOT_ATTN_NORM_2);
}

// Takes the router's correction bias, which is added to the experts' probabilities for their selection; its
// tensor has no ".weight", and in files of Hunyuan 3 no ".bias" either.
static enum status take_pick_bias(struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    enum layer_slot slot = SLOT_ROUTER_PICK_BIAS;
    layer_name(name, index, slots[slot].name, NULL);
    if (!gguf_tensor(search->model->gguf, name))
        layer_name(name, index, slots[slot].name, "bias");
    return take_vector(search, name, false, search->widths[EXPERTS],
                       &search->model->layers[index].tensors[slot]);
}

// The tensors of latent attention. The projection from the latent to keys and values is either one matrix in
// the authors' order (attn_kv_b: for each head the key's rows, then the value's), or two matrices per head:
// attn_k_b, transposed, and attn_v_b.
static enum status take_latent(struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    layer_name(name, index, slots[SLOT_ATTN_KV_B].name, "weight");
    bool whole = gguf_tensor(search->model->gguf, name) != NULL;
    bool compressed = search->model->shape.latent.query_dim > 0;
    const struct {
        bool there;
        enum layer_slot slot;
    } weights[] = {
        {compressed, SLOT_ATTN_Q_A}, {compressed, SLOT_ATTN_Q_A_NORM}, {compressed, SLOT_ATTN_Q_B},
        {!compressed, SLOT_ATTN_Q},  {true, SLOT_ATTN_KV_A_NORM},      {whole, SLOT_ATTN_KV_B},
        {!whole, SLOT_ATTN_K_B},     {!whole, SLOT_ATTN_V_B},
    };
    enum status status = take_fused(search, index, &fused_kv_a);
    for (size_t i = 0; i < sizeof weights / sizeof *weights && status == STATUS_OK; i++)
        if (weights[i].there)
            status = take_weight(search, index, weights[i].slot, true);
    return status;
}

// The tensors of an indexer. A layer without one may have unused tensors.
static enum status take_index(struct tensor_search *search, int32_t index)
{
    static const enum layer_slot indexer[] = {SLOT_INDEX_QUERY, SLOT_INDEX_KEY, SLOT_INDEX_KEY_NORM,
                                              SLOT_INDEX_WEIGHTS};
    struct model_layer *layer = &search->model->layers[index];
    char name[NAME_BYTES];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof indexer / sizeof *indexer && status == STATUS_OK; i++) {
        status = take_weight(search, index, indexer[i], layer->indexed);
        if (!layer->indexed)
            layer->tensors[indexer[i]] = (struct tensor){0};
    }
    layer_name(name, index, slots[SLOT_INDEX_KEY_NORM].name, "bias");
    if (status == STATUS_OK)
        status = take_vector(search, name, layer->indexed, search->widths[INDEX_KEY],
                             &layer->biases[SLOT_INDEX_KEY_NORM]);
    if (!layer->indexed)
        layer->biases[SLOT_INDEX_KEY_NORM] = (struct tensor){0};
    return status;
}

// The tensors of an indexer of blocks.
static enum status take_block_index(struct tensor_search *search, int32_t index)
{
    static const enum layer_slot indexer[] = {SLOT_INDEX_QUERY_EMBD, SLOT_INDEX_KEY_EMBD,
                                              SLOT_INDEX_QUERY_NORM, SLOT_INDEX_KEY_NORM};
    struct model_layer *layer = &search->model->layers[index];
    bool fused = search->model->family->index_means;
    enum status status = layer->indexed && fused ? take_fused(search, index, &fused_index) : STATUS_OK;
    for (size_t i = fused ? 2 : 0; i < 4 && layer->indexed && status == STATUS_OK; i++)
        status = take_weight(search, index, indexer[i], true);
    move_slot(layer, SLOT_INDEX_QUERY, SLOT_INDEX_QUERY_EMBD);
    move_slot(layer, SLOT_INDEX_KEY, SLOT_INDEX_KEY_EMBD);
    return status;
}

// Biases beside a fused attn_qkv, and projections of relative positions.
static enum status take_disentangled(struct tensor_search *search, int32_t index)
{
    static const enum layer_slot biased[] = {SLOT_ATTN_Q, SLOT_ATTN_V};
    const struct disentangled_shape *shape = &search->model->shape.disentangled;
    struct model_layer *layer = &search->model->layers[index];
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        char name[NAME_BYTES];
        layer_name(name, index, slots[biased[i]].name, "bias");
        if (!layer->biases[biased[i]].data)
            status = take_vector(search, name, true, search->widths[slots[biased[i]].dims[1]],
                                 &layer->biases[biased[i]]);
    }
    if (status == STATUS_OK && shape->content_to_position && !shape->shared)
        status = take_slot(search, index, SLOT_ATTN_POSITION_K, true);
    if (status == STATUS_OK && shape->position_to_content && !shape->shared)
        status = take_slot(search, index, SLOT_ATTN_POSITION_Q, true);
    return status;
}

// Gate and up of all experts in one tensor: for each expert the rows of gate, then the rows of up. *found:
// the file has it.
static enum status take_gate_up_experts(struct tensor_search *search, int32_t index, bool *found)
{
    struct model_layer *layer = &search->model->layers[index];
    struct tensor both = {0};
    char name[NAME_BYTES];
    int64_t n_rows = search->widths[FF_EXPERT];
    layer_name(name, index, "ffn_gate_up_exps", "weight");
    enum status status =
        take_matrix(search, name, false,
                    (int64_t[3]){search->widths[EMBD_EXPERT], 2 * n_rows, search->widths[EXPERTS]}, &both);
    *found = both.data != NULL;
    if (status != STATUS_OK || !*found)
        return status;
    uint64_t half_bytes = (uint64_t)n_rows * tensor_row_bytes(&both);
    both.matrix_stride_bytes = 2 * half_bytes;
    both.dims[1] = (uint64_t)n_rows;
    both.size_bytes /= 2;
    layer->tensors[SLOT_GATE_EXPERTS] = layer->tensors[SLOT_UP_EXPERTS] = both;
    layer->tensors[SLOT_UP_EXPERTS].data = (const char *)both.data + half_bytes;
    return STATUS_OK;
}

// Tensors beside the slots of families: norms of experts beside an MLP, a layer's own input, alternating
// updates, and the factor of its output.
static enum status take_varied(struct tensor_search *search, int32_t index)
{
    static const enum layer_slot beside[] = {SLOT_ROUTER_SCALE, SLOT_FFN_POST_NORM_1, SLOT_FFN_NORM_2,
                                             SLOT_FFN_POST_NORM_2},
                                 inputs[] = {SLOT_INPUT_GATE, SLOT_INPUT_OUT, SLOT_INPUT_POST_NORM};
    const struct model_shape *shape = &search->model->shape;
    struct tensor scale = {0};
    char name[NAME_BYTES];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof beside / sizeof *beside && shape->experts.n && status == STATUS_OK; i++)
        status = take_weight(search, index, beside[i], true);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && shape->n_layer_input && status == STATUS_OK; i++)
        status = take_weight(search, index, inputs[i], true);
    for (int i = SLOT_ALTUP_ROUTER_NORM; i <= SLOT_LAUREL_POST_NORM && shape->altup.n && status == STATUS_OK;
         i++)
        status = take_weight(search, index, (enum layer_slot)i, true);
    layer_name(name, index, "layer_output_scale", "weight");
    if (status == STATUS_OK)
        status = take_vector(search, name, false, 1, &scale);
    if (status == STATUS_OK && scale.data)
        tensor_traits(scale.type)->dequantize(scale.data, &search->model->layers[index].output_scale, 1);
    return status;
}

// Norms of heads whose weights are all 1.
static void set_unit_norms(const struct tensor_search *search, struct model_layer *layer)
{
#define ONES_4 1.0f, 1.0f, 1.0f, 1.0f
#define ONES_64                                                                                              \
    ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4, ONES_4,  \
        ONES_4, ONES_4, ONES_4
    static const float ones[MODEL_HEAD_DIM_MAX] = {ONES_64, ONES_64, ONES_64, ONES_64, ONES_64, ONES_64,
                                                   ONES_64, ONES_64, ONES_64, ONES_64, ONES_64, ONES_64,
                                                   ONES_64, ONES_64, ONES_64, ONES_64};
    uint64_t n = (uint64_t)search->widths[KEY_DIM];
    layer->tensors[SLOT_ATTN_Q_NORM] = layer->tensors[SLOT_ATTN_K_NORM] =
        (struct tensor){.name = text_from_string("1"),
                        .type = TENSOR_F32,
                        .n_dims = 1,
                        .dims = {n, 1, 1, 1},
                        .data = ones,
                        .size_bytes = n * sizeof *ones};
}

struct wanted_slots {
    uint32_t required, optional; // bits of slots
};

// The tensors of a layer of its kind, before fused weights are looked for.
static struct wanted_slots choose_slots(const struct tensor_search *search, int32_t index)
{
    const struct family *family = search->model->family;
    const struct model_layer *layer = &search->model->layers[index];
    struct wanted_slots wanted = {family->required, family->optional};
    if (layer->kv_layer != index)
        wanted.required &= ~(uint32_t)UNSHARED;
    else if (family->values_normalized && !layer->windowed) {
        wanted.required &= ~(uint32_t)SLOT(ATTN_V);
        wanted.optional |= SLOT(ATTN_V);
    }
    if (family->residual == RESIDUAL_BY_FFN_NORM) { // the first layer decides for all
        wanted.optional &= ~(uint32_t)SLOT(FFN_NORM);
        if (!search->model->shape.parallel_residual)
            wanted.required |= SLOT(FFN_NORM);
    }
    if (layer->sparse) {
        wanted.required = (wanted.required & ~(uint32_t)(family->experts_beside_mlp ? 0 : MLP)) | MOE;
        if (search->model->shape.experts.n_ff_shared) {
            wanted.required |= SHARED_EXPERT;
            wanted.optional |= SLOT(SHARED_ROUTER);
        }
        if (search->model->shape.experts.n_latent)
            wanted.required |= SLOT(EXPERTS_IN) | SLOT(EXPERTS_OUT);
    }
    if (family->experts_plain)
        wanted.required &= ~(uint32_t)(SLOT(GATE_EXPERTS) | SLOT(SHARED_GATE));
    if (layer->n_ff == 0 && !layer->sparse)
        wanted.required &= ~(uint32_t)(MLP | SLOT(FFN_NORM));
    if (family->first_unnormed && index == 0) {
        wanted.required &= ~(uint32_t)SLOT(ATTN_NORM);
        wanted.optional |= SLOT(ATTN_NORM);
    }
    if (!layer->attends)
        wanted.required &= ~(uint32_t)ATTENTION;
    if (layer->linear)
        wanted.required |= SLOT(ATTN_OUT);
    else if (!layer->attends && family->layers_partial)
        wanted.required &= ~(uint32_t)SLOT(ATTN_NORM);
    if (family->normed_by_kind)
        wanted.required &= ~(uint32_t)(layer->recurrent ? POST_NORMS : PRE_NORMS);
    return wanted;
}

// What the family's layers have besides the slots of its table.
static enum status take_parts(struct tensor_search *search, int32_t index)
{
    const struct family *family = search->model->family;
    struct model_layer *layer = &search->model->layers[index];
    bool unit = search->model->shape.unit_head_norms && !layer->unrotated;
    enum status status = STATUS_OK;
    if (family->latent_attention && layer->attends)
        status = take_latent(search, index);
    if (status == STATUS_OK && family->indexed)
        status = take_index(search, index);
    if (status == STATUS_OK && (family->index_blocks || family->index_means))
        status = take_block_index(search, index);
    if (status == STATUS_OK && family->disentangled)
        status = take_disentangled(search, index);
    if (status == STATUS_OK && layer->recurrent)
        status = take_recurrent(search, index);
    if (status == STATUS_OK && family->hyper)
        status = take_hyper(search, index);
    if (status == STATUS_OK && (unit || family->unit_all_norms))
        set_unit_norms(search, layer);
    if (status == STATUS_OK && family->sub_norms)
        status = take_weight(search, index, SLOT_ATTN_SUB_NORM, true);
    if (status == STATUS_OK && family->sub_norms)
        status = take_weight(search, index, SLOT_FFN_SUB_NORM, true);
    if (status == STATUS_OK && family->plain_norms)
        layer->tensors[SLOT_ATTN_NORM] = layer->tensors[SLOT_FFN_NORM] = tensor_of_ones(search);
    if (status == STATUS_OK && family->layers_vary)
        status = take_varied(search, index);
    if (status == STATUS_OK && layer->tensors[SLOT_ATTN_NORM_2].data)
        move_falcon_norms(layer);
    if (status == STATUS_OK && !layer->attends && !layer->recurrent &&
        family->layer_kinds == LAYERS_SINGLE) // an MLP only
        move_slot(layer, SLOT_FFN_NORM, SLOT_ATTN_NORM);
    return status;
}

static enum status take_layer(struct tensor_search *search, int32_t index)
{
    set_layer_widths(search, index);
    struct wanted_slots wanted = choose_slots(search, index);
    uint32_t required = wanted.required, optional = wanted.optional;
    enum status status = STATUS_OK;
    if (search->model->layers[index].attends && has_qkv(search, index)) {
        required &= ~(uint32_t)QKV;
        status = take_fused(search, index, &fused_qkv);
    }
    if (status == STATUS_OK && (required & GATE_UP) == GATE_UP && is_fused(search, index, &fused_gate_up)) {
        required &= ~(uint32_t)GATE_UP;
        status = take_fused(search, index, &fused_gate_up);
    }
    bool both = false;
    if (status == STATUS_OK && (required & SLOT(GATE_EXPERTS)))
        status = take_gate_up_experts(search, index, &both);
    if (both)
        required &= ~(uint32_t)(SLOT(GATE_EXPERTS) | SLOT(UP_EXPERTS));
    for (int slot = 0; slot <= SLOT_OF_FAMILY_LAST && status == STATUS_OK; slot++) {
        uint32_t bit = 1u << slot;
        if ((required | optional) & bit)
            status = take_slot(search, index, (enum layer_slot)slot, (required & bit) != 0);
    }
    if (status == STATUS_OK && (required & SLOT(ROUTER)))
        status = take_pick_bias(search, index);
    return status == STATUS_OK ? take_parts(search, index) : status;
}

static int compare_pointers(const void *a, const void *b)
{
    const struct tensor *const *left = a, *const *right = b;
    return (*left > *right) - (*left < *right);
}

// Older files contain the rope frequencies of each layer, which the keys already give.
static bool is_redundant(struct text name)
{
    static const struct text suffix = {".attn_rot_embd.weight", sizeof ".attn_rot_embd.weight" - 1};
    return name.size > suffix.size &&
           memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size) == 0;
}

// Whether it belongs to the keys and values of a layer that reads another layer's.
static bool is_of_shared(const struct model *model, struct text name)
{
    static const char *const suffixes[] = {"attn_k.", "attn_v.", "attn_k_norm."};
    char prefix[48];
    for (int32_t i = 0; i < model->shape.n_layers; i++)
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes && model->layers[i].kv_layer != i; k++) {
            int size = snprintf(prefix, sizeof prefix, "blk.%" PRId32 ".%s", i, suffixes[k]);
            if (name.size > (size_t)size && memcmp(name.data, prefix, (size_t)size) == 0)
                return true;
        }
    return false;
}

// Layers after the last one predict further tokens, for speculation; the logits do not depend on them.
static bool is_beyond(const struct model *model, struct text name)
{
    char prefix[32];
    for (int32_t i = 0; i < model->shape.n_layers_beyond; i++) {
        int size = snprintf(prefix, sizeof prefix, "blk.%" PRId32 ".", model->shape.n_layers + i);
        if (name.size > (size_t)size && memcmp(name.data, prefix, (size_t)size) == 0)
            return true;
    }
    return false;
}

// A classifier or reranker beside the encoder, which embeddings do not need.
static bool is_of_head(const struct model *model, struct text name)
{
    static const char prefix[] = "cls.";
    return model->shape.bidirectional && name.size > sizeof prefix - 1 &&
           memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

static enum status refuse_left_over(struct tensor_search *search)
{
    const struct gguf *gguf = search->model->gguf;
    if (search->n_found == gguf_n_tensors(gguf))
        return STATUS_OK;
    qsort(search->found, search->n_found, sizeof(*search->found), compare_pointers);
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        if (is_redundant(tensor->name) || is_beyond(search->model, tensor->name) ||
            is_of_shared(search->model, tensor->name) || is_of_head(search->model, tensor->name) ||
            bsearch(&tensor, search->found, search->n_found, sizeof(*search->found), compare_pointers))
            continue;
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s has no place in family %s: without it the results would be wrong",
                         (int)(tensor->name.size < 128 ? tensor->name.size : 128), tensor->name.data,
                         search->model->family->name);
    }
    return STATUS_OK;
}

// Gives a layer the weights of the first.
static enum status share_layer(struct model *model, int32_t index)
{
    memcpy(model->layers[index].tensors, model->layers[0].tensors, sizeof model->layers[0].tensors);
    memcpy(model->layers[index].biases, model->layers[0].biases, sizeof model->layers[0].biases);
    return STATUS_OK;
}

enum status model_read_tensors(struct model *model, struct error *error)
{
    struct tensor_search search = {.model = model, .error = error};
    // No name is searched twice, so `found` needs at most one entry per tensor of the file.
    search.found = calloc(gguf_n_tensors(model->gguf) + 1, sizeof(*search.found));
    if (!search.found)
        return error_memory(error, STATUS_REFUSE, "%zu tensors", gguf_n_tensors(model->gguf));
    set_widths(&search);
    enum status status = take_globals(&search);
    for (int32_t i = 0; i < model->shape.n_layers && status == STATUS_OK; i++)
        status = i && model->shape.layers_shared ? share_layer(model, i) : take_layer(&search, i);
    if (status == STATUS_OK)
        status = refuse_left_over(&search);
    free(search.found);
    return status;
}

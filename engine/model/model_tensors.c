// Finds every tensor a family needs, checks its shape and type, cuts fused ones into slices, and makes sure
// that none is left over. Names: blk.N.NAME.weight and blk.N.NAME.bias as in gguf-py/gguf/constants.py of
// llama.cpp.
#include "engine/model/family.h"
#include "engine/model/model_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum width {
    ONE,
    EMBD,
    VOCABULARY,
    CONTEXT,
    QUERY,
    KEY,
    VALUE,
    HEADS_OUT,
    FF,
    EXPERTS,
    FF_EXPERT,
    FF_SHARED,
    KEY_DIM,
    HEADS,
    LATENT, // from here on: latent attention
    LATENT_ROPE,
    LATENT_KEY,
    LATENT_VALUE,
    QUERY_LATENT,
    HEADS_KEY_VALUE,
    DELTA_CHANNELS, // from here on: recurrent layers
    DELTA_INNER,
    DELTA_HEADS,
    DELTA_HEADS_TWICE,
    DELTA_VALUE,
    DELTA_TAPS,
    WIDTH_COUNT
};

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
    [SLOT_ATTN_POST_NORM] = {"post_attention_norm", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_FFN_NORM] = {"ffn_norm", VECTOR, {EMBD, ONE, ONE}},
    [SLOT_FFN_GATE] = {"ffn_gate", MATRIX, {EMBD, FF, ONE}},
    [SLOT_FFN_UP] = {"ffn_up", MATRIX, {EMBD, FF, ONE}},
    [SLOT_FFN_DOWN] = {"ffn_down", MATRIX, {FF, EMBD, ONE}},
    [SLOT_FFN_POST_NORM] = {"post_ffw_norm", VECTOR_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_ROUTER] = {"ffn_gate_inp", MATRIX, {EMBD, EXPERTS, ONE}},
    [SLOT_GATE_EXPERTS] = {"ffn_gate_exps", MATRIX, {EMBD, FF_EXPERT, EXPERTS}},
    [SLOT_UP_EXPERTS] = {"ffn_up_exps", MATRIX, {EMBD, FF_EXPERT, EXPERTS}},
    [SLOT_DOWN_EXPERTS] = {"ffn_down_exps", MATRIX, {FF_EXPERT, EMBD, EXPERTS}},
    [SLOT_SHARED_ROUTER] = {"ffn_gate_inp_shexp", MATRIX_UNBIASED, {EMBD, ONE, ONE}},
    [SLOT_SHARED_GATE] = {"ffn_gate_shexp", MATRIX_UNBIASED, {EMBD, FF_SHARED, ONE}},
    [SLOT_SHARED_UP] = {"ffn_up_shexp", MATRIX_UNBIASED, {EMBD, FF_SHARED, ONE}},
    [SLOT_SHARED_DOWN] = {"ffn_down_shexp", MATRIX_UNBIASED, {FF_SHARED, EMBD, ONE}},
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
    [SLOT_DELTA_QKV] = {"attn_qkv", MATRIX_UNBIASED, {EMBD, DELTA_CHANNELS, ONE}},
    [SLOT_DELTA_GATE] = {"attn_gate", MATRIX_UNBIASED, {EMBD, DELTA_INNER, ONE}},
    [SLOT_DELTA_BETA] = {"ssm_beta", MATRIX_UNBIASED, {EMBD, DELTA_HEADS, ONE}},
    [SLOT_DELTA_ALPHA] = {"ssm_alpha", MATRIX_UNBIASED, {EMBD, DELTA_HEADS, ONE}},
    [SLOT_DELTA_BETA_ALPHA] = {"ssm_ba", MATRIX_UNBIASED, {EMBD, DELTA_HEADS_TWICE, ONE}},
    [SLOT_DELTA_CONVOLUTION] = {"ssm_conv1d", VECTOR_UNBIASED, {DELTA_TAPS, DELTA_CHANNELS, ONE}},
    [SLOT_DELTA_STEP_BIAS] = {"ssm_dt", VECTOR_UNBIASED, {DELTA_HEADS, ONE, ONE}},
    [SLOT_DELTA_DECAY] = {"ssm_a", VECTOR_UNBIASED, {DELTA_HEADS, ONE, ONE}},
    [SLOT_DELTA_NORM] = {"ssm_norm", VECTOR_UNBIASED, {DELTA_VALUE, ONE, ONE}},
    [SLOT_DELTA_OUT] = {"ssm_out", MATRIX_UNBIASED, {DELTA_INNER, EMBD, ONE}},
};

enum {
    QKV = SLOT(ATTN_Q) | SLOT(ATTN_K) | SLOT(ATTN_V),
    ATTENTION = QKV | SLOT(ATTN_Q_NORM) | SLOT(ATTN_K_NORM) | SLOT(ATTN_OUT),
    GATE_UP = SLOT(FFN_GATE) | SLOT(FFN_UP),
    MLP = GATE_UP | SLOT(FFN_DOWN),
    MOE = SLOT(ROUTER) | SLOT(GATE_EXPERTS) | SLOT(UP_EXPERTS) | SLOT(DOWN_EXPERTS),
    SHARED_EXPERT = SLOT(SHARED_GATE) | SLOT(SHARED_UP) | SLOT(SHARED_DOWN),
};

_Static_assert(SLOT_OF_FAMILY_LAST < 32, "a family lists its slots in 32 bits");

enum { NAME_BYTES = 96 };

bool model_slot_is_vector(enum layer_slot slot)
{
    return slots[slot].kind == VECTOR || slots[slot].kind == VECTOR_UNBIASED;
}

// The search over one file; `found` collects the file's tensors that got a place.
struct tensor_search {
    struct model *model;
    struct error *error;
    int64_t widths[WIDTH_COUNT];
    const struct tensor **found;
    size_t n_found;
};

static void set_widths(struct tensor_search *search)
{
    const struct model_shape *shape = &search->model->shape;
    int64_t *widths = search->widths;
    widths[ONE] = 1;
    widths[EMBD] = shape->n_embd;
    widths[VOCABULARY] = shape->n_vocab;
    widths[CONTEXT] = shape->n_context;
    int32_t latent_rope = shape->attention.key_dim - shape->latent.dim;
    int32_t query_dim = shape->latent.dim ? shape->latent.key_dim + latent_rope : shape->attention.key_dim;
    widths[QUERY] = (int64_t)shape->attention.n_heads * query_dim * (shape->attention.gated ? 2 : 1);
    widths[KEY] = (int64_t)shape->attention.n_kv_heads * shape->attention.key_dim;
    widths[VALUE] = (int64_t)shape->attention.n_kv_heads * shape->attention.value_dim;
    widths[HEADS_OUT] = (int64_t)shape->attention.n_heads *
                        (shape->latent.dim ? shape->latent.value_dim : shape->attention.value_dim);
    widths[FF] = shape->n_ff;
    widths[EXPERTS] = shape->experts.n;
    widths[FF_EXPERT] = shape->experts.n_ff;
    widths[FF_SHARED] = shape->experts.n_ff_shared;
    widths[KEY_DIM] = shape->attention.key_dim;
    widths[HEADS] = shape->attention.n_heads;
    widths[LATENT] = shape->latent.dim;
    widths[LATENT_ROPE] = latent_rope;
    widths[LATENT_KEY] = shape->latent.key_dim;
    widths[LATENT_VALUE] = shape->latent.value_dim;
    widths[QUERY_LATENT] = shape->latent.query_dim;
    widths[HEADS_KEY_VALUE] =
        (int64_t)shape->attention.n_heads * (shape->latent.key_dim + shape->latent.value_dim);
    widths[DELTA_CHANNELS] = shape->delta.n_channels;
    widths[DELTA_INNER] = (int64_t)shape->delta.n_heads * shape->delta.value_dim;
    widths[DELTA_HEADS] = shape->delta.n_heads;
    widths[DELTA_HEADS_TWICE] = 2 * (int64_t)shape->delta.n_heads;
    widths[DELTA_VALUE] = shape->delta.value_dim;
    widths[DELTA_TAPS] = shape->delta.n_taps;
}

static bool has_dims(const struct tensor *tensor, const int64_t dims[3])
{
    return tensor->dims[0] == (uint64_t)dims[0] && tensor->dims[1] == (uint64_t)dims[1] &&
           tensor->dims[2] == (uint64_t)dims[2] && tensor->dims[3] == 1;
}

static enum status wrong_shape(struct tensor_search *search, const struct tensor *tensor,
                               const int64_t dims[3])
{
    char expected[64], got[64];
    struct tensor wanted = {.n_dims = dims[2] > 1   ? 3
                                      : dims[1] > 1 ? 2
                                                    : 1,
                            .dims = {(uint64_t)dims[0], (uint64_t)dims[1], (uint64_t)dims[2], 1}};
    tensor_shape_text(&wanted, expected);
    tensor_shape_text(tensor, got);
    return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: expected %s, file has %s",
                     (int)tensor->name.size, tensor->name.data, expected, got);
}

// Finds a tensor and records it in `found`. *tensor is NULL if it is absent, which is an error only if
// `required`.
static enum status find_tensor(struct tensor_search *search, const char *name, bool required,
                               const struct tensor **tensor)
{
    *tensor = gguf_tensor(search->model->gguf, name);
    if (!*tensor)
        return required
                   ? error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s is missing", name)
                   : STATUS_OK;
    search->found[search->n_found++] = *tensor;
    const struct tensor_traits *traits = tensor_traits((*tensor)->type);
    if (!traits->dequantize)
        return error_set(search->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tensor %s: type %s can't be computed with", name,
                         traits->name ? traits->name : "?");
    return STATUS_OK;
}

// Finds the factors of an NVFP4 matrix, in a tensor of their own: one, or one per expert. input_scale is for
// engines that quantize activations to NVFP4, too; it is accepted and not used.
static enum status take_scales(struct tensor_search *search, const char *name, struct tensor *out)
{
    char other[NAME_BYTES];
    const struct tensor *scales;
    const int stem = (int)(strlen(name) - strlen(".weight"));
    snprintf(other, sizeof other, "%.*s.input_scale", stem, name);
    enum status status = find_tensor(search, other, false, &scales);
    snprintf(other, sizeof other, "%.*s.scale", stem, name);
    if (status == STATUS_OK)
        status = find_tensor(search, other, false, &scales);
    if (status != STATUS_OK || !scales)
        return status;
    out->one_scale = has_dims(scales, (int64_t[3]){1, 1, 1});
    const int64_t each[3] = {(int64_t)out->dims[2], 1, 1};
    if (!out->one_scale && !has_dims(scales, each))
        return wrong_shape(search, scales, each);
    if (scales->type != TENSOR_F32)
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s: scales of type %s",
                         other, tensor_traits(scales->type)->name);
    out->scales = scales->data;
    return STATUS_OK;
}

// Finds a tensor and checks its dims. If it is absent and not required, *out is unchanged.
static enum status take_tensor(struct tensor_search *search, const char *name, bool required,
                               const int64_t dims[3], struct tensor *out)
{
    const struct tensor *tensor;
    enum status status = find_tensor(search, name, required, &tensor);
    if (status != STATUS_OK || !tensor)
        return status;
    if (!has_dims(tensor, dims))
        return wrong_shape(search, tensor, dims);
    *out = *tensor;
    return STATUS_OK;
}

static enum status take_matrix(struct tensor_search *search, const char *name, bool required,
                               const int64_t dims[3], struct tensor *out)
{
    enum status status = take_tensor(search, name, required, dims, out);
    return status == STATUS_OK && out->data ? take_scales(search, name, out) : status;
}

// Vectors are read item by item, so a type with blocks of several items is refused. n_vectors above 1: one
// per expert.
static enum status take_vectors(struct tensor_search *search, const char *name, bool required,
                                int64_t n_items, int64_t n_vectors, struct tensor *out)
{
    enum status status = take_tensor(search, name, required, (int64_t[3]){n_items, n_vectors, 1}, out);
    if (status == STATUS_OK && out->data && tensor_traits(out->type)->block_items != 1)
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %s: a vector of type %s can't be used", name,
                         tensor_traits(out->type)->name);
    return status;
}

static enum status take_vector(struct tensor_search *search, const char *name, bool required, int64_t n_items,
                               struct tensor *out)
{
    return take_vectors(search, name, required, n_items, 1, out);
}

// `kind` NULL: neither ".weight" nor ".bias".
static void layer_name(char name[NAME_BYTES], int32_t index, const char *slot, const char *kind)
{
    snprintf(name, NAME_BYTES, "blk.%" PRId32 ".%s%s%s", index, slot, kind ? "." : "", kind ? kind : "");
}

// The norm of q or k: one vector for all heads, one for each head, or one over the full width.
static enum status take_qk_norm(struct tensor_search *search, const char *name, bool required,
                                enum layer_slot slot, struct tensor *out)
{
    const struct model_shape *shape = &search->model->shape;
    int64_t n_heads = slot == SLOT_ATTN_Q_NORM ? shape->attention.n_heads : shape->attention.n_kv_heads;
    const struct tensor *tensor = gguf_tensor(search->model->gguf, name);
    int64_t each[3] = {shape->attention.key_dim, n_heads, 1};
    if (search->model->family->qk_norm_full)
        return take_vector(search, name, required, n_heads * shape->attention.key_dim, out);
    if (tensor && has_dims(tensor, each))
        return take_tensor(search, name, required, each, out);
    return take_vector(search, name, required, shape->attention.key_dim, out);
}

static enum status take_weight(struct tensor_search *search, int32_t index, enum layer_slot slot,
                               bool required)
{
    char name[NAME_BYTES];
    struct tensor *weight = &search->model->layers[index].tensors[slot];
    bool as_post = slot == SLOT_FFN_NORM && search->model->family->ffn_norm_as_post;
    layer_name(name, index, as_post ? slots[SLOT_ATTN_POST_NORM].name : slots[slot].name, "weight");
    if (slot == SLOT_ATTN_Q_NORM || slot == SLOT_ATTN_K_NORM)
        return take_qk_norm(search, name, required, slot, weight);
    int64_t dims[3];
    for (int i = 0; i < 3; i++)
        dims[i] = search->widths[slots[slot].dims[i]];
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
    if (status != STATUS_OK || !weight->data || kind == MATRIX_UNBIASED || kind == VECTOR_UNBIASED)
        return status;
    char name[NAME_BYTES];
    layer_name(name, index, slots[slot].name, "bias");
    bool biased = (search->model->family->biased & 1u << slot) != 0;
    bool vector = model_slot_is_vector(slot);
    int64_t n_items =
        vector ? (int64_t)(weight->dims[0] * weight->dims[1]) : search->widths[slots[slot].dims[1]];
    return take_vectors(search, name, biased, n_items, search->widths[slots[slot].dims[2]],
                        &search->model->layers[index].biases[slot]);
}

// Rows [first, first + n_rows) of a matrix, or items of a vector.
static struct tensor slice_tensor(const struct tensor *whole, int64_t first, int64_t n_rows, bool vector)
{
    struct tensor part = *whole;
    uint64_t row_bytes = vector ? tensor_traits(whole->type)->block_bytes : tensor_row_bytes(whole);
    part.data = (const char *)whole->data + (uint64_t)first * row_bytes;
    part.size_bytes = (uint64_t)n_rows * row_bytes;
    part.dims[vector ? 0 : 1] = (uint64_t)n_rows;
    return part;
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
    for (int i = 0; i < fused->n_parts && fused->has_bias; i++)
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
// tensor has no ".weight".
static enum status take_pick_bias(struct tensor_search *search, int32_t index)
{
    char name[NAME_BYTES];
    enum layer_slot slot = SLOT_ROUTER_PICK_BIAS;
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

// The tensors of a recurrent layer; ssm_a has no ".weight".
static enum status take_delta(struct tensor_search *search, int32_t index)
{
    bool tiled = search->model->shape.delta.tiled;
    const struct {
        bool there;
        enum layer_slot slot;
        const char *kind;
    } weights[] = {
        {true, SLOT_DELTA_QKV, "weight"},          {true, SLOT_DELTA_GATE, "weight"},
        {tiled, SLOT_DELTA_BETA, "weight"},        {tiled, SLOT_DELTA_ALPHA, "weight"},
        {!tiled, SLOT_DELTA_BETA_ALPHA, "weight"}, {true, SLOT_DELTA_CONVOLUTION, "weight"},
        {true, SLOT_DELTA_STEP_BIAS, "bias"},      {true, SLOT_DELTA_DECAY, NULL},
        {true, SLOT_DELTA_NORM, "weight"},         {true, SLOT_DELTA_OUT, "weight"},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof weights / sizeof *weights && status == STATUS_OK; i++) {
        enum layer_slot slot = weights[i].slot;
        struct tensor *out = &search->model->layers[index].tensors[slot];
        int64_t dims[3];
        char name[NAME_BYTES];
        if (!weights[i].there)
            continue;
        for (int j = 0; j < 3; j++)
            dims[j] = search->widths[slots[slot].dims[j]];
        layer_name(name, index, slots[slot].name, weights[i].kind);
        status = model_slot_is_vector(slot) ? take_vectors(search, name, true, dims[0], dims[1], out)
                                            : take_matrix(search, name, true, dims, out);
    }
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

static enum status take_layer(struct tensor_search *search, int32_t index)
{
    const struct family *family = search->model->family;
    uint32_t required = family->required, optional = family->optional;
    if (family->residual == RESIDUAL_BY_FFN_NORM) { // the first layer decides for all
        optional &= ~(uint32_t)SLOT(FFN_NORM);
        if (!search->model->shape.parallel_residual)
            required |= SLOT(FFN_NORM);
    }
    if (model_has_experts(&search->model->shape, index)) {
        required = (required & ~(uint32_t)MLP) | MOE;
        if (search->model->shape.experts.n_ff_shared) {
            required |= SHARED_EXPERT;
            optional |= SLOT(SHARED_ROUTER);
        }
    }
    enum status status = STATUS_OK;
    bool recurrent = search->model->layers[index].recurrent;
    if (recurrent)
        required &= ~(uint32_t)ATTENTION;
    if (!recurrent && has_qkv(search, index)) {
        required &= ~(uint32_t)QKV;
        status = take_fused(search, index, &fused_qkv);
    }
    if (status == STATUS_OK && (required & GATE_UP) == GATE_UP && is_fused(search, index, &fused_gate_up)) {
        required &= ~(uint32_t)GATE_UP;
        status = take_fused(search, index, &fused_gate_up);
    }
    for (int slot = 0; slot <= SLOT_OF_FAMILY_LAST && status == STATUS_OK; slot++) {
        uint32_t bit = 1u << slot;
        if ((required | optional) & bit)
            status = take_slot(search, index, (enum layer_slot)slot, (required & bit) != 0);
    }
    struct model_layer *layer = &search->model->layers[index];
    if (status == STATUS_OK && (required & SLOT(ROUTER)))
        status = take_pick_bias(search, index);
    if (status == STATUS_OK && family->latent_attention)
        status = take_latent(search, index);
    if (status == STATUS_OK && recurrent)
        status = take_delta(search, index);
    if (status == STATUS_OK && search->model->shape.unit_head_norms && !layer->unrotated)
        set_unit_norms(search, layer);
    if (status == STATUS_OK && layer->tensors[SLOT_ATTN_NORM_2].data)
        move_falcon_norms(layer);
    return status;
}

static enum status take_globals(struct tensor_search *search)
{
    struct model *model = search->model;
    const struct family *family = model->family;
    int64_t n_embd = search->widths[EMBD], n_vocab = search->widths[VOCABULARY];
    int64_t table[3] = {n_embd, n_vocab, 1}, positions[3] = {n_embd, search->widths[CONTEXT], 1};
    bool norm_biased = (family->biased & SLOT(ATTN_NORM)) != 0;
    enum status status = take_tensor(search, "token_embd.weight", true, table, &model->token_embd);
    if (status == STATUS_OK && family->has_position_embd)
        status = take_tensor(search, "position_embd.weight", true, positions, &model->position_embd);
    if (status == STATUS_OK && family->has_embd_norm)
        status = take_vector(search, "token_embd_norm.weight", true, n_embd, &model->embd_norm);
    if (status == STATUS_OK && family->has_embd_norm)
        status = take_vector(search, "token_embd_norm.bias", norm_biased, n_embd, &model->embd_norm_bias);
    if (status == STATUS_OK)
        status = take_vector(search, "output_norm.weight", true, n_embd, &model->output_norm);
    if (status == STATUS_OK)
        status = take_vector(search, "output_norm.bias", norm_biased, n_embd, &model->output_norm_bias);
    if (status == STATUS_OK)
        status = take_matrix(search, "output.weight", false, table, &model->output);
    if (status == STATUS_OK)
        status = take_vector(search, "output.bias", family->has_output_bias, n_vocab, &model->output_bias);
    if (status == STATUS_OK && !model->output.data)
        model->output = model->token_embd; // tied
    const struct tensor *rope;             // read before, by model_read_rope
    static const char *const ropes[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    for (int i = 0; i < 3 && status == STATUS_OK && family->rope_style != ROPE_NONE; i++)
        status = find_tensor(search, ropes[i], false, &rope);
    return status;
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

static enum status refuse_left_over(struct tensor_search *search)
{
    const struct gguf *gguf = search->model->gguf;
    if (search->n_found == gguf_n_tensors(gguf))
        return STATUS_OK;
    qsort(search->found, search->n_found, sizeof(*search->found), compare_pointers);
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        if (is_redundant(tensor->name) || is_beyond(search->model, tensor->name) ||
            bsearch(&tensor, search->found, search->n_found, sizeof(*search->found), compare_pointers))
            continue;
        return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s has no place in family %s: without it the results would be wrong",
                         (int)(tensor->name.size < 128 ? tensor->name.size : 128), tensor->name.data,
                         search->model->family->name);
    }
    return STATUS_OK;
}

enum status model_read_tensors(struct model *model, struct error *error)
{
    struct tensor_search search = {.model = model, .error = error};
    // No name is searched twice, so `found` needs at most one entry per tensor of the file.
    search.found = calloc(gguf_n_tensors(model->gguf) + 1, sizeof(*search.found));
    if (!search.found)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for %zu tensors",
                         gguf_n_tensors(model->gguf));
    set_widths(&search);
    enum status status = take_globals(&search);
    for (int32_t i = 0; i < model->shape.n_layers && status == STATUS_OK; i++)
        status = take_layer(&search, i);
    if (status == STATUS_OK)
        status = refuse_left_over(&search);
    free(search.found);
    return status;
}

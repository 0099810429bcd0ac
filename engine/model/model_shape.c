#include "engine/model/family.h"
#include "engine/model/model_parts.h"
#include "schemas/base/elementary.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Latent attention. Which keys of a file have which dims:
//                   with *_mla                          without
//   of a head       key_length_mla, value_length_mla    key_length, value_length
//   in the pages    key_length, value_length
static void read_latent(struct key_reader *reader, struct model_shape *shape)
{
    shape->latent.dim = read_size(reader, "attention.kv_lora_rank", -1, 1, MODEL_HEAD_DIM_MAX);
    shape->latent.query_dim = read_size(reader, "attention.q_lora_rank", 0, 0, MODEL_WIDTH_MAX);
    int32_t key_dim = read_size(reader, "attention.key_length", -1, 2, MODEL_HEAD_DIM_MAX);
    int32_t value_dim =
        read_size(reader, "attention.value_length", shape->attention.value_dim, 1, MODEL_HEAD_DIM_MAX);
    key_dim = read_size_or_none(reader, "attention.key_length_mla", key_dim, 2, MODEL_HEAD_DIM_MAX);
    shape->latent.value_dim =
        read_size_or_none(reader, "attention.value_length_mla", value_dim, 1, MODEL_HEAD_DIM_MAX);
    int32_t n_rope = read_size(reader, "rope.dimension_count", -1, 2, key_dim > 2 ? key_dim - 1 : 2);
    shape->latent.key_dim = key_dim - n_rope;
    shape->latent.rope_dim = n_rope;
    shape->attention.n_kv_heads = 1;
    shape->attention.key_dim = n_rope + shape->latent.dim;
    shape->attention.value_dim = shape->latent.dim;
    if (reader->status == STATUS_OK && shape->attention.key_dim > MODEL_HEAD_DIM_MAX)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "a latent of %d and %d rotated dimensions: together at most %d",
                                   shape->latent.dim, n_rope, MODEL_HEAD_DIM_MAX);
}

static int32_t read_largest(struct key_reader *reader, const struct model *model, const char *suffix,
                            int32_t otherwise, int32_t most)
{
    int32_t n_layers = sizes_vary(model->family) ? model->shape.n_layers : 1, largest = 1,
            least = model->family->layers_vary || !sizes_vary(model->family) ? 1 : 0;
    for (int32_t layer = 0; layer < n_layers && reader->status == STATUS_OK; layer++) {
        int32_t size = read_layer_size(reader, model, suffix, layer, otherwise, least, most);
        largest = size > largest ? size : largest;
    }
    return largest;
}

static void read_heads(struct key_reader *reader, struct model *model)
{
    struct model_shape *shape = &model->shape;
    if (model->family->layer_kinds == LAYERS_RECURRENT) { // files have 0 heads
        shape->attention.n_heads = shape->attention.n_kv_heads = 1;
        shape->attention.key_dim = shape->attention.value_dim = 1;
        return;
    }
    shape->attention.n_heads = model->family->heads_vary
                                   ? read_largest(reader, model, "attention.head_count", -1, MODEL_HEADS_MAX)
                                   : read_size(reader, "attention.head_count", -1, 1, MODEL_HEADS_MAX);
    shape->attention.n_kv_heads = read_largest(reader, model, "attention.head_count_kv",
                                               shape->attention.n_heads, shape->attention.n_heads);
    if (reader->status != STATUS_OK)
        return;
    if (shape->attention.n_heads % shape->attention.n_kv_heads != 0 && !model->family->heads_vary) {
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%d heads can't be shared evenly by %d key-value heads",
                                   shape->attention.n_heads, shape->attention.n_kv_heads);
        return;
    }
    int32_t even =
        shape->n_embd % shape->attention.n_heads == 0 ? shape->n_embd / shape->attention.n_heads : -1;
    shape->attention.key_dim = read_size(reader, "attention.key_length", even, 1, MODEL_HEAD_DIM_MAX);
    shape->attention.value_dim = read_size(reader, "attention.value_length", even, 1, MODEL_HEAD_DIM_MAX);
}

static bool has_pick_bias(const struct key_reader *reader, int32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", layer);
    return strcmp(reader->family, "deepseek2") == 0 && gguf_tensor(reader->gguf, name);
}

static void read_routing(struct key_reader *reader, struct model_shape *shape)
{
    enum { ABSENT, SOFTMAX, SIGMOID }; // llama.cpp, src/llama-hparams.h
    int32_t kind = read_size(reader, "expert_gating_func", ABSENT, ABSENT, SIGMOID);
    if (kind != ABSENT)
        shape->experts.route_kind = kind == SIGMOID ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    else if (has_pick_bias(reader, shape->n_layers - 1)) // DeepSeek V2 has none; GLM-4.7-Flash lacks the key
        shape->experts.route_kind = ROUTE_SIGMOID;
    shape->experts.scale = read_number(reader, "expert_weights_scale", 1.0f, NULL);
    shape->experts.scale = shape->experts.scale != 0.0f ? shape->experts.scale : 1.0f;
    shape->experts.n_layers_dense = read_size(reader, "leading_dense_block_count", 0, 0, shape->n_layers);
    int32_t n_shared = read_size(reader, "expert_shared_count", 0, 0, MODEL_EXPERTS_MAX);
    int64_t width = (int64_t)n_shared * shape->experts.n_ff; // several shared experts: one wide expert
    if (shape->experts.n_ff_shared == 0 && width <= MODEL_WIDTH_MAX)
        shape->experts.n_ff_shared = (int32_t)width;
    else if (shape->experts.n_ff_shared == 0 && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "%d shared experts of width %d: together at most %d", n_shared,
                                   shape->experts.n_ff, MODEL_WIDTH_MAX);
    int32_t n_groups = read_size(reader, "expert_group_count", 1, 0, ROUTE_GROUPS_MAX);
    n_groups = n_groups < 1 ? 1 : n_groups;
    int32_t n_used = read_size(reader, "expert_group_used_count", n_groups, 0, n_groups);
    n_used = n_used < 1 ? n_groups : n_used;
    shape->experts.n_groups = n_groups;
    shape->experts.n_groups_used = n_used;
    if (reader->status == STATUS_OK &&
        (shape->experts.n % n_groups != 0 || shape->experts.n / n_groups * n_used < shape->experts.n_used))
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%d experts can't be picked from %d of %d groups of %d experts",
                                   shape->experts.n_used, n_used, n_groups, shape->experts.n);
}

static void read_experts(struct key_reader *reader, const struct family *family, struct model_shape *shape)
{
    shape->experts.n = read_size(reader, "expert_count", 0, 0, MODEL_EXPERTS_MAX);
    if (reader->status != STATUS_OK || shape->experts.n == 0)
        return;
    if (!family->experts_allowed) {
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "expert_count: family %s has no experts, file has %d", family->name, shape->experts.n);
        return;
    }
    int32_t most = shape->experts.n < MODEL_EXPERTS_USED_MAX ? shape->experts.n : MODEL_EXPERTS_USED_MAX;
    shape->experts.n_used = read_size(reader, "expert_used_count", -1, 1, most);
    shape->experts.n_ff =
        read_size_or_none(reader, "expert_feed_forward_length", shape->n_ff, 1, MODEL_WIDTH_MAX);
    shape->experts.n_ff_shared =
        read_size(reader, "expert_shared_feed_forward_length", 0, 0, MODEL_WIDTH_MAX);
    // Where engines of GGUF ignore expert_weights_norm, files may have any value; folders write
    // norm_topk_prob.
    shape->experts.normalized =
        read_bool(reader, family->norm_by_key ? "expert_weights_norm" : "norm_topk_prob",
                  family->experts_normalized);
    shape->experts.route_kind = family->route_kind;
    shape->experts.scale = 1.0f;
    shape->experts.n_groups = shape->experts.n_groups_used = 1;
    shape->experts.every =
        family->experts_interleaved
            ? read_size_or_none(reader, "interleave_moe_layer_step", 1, 1, MODEL_LAYERS_MAX)
            : 1;
    shape->experts.weighs_inputs = family->experts_weigh_inputs;
    shape->experts.n_latent = read_size(reader, "moe_latent_size", 0, 0, MODEL_WIDTH_MAX);
    shape->experts.logits_softcap = read_number(reader, "router_logit_softcapping", 0.0f, NULL);
    if (family->shared_expert)
        shape->experts.n_ff_shared = shape->experts.n_ff;
    if (family->routed_by_keys)
        read_routing(reader, shape);
    shape->experts.shared_scale = 1.0f;
    if (family->shared_averaged && shape->experts.n_ff_shared &&
        read_bool(reader, "expert_shared_averaged", true)) {
        shape->experts.shared_scale = 0.5f;
        shape->experts.scale *= 0.5f;
    }
}

// 0, of the file or `otherwise`: none.
static float read_scale(struct key_reader *reader, const char *suffix, double otherwise)
{
    float scale = read_number(reader, suffix, 0.0f, NULL);
    scale = scale != 0.0f ? scale : (float)otherwise;
    return scale != 0.0f ? scale : 1.0f;
}

static void read_scales(struct key_reader *reader, const struct family *family, struct model_shape *shape)
{
    bool wide = family->n_layers_wide_scale && family->n_layers_wide_scale == shape->n_layers;
    int32_t width = wide ? shape->n_embd / shape->attention.n_heads : shape->attention.key_dim;
    if (family->latent_attention) // the width of a head's query before its projection into the latent
        width += shape->latent.key_dim - shape->latent.dim;
    shape->attention.scale =
        read_number(reader, "attention.scale", family->values_normalized || family->attention_unscaled, NULL);
    if (shape->attention.scale == 0.0f) // absent, or 0 as in Granite's files: the usual scale
        shape->attention.scale = (float)(1.0 / sqrt((double)width));
    shape->attention.value_scale = read_scale(reader, "attention.value_scale", 1.0);
    shape->attention.softcap = read_number(reader, "attn_logit_softcapping", 0.0f, NULL);
    shape->scales.logits_softcap = read_number(reader, "final_logit_softcapping", 0.0f, NULL);
    shape->scales.embedding = read_scale(reader, "embedding_scale",
                                         family->embedding_by_width ? sqrt((double)shape->n_embd)
                                                                    : (double)family->embedding_scale);
    shape->scales.residual =
        read_scale(reader, "residual_scale", (double)family->residual_depth / sqrt((double)shape->n_layers));
    shape->scales.logits =
        read_scale(reader, "logit_scale",
                   family->logit_width > 0.0f ? (double)shape->n_embd / (double)family->logit_width : 1.0);
    if (family->logit_scale_divides)
        shape->scales.logits = 1.0f / shape->scales.logits;
    shape->attention.alibi_bias_max =
        read_number(reader, "attention.max_alibi_bias", family->alibi_bias_max, NULL);
    const char *epsilons[] = {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"};
    bool found, has_rms = read_number(reader, epsilons[0], 0.0f, NULL) != 0.0f;
    shape->norm = family->norm_by_epsilon && has_rms ? NORM_RMS : family->norm;
    const char *epsilon = epsilons[shape->norm == NORM_LAYER];
    shape->norm_epsilon = read_number(reader, epsilon, 0.0f, &found);
    if (!found && family->norm == NORM_LAYER) // Phi-3.5-MoE has the other key
        shape->norm_epsilon = read_number(reader, epsilons[0], 0.0f, &found);
    shape->post_norm_epsilon = read_number(reader, "attention.post_norm_epsilon", shape->norm_epsilon, NULL);
    if (reader->status != STATUS_OK)
        return;
    if (!found)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s.%s is missing",
                                   reader->family, epsilon);
    else if (shape->norm_epsilon < 0.0f || !(shape->post_norm_epsilon >= 0.0f) ||
             shape->attention.softcap < 0.0f || shape->scales.logits_softcap < 0.0f ||
             shape->attention.alibi_bias_max < 0.0f || !isfinite(shape->scales.logits))
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "norm epsilon %g, soft caps %g and %g, ALiBi bias %g, logit scale %g: can't be used",
                      (double)shape->norm_epsilon, (double)shape->attention.softcap,
                      (double)shape->scales.logits_softcap, (double)shape->attention.alibi_bias_max,
                      (double)shape->scales.logits);
}

// Reads which layers are windowed. The pattern is a number n (layers n-1, 2n-1, ... have full attention) or
// one truth value per layer (true: windowed).
static void read_windows(struct key_reader *reader, const struct family *family, struct model *model)
{
    struct model_shape *shape = &model->shape;
    shape->window.n_positions = read_size(reader, "attention.sliding_window", family->window, 0, INT32_MAX);
    if (reader->status != STATUS_OK || shape->window.n_positions == 0)
        return;
    shape->window.chunked = family->window_chunked;
    struct gguf_array truths = {0};
    if (find_layer_truths(reader, "attention.sliding_window_pattern", shape->n_layers, shape->n_layers_beyond,
                          &truths)) {
        for (int32_t i = 0; i < shape->n_layers; i++)
            model->layers[i].windowed = gguf_array_integer(&truths, (size_t)i) != 0;
        return;
    }
    if (reader->status != STATUS_OK)
        return;
    int32_t pattern =
        read_size(reader, "attention.sliding_window_pattern", family->window_pattern, 0, MODEL_LAYERS_MAX);
    shape->window.pattern = pattern;
    for (int32_t i = 0; i < shape->n_layers; i++)
        model->layers[i].windowed =
            pattern < 2 || (family->full_first ? i % pattern > 0 : i % pattern < pattern - 1);
}

// Whether the layer has no key-value heads; layers that have some have the same number.
static bool has_no_heads(struct key_reader *reader, const struct model *model, int32_t layer)
{
    bool latent =
        model->shape.latent.dim; // files count the heads of the latent, which is one, or of the keys
    int32_t n_most = latent ? model->shape.attention.n_heads : model->shape.attention.n_kv_heads;
    int32_t n = read_layer_size(reader, model, "attention.head_count_kv", layer, n_most, 0, n_most);
    if (n != 0 && n != n_most && !latent && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "layer %d: %d key-value heads; expected %d, as in other layers, or 0",
                                   layer, n, n_most);
    return n == 0;
}

static bool has_experts(const struct model *model, int32_t layer)
{
    const struct experts_shape *experts = &model->shape.experts;
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
    if (model->family->experts_by_tensors)
        return experts->n && gguf_tensor(model->gguf, name);
    return experts->n && layer >= experts->n_layers_dense && (layer + 1) % experts->every == 0;
}

// A layer without key-value heads has a recurrence, or an MLP or experts and nothing else. *dense: the width of
// the MLPs, which all have the same; 0: none was read yet.
static void read_single(struct key_reader *reader, struct model *model, int32_t index, int32_t *dense)
{
    struct model_layer *layer = &model->layers[index];
    layer->n_ff = read_layer_size(reader, model, "feed_forward_length", index, 0, 0, model->shape.n_ff);
    layer->recurrent = layer->recurrent && layer->n_ff == 0;
    if (*dense == 0 && !has_experts(model, index))
        *dense = layer->n_ff;
    bool fits = layer->n_ff == 0 || (!layer->attends && (layer->n_ff == *dense || has_experts(model, index)));
    if (!fits && reader->status == STATUS_OK)
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "layer %d: an MLP of width %d%s; expected one of %d, as in other layers, and "
                      "no attention",
                      index, layer->n_ff, layer->attends ? " and attention" : "", *dense);
}

// Reads which layers have attention, a recurrence and an MLP, and numbers the layers with attention and the
// recurrent ones. LAYERS_BY_INTERVAL: a truth value for each, or every n-th layer has attention (llama.cpp,
// src/models/qwen35.cpp).
static void read_layer_kinds(struct key_reader *reader, const struct family *family, struct model *model)
{
    enum { INTERVAL = 4 };
    struct model_shape *shape = &model->shape;
    struct gguf_array truths = {0};
    int32_t n_all = shape->n_layers + shape->n_layers_beyond, interval = 0, dense = 0, n_attending = 0;
    bool by_interval = family->layer_kinds == LAYERS_BY_INTERVAL;
    bool given = by_interval && find_layer_truths(reader, "attention.recurrent_layers", n_all, 0, &truths);
    if (by_interval && !given)
        interval = read_size(reader, "full_attention_interval", INTERVAL, 1, MODEL_LAYERS_MAX);
    for (int32_t i = 0; i < shape->n_layers && reader->status == STATUS_OK; i++) {
        struct model_layer *layer = &model->layers[i];
        if (by_interval)
            layer->recurrent = given ? gguf_array_integer(&truths, (size_t)i) != 0 : (i + 1) % interval != 0;
        else if (family->layer_kinds == LAYERS_BY_HEADS || family->layer_kinds == LAYERS_SINGLE)
            layer->recurrent = has_no_heads(reader, model, i);
        layer->attends = !layer->recurrent;
        if (family->layers_partial)
            layer->attends = model->heads[i].n_kv_heads > 0;
        if (family->layer_kinds == LAYERS_BOTH || family->layer_kinds == LAYERS_RECURRENT)
            layer->recurrent = true;
        if (family->layer_kinds == LAYERS_RECURRENT)
            layer->attends = false, layer->n_ff = 0;
        if (family->layer_kinds == LAYERS_SINGLE)
            read_single(reader, model, i, &dense);
        layer->sparse = has_experts(model, i);
        layer->state = layer->recurrent ? shape->recurrent.n_layers++ : 0;
        layer->store = layer->attends ? shape->attention.n_layers++ : 0;
        if (family->layers_partial) // pages are found by the layer
            n_attending += layer->attends, layer->store = i,
                                           shape->attention.n_layers = n_attending ? i + 1 : 0;
        if (shape->bidirectional) // pages hold the keys and values of one layer at a time
            layer->store = 0, shape->attention.n_layers = 1;
    }
    if (shape->bidirectional && model->heads && reader->status == STATUS_OK)
        share_pages(reader, model);
    shape->n_ff = dense ? dense : shape->n_ff;
    bool needed = family->layer_kinds != LAYERS_RECURRENT;
    if (reader->status == STATUS_OK && shape->attention.n_layers == 0 && needed)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "none of %d layers has attention: expected at least one", shape->n_layers);
}

// The keys have no family's name. The coefficients are softplus of what they hold, the negative one plus beta.
static void read_xielu(struct key_reader *reader, struct model *model)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    size_t n_layers = (size_t)model->shape.n_layers;
    struct gguf_array arrays[4];
    for (int i = 0; i < 4 && reader->status == STATUS_OK; i++) {
        bool found = false;
        reader->status = gguf_array(reader->gguf, keys[i], &arrays[i], &found, reader->error);
        if (reader->status == STATUS_OK &&
            (!found || arrays[i].kind != GGUF_F32 || arrays[i].n_items < n_layers))
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                       "%s: expected a number for each of %zu layers", keys[i], n_layers);
    }
    for (size_t i = 0; i < n_layers && reader->status == STATUS_OK; i++) {
        double numbers[4];
        bool finite = true;
        for (int j = 0; j < 4; j++) {
            numbers[j] = gguf_array_number(&arrays[j], i);
            finite = finite && fabs(numbers[j]) < 80.0;
        }
        if (!finite || numbers[3] > 0.0)
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                       "xielu of layer %zu: %g, %g, %g and %g can't be used", i, numbers[0],
                                       numbers[1], numbers[2], numbers[3]);
        else
            model->layers[i].xielu =
                (struct xielu){.positive = (float)elementary_log(1.0 + elementary_exp(numbers[0])),
                               .negative =
                                   (float)(numbers[2] + elementary_log(1.0 + elementary_exp(numbers[1]))),
                               .beta = (float)numbers[2],
                               .epsilon = (float)numbers[3]};
    }
}

static void set_unrotated(struct key_reader *reader, struct model *model)
{
    const struct family *family = model->family;
    struct gguf_array truths = {0};
    bool listed = find_layer_truths(reader, "rope.unrotated_layers", model->shape.n_layers, 0, &truths);
    for (int32_t i = 0; i < model->shape.n_layers; i++)
        model->layers[i].unrotated =
            (listed && gguf_array_integer(&truths, (size_t)i) != 0) ||
            (family->unrotated_every && (i + 1) % family->unrotated_every == 0) ||
            (family->unwindowed_unrotated && model->shape.window.n_positions && !model->layers[i].windowed &&
             !(family->dense_rotated && i < model->shape.experts.n_layers_dense));
}

// Refuses keys that would change the computation in a way that is not implemented, unless they have a neutral
// value.
static void refuse_unknown_arithmetic(struct key_reader *reader, const struct family *family)
{
    static const struct {
        const char *suffix;
        int32_t neutral;     // allowed, as is 0
        bool latent, routed; // the key is read by families with latent attention, with routed experts
        bool beyond;         // with layers for speculation
    } integers[] = {
        {"expert_gating_func", 1, false, true, false},
        {"expert_group_count", 1, false, true, false},
        {"leading_dense_block_count", 0, false, true, false},
        {"nextn_predict_layers", 0, false, false, true},
        {"expert_shared_count", 0, false, true, false},
        {"attention.q_lora_rank", 0, true, false, false},
        {"attention.kv_lora_rank", 0, true, false, false},
        {"interleave_moe_layer_step", 1, false, false, false},
        {"moe_latent_size", 0, false, false, false},
    };
    static const struct {
        const char *suffix;
        float neutral; // allowed, as is 0
        bool routed;
        bool headed; // with heads that vary
    } numbers[] = {{"attention.clamp_kqv", 0.0f, false, false},
                   {"expert_weights_scale", 1.0f, true, false},
                   {"attention.value_scale", 1.0f, false, true},
                   {"router_logit_softcapping", 0.0f, false, true}};
    const char *format = "%s.%s is %g, which this version can't compute in that family";
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int32_t value = read_integer(reader, integers[i].suffix, 0, NULL);
        bool known =
            (integers[i].latent && family->latent_attention) ||
            (strcmp(integers[i].suffix, "interleave_moe_layer_step") == 0 && family->experts_interleaved) ||
            (strcmp(integers[i].suffix, "moe_latent_size") == 0 && family->experts_latent) ||
            (integers[i].routed && family->routed_by_keys) || (integers[i].beyond && family->layers_beyond);
        if (value != 0 && value != integers[i].neutral && !known && reader->status == STATUS_OK)
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, format, reader->family,
                                       integers[i].suffix, (double)value);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        float value = read_number(reader, numbers[i].suffix, 0.0f, NULL);
        bool known =
            (numbers[i].routed && family->routed_by_keys) || (numbers[i].headed && family->heads_vary);
        if (value != 0.0f && value != numbers[i].neutral && !known && reader->status == STATUS_OK)
            reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, format, reader->family,
                                       numbers[i].suffix, (double)value);
    }
}

// A token without an embedding row would be read outside the table. Rows without a token are padding.
static enum status check_vocabulary(const struct model *model, struct error *error)
{
    struct gguf_array tokens = {0};
    enum status status = gguf_array(model->gguf, "tokenizer.ggml.tokens", &tokens, NULL, error);
    if (status == STATUS_OK && tokens.n_items > (size_t)model->shape.n_vocab)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor token_embd.weight: %d rows for %zu tokens", model->shape.n_vocab,
                         tokens.n_items);
    return status;
}

// Names as in transformers, activations.py.
static enum activation_kind read_activation(struct key_reader *reader, const char *suffix,
                                            enum activation_kind otherwise)
{
    static const struct {
        const char *name;
        enum activation_kind kind;
    } kinds[] = {
        {"silu", ACTIVATION_SILU},           {"swish", ACTIVATION_SILU},
        {"gelu", ACTIVATION_GELU},           {"gelu_new", ACTIVATION_GELU_TANH},
        {"gelu_fast", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"relu2", ACTIVATION_RELU_SQUARED},  {"relu", ACTIVATION_RELU},
        {"tanh", ACTIVATION_TANH},
    };
    struct text name = {0};
    bool found = false;
    char key[128];
    key_name(reader, suffix, key);
    if (reader->status == STATUS_OK)
        reader->status = gguf_text(reader->gguf, key, &name, &found, reader->error);
    if (reader->status != STATUS_OK || !found)
        return otherwise;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (text_equals_string(name, kinds[i].name))
            return kinds[i].kind;
    reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s \"%.*s\" is not known",
                               key, (int)(name.size < 64 ? name.size : 64), name.data);
    return otherwise;
}

// The file's attention.causal, else the family's kind of attention. A family that is always an encoder has no
// causal variant.
static void read_direction(struct key_reader *reader, const struct family *family, struct model_shape *shape)
{
    bool causal = read_bool(reader, "attention.causal", !family->bidirectional);
    if (causal && family->bidirectional && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s.attention.causal is true, which this version can't compute in that "
                                   "family",
                                   reader->family);
    if (!causal && (family->recurrent || family->window_chunked) && reader->status == STATUS_OK)
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "%s.attention.causal is false, which this version can't compute in a family "
                      "with recurrent layers or windows in chunks",
                      reader->family);
    shape->bidirectional = !causal;
}

static void read_disentangled(struct key_reader *reader, const struct family *family,
                              struct model_shape *shape)
{
    struct disentangled_shape *out = &shape->disentangled;
    if (!family->disentangled)
        return;
    out->content_to_position = read_bool(reader, "attention.content_to_position", false);
    out->position_to_content = read_bool(reader, "attention.position_to_content", false);
    out->shared = read_bool(reader, "attention.relative_projections_shared", false);
    out->normed = read_bool(reader, "attention.relative_embedding_normed", false);
    out->n_buckets = read_size(reader, "attention.relative_buckets_count", 0, 0, MODEL_RELATIVE_MAX);
    out->distance_max =
        read_size(reader, "attention.relative_distance_max", shape->n_context, 1, MODEL_RELATIVE_MAX);
    if (out->content_to_position || out->position_to_content)
        out->n_rows = 2 * (out->n_buckets ? out->n_buckets : out->distance_max);
    shape->convolution.n_taps = read_size(reader, "convolution_taps", 0, 0, MODEL_TAPS_MAX);
    shape->convolution.activation = read_activation(reader, "convolution_activation", ACTIVATION_TANH);
    bool fits = shape->convolution.n_taps == 0 || (shape->convolution.n_taps % 2 && shape->n_layers > 1);
    bool grows = out->n_buckets == 0 || (out->n_buckets > 1 && out->distance_max > out->n_buckets / 2 + 1);
    if (reader->status == STATUS_OK && (!fits || !grows))
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                      "%d buckets for distances below %d, a convolution of %d taps in %d layers: "
                      "can't be computed",
                      out->n_buckets, out->distance_max, shape->convolution.n_taps, shape->n_layers);
}

static void read_residual(struct key_reader *reader, const struct family *family, struct model_shape *shape)
{
    switch (family->residual) {
    case RESIDUAL_SERIAL:
        break;
    case RESIDUAL_PARALLEL:
        shape->parallel_residual = true;
        break;
    case RESIDUAL_BY_KEY:
        shape->parallel_residual = read_bool(reader, "use_parallel_residual", true);
        break;
    case RESIDUAL_BY_FFN_NORM:
        shape->parallel_residual = !gguf_tensor(reader->gguf, "blk.0.ffn_norm.weight");
        break;
    }
}

enum status model_read_shape(struct model *model, struct error *error)
{
    const struct family *family = model->family;
    struct model_shape *shape = &model->shape;
    const struct tensor *embedding = gguf_tensor(model->gguf, "token_embd.weight");
    if (!embedding)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         gguf_n_tensors(model->gguf) ? "tensor token_embd.weight is missing"
                                                     : "the file holds a vocabulary but no tensors");
    if (embedding->dims[1] < 1 || embedding->dims[1] > MODEL_VOCABULARY_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tensor token_embd.weight: expected 1 to %d rows, file has %llu",
                         MODEL_VOCABULARY_MAX, (unsigned long long)embedding->dims[1]);
    struct key_reader reader = {.gguf = model->gguf, .family = family->name, .error = error};
    shape->n_vocab = (int32_t)embedding->dims[1];
    shape->n_layers = read_size(&reader, "block_count", -1, 1, MODEL_LAYERS_MAX);
    if (family->layers_beyond) {
        shape->n_layers_beyond =
            read_size(&reader, "nextn_predict_layers", 0, 0, shape->n_layers > 1 ? shape->n_layers - 1 : 0);
        shape->n_layers -= shape->n_layers_beyond;
    }
    shape->n_embd = read_size(&reader, "embedding_length", -1, 1, MODEL_WIDTH_MAX);
    shape->n_context = read_size(&reader, "context_length", -1, 1, MODEL_CONTEXT_MAX);
    shape->n_context_original = read_size_or_none(&reader, "rope.scaling.original_context_length",
                                                  shape->n_context, 1, MODEL_CONTEXT_MAX);
    bool has_experts; // files without dense layers may give only their experts' width
    int32_t n_ff_expert = read_integer(&reader, "expert_feed_forward_length", -1, &has_experts);
    if (family->layer_kinds != LAYERS_RECURRENT)
        shape->n_ff = read_largest(&reader, model, "feed_forward_length", has_experts ? n_ff_expert : -1,
                                   MODEL_WIDTH_MAX);
    read_heads(&reader, model);
    shape->attention.gated = family->gated_attention;
    if (shape->attention.gated && shape->attention.key_dim != shape->attention.value_dim &&
        reader.status == STATUS_OK)
        reader.status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                  "gated attention: heads of %d and %d dimensions; expected as many",
                                  shape->attention.key_dim, shape->attention.value_dim);
    if (family->latent_attention && reader.status == STATUS_OK)
        read_latent(&reader, shape);
    read_experts(&reader, family, shape);
    read_scales(&reader, family, shape);
    read_residual(&reader, family, shape);
    bool plain = family->t5_names && !gguf_tensor(model->gguf, "enc.blk.0.ffn_gate.weight") &&
                 !gguf_tensor(model->gguf, "blk.0.ffn_gate.weight"); // llama.cpp's rule
    shape->activation =
        read_activation(&reader, "hidden_activation", plain ? ACTIVATION_RELU : family->activation);
    read_direction(&reader, family, shape);
    read_disentangled(&reader, family, shape);
    if (family->varies_embedding) {
        shape->n_embd_table = read_size(&reader, "embedding_table_length", 0, 0, MODEL_WIDTH_MAX);
        shape->layers_shared = read_bool(&reader, "layers_shared", false);
    }
    enum { RELATIVE_DISTANCE = 128 }; // T5's and MPNet's
    shape->relative_distance_max =
        read_size(&reader, "attention.relative_distance_max", RELATIVE_DISTANCE, 1, MODEL_RELATIVE_MAX);
    // Llama 4 Maverick, with 128 experts, has none.
    shape->unit_head_norms =
        family->unit_head_norms && read_bool(&reader, "use_qk_norm", shape->experts.n != 128);
    refuse_unknown_arithmetic(&reader, family);
    read_recurrent(&reader, family, shape);
    if (reader.status != STATUS_OK)
        return reader.status;
    model->layers = calloc((size_t)shape->n_layers, sizeof *model->layers);
    if (!model->layers)
        return error_memory(error, STATUS_REFUSE, "%d layers", shape->n_layers);
    read_windows(&reader, family, model);
    if (shape->activation == ACTIVATION_XIELU)
        read_xielu(&reader, model);
    read_layers(&reader, model);
    read_index(&reader, model);
    read_limits(&reader, model, "swiglu_clamp_exp", false);
    read_limits(&reader, model, "swiglu_clamp_shexp", true);
    read_altup(&reader, model);
    read_layer_kinds(&reader, family, model);
    read_hyper(&reader, model);
    set_unrotated(&reader, model);
    return reader.status == STATUS_OK ? check_vocabulary(model, error) : reader.status;
}

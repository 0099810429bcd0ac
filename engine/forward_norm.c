#include "engine/forward_parts.h"

void pass_normalize_rows(struct pass *pass, struct matrix *out, const struct matrix *in,
                         const struct weight *weight, const struct weight *bias, float epsilon, bool consumed)
{
    struct norm_parameters parameters = {.kind = pass->shape->norm,
                                         .weight = weight,
                                         .bias = bias,
                                         .epsilon = epsilon,
                                         .n_groups = 1,
                                         .consumed = consumed};
    pass->operations->norm(pass->backend, out, in, pass->n_rows, &parameters);
}

void pass_normalize(struct pass *pass, struct matrix *out, const struct matrix *in,
                    const struct forward_layer *layer, enum layer_slot slot, bool consumed)
{
    bool after = slot == SLOT_ATTN_POST_NORM || slot == SLOT_FFN_POST_NORM;
    pass_normalize_rows(pass, out, in, layer->weights[slot], layer->biases[slot],
                        after ? pass->shape->post_norm_epsilon : pass->shape->norm_epsilon, consumed);
}

void pass_normalize_heads(struct pass *pass, struct matrix *x, int32_t layer, enum layer_slot slot,
                          int32_t n_heads)
{
    const struct forward_layer *weights = &pass->forward->layers[layer];
    const struct tensor *tensor = &pass->forward->model->layers[layer].tensors[slot];
    if (!weights->weights[slot])
        return;
    bool full = tensor->dims[0] != (uint64_t)model_layer_heads(pass->forward->model, layer).key_dim;
    struct norm_parameters parameters = {.kind = pass->shape->norm,
                                         .weight = weights->weights[slot],
                                         .bias = weights->biases[slot],
                                         .epsilon = pass->shape->norm_epsilon,
                                         .n_groups = full ? 1 : n_heads,
                                         .own_weights = tensor->dims[1] > 1};
    pass->operations->norm(pass->backend, x, x, pass->n_rows, &parameters);
}

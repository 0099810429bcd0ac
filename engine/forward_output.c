// The head between the output's norm and the output matrix (ModernBERT's decoder):
//
//   normed = norm(activation(W normed + b))
//
// Source: github.com/huggingface/transformers, models/modernbert_decoder, ModernBertDecoderPredictionHead.
#include "engine/forward_parts.h"

#include "engine/model/family.h"

#include <stddef.h>

void output_head_run(struct pass *pass, bool consumed)
{
    const struct forward *forward = pass->forward;
    struct matrix *branch = forward->matrices.branch;
    struct product dense = {branch, forward->output_head, forward->output_head_bias, NULL};
    struct norm_parameters norm = {.kind = forward->model->family->norm,
                                   .weight = forward->output_head_norm,
                                   .bias = forward->output_head_norm_bias,
                                   .epsilon = pass->shape->norm_epsilon,
                                   .n_groups = 1,
                                   .consumed = consumed};
    pass->operations->products(pass->backend, &dense, 1, pass->normed, pass->n_rows);
    pass->operations->activate(pass->backend, branch, branch, NULL, pass->n_rows, ACTIVATION_GELU);
    pass->operations->norm(pass->backend, pass->normed, branch, pass->n_rows, &norm);
}

// What a forward pass holds: the model's weights in the backend and the matrices of a step. Made and freed by
// forward_create.c, used by forward.c; private to both.
#pragma once

#include "engine/forward.h"

// One layer's weights, field by field those of struct model_layer; absent: NULL.
struct forward_layer {
    struct weight *attn_norm, *attn_norm_bias, *attn_q, *attn_k, *attn_v, *attn_q_bias, *attn_k_bias,
        *attn_v_bias;
    struct weight *attn_q_norm, *attn_k_norm, *attn_q_norm_bias, *attn_k_norm_bias;
    struct weight *attn_out, *attn_out_bias, *attn_post_norm, *attn_sinks;
    struct weight *ffn_norm, *ffn_norm_bias, *ffn_gate, *ffn_up, *ffn_down;
    struct weight *ffn_gate_bias, *ffn_up_bias, *ffn_down_bias, *ffn_post_norm;
    struct weight *router, *router_bias, *gate_experts, *up_experts, *down_experts;
    struct weight *shared_router, *shared_gate, *shared_up, *shared_down;
};

// R: rows of a step, P: R x experts used, O: output rows. A matrix the model has no use for is NULL.
struct forward_matrices {
    struct matrix *x, *normed,
        *branch; // [R, n_embd] residual stream, norm's output, attention's or MLP's output
    struct matrix *q, *k, *v, *heads;   // [R, heads x their dim]
    struct matrix *gate, *up;           // [R, n_ff], also the shared expert's
    struct matrix *router;              // [R, n_experts]
    struct matrix *pair_gate, *pair_up; // [P, n_ff_expert]
    struct matrix *pair_down;           // [P, n_embd]
    struct matrix *shared;              // [R, n_embd]
    struct matrix *shared_router;       // [R, 1]
    struct matrix *out_x, *out_normed;  // [O, n_embd]
    struct matrix *out_heads;           // [O, n_heads x value_dim]
    struct matrix *logits;              // [O, n_vocab]
};

struct forward {
    const struct model *model;
    struct backend *backend;
    struct forward_limits limits;
    struct forward_layer *layers; // [n_layers]
    struct weight *token_embd, *position_embd, *embd_norm, *embd_norm_bias;
    struct weight *output_norm, *output_norm_bias, *output, *output_bias;
    struct forward_matrices matrices;
    float *rope[2]; // [n_rows_max, n_rope_dims] of the step's rows
};

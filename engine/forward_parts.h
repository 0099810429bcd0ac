// Private state of a forward pass: the model's weights in the backend and the matrices of a step. Created and
// destroyed by forward_create.c, used by forward.c, forward_recurrent.c and forward_latent.c.
#pragma once

#include "engine/forward.h"
#include "engine/model/model.h"

// A layer's weights in the backend, by the slots of struct model_layer; NULL: absent.
struct forward_layer {
    struct weight *weights[SLOT_COUNT], *biases[SLOT_COUNT];
    struct adapter_weights *adapters[SLOT_COUNT];    // [n_sets]; NULL: the slot has none
    struct weight *position_queries, *position_keys; // [heads, rows, key_dim] (forward_disentangled.c)
};

// R: tokens of a step, P: R x experts used, O: outputs. NULL: the model does not use the matrix.
struct latent_matrices {
    struct matrix *rope;         // [R, n_rope_dims] the key's rotated dimensions
    struct matrix *query;        // [R, query_dim]
    struct matrix *head_queries; // [R, heads x (key_dim + n_rope_dims)]
    struct matrix *head_values;  // [R, heads x value_dim]
};

// The indexer of sparse attention.
struct index_matrices {
    struct matrix *query;   // [R, heads x key_dim]
    struct matrix *key;     // [R, key_dim]
    struct matrix *weights; // [R, heads]
};

// Disentangled attention, and the convolution of the embedding. T: rows of a step, or of the longest text.
struct disentangled_matrices {
    struct matrix *queries; // [R, heads x relative embeddings]
    struct matrix *keys;    // [T, heads x relative embeddings]
    struct matrix *taps;    // [T, taps x n_embd]
};

// Layers with gated attention, and recurrent layers.
struct gated_matrices {
    struct matrix *query_gate; // [R, heads x 2 key_dim]
    struct matrix *gate;       // [R, heads x value_dim]
};

// Recurrent layers.
struct state_matrices {
    struct matrix *input, *convolved; // [R, n_channels]
    struct matrix *gate, *heads;      // [R, inner]
    struct matrix *beta, *step;       // [R, heads]; step of a selective scan, or for each channel: [R, inner]
    struct matrix *beta_step;         // [R, 2 heads]
    struct matrix *step_low;          // [R, rank] from which step is projected
    struct matrix *gate_low;          // [R, rank] from which gate is projected
    struct matrix *b, *c;             // [R, inner] gates of a short convolution; else [R, key_dim]
    struct matrix *branch;            // [R, n_embd] of a layer with attention, too
};

struct expert_matrices {
    struct matrix *router;                  // [R, n]
    struct matrix *pair_gate, *pair_up;     // [P, n_ff]
    struct matrix *latent;                  // [R, n_latent]
    struct matrix *pair_down;               // [P, n_embd or n_latent]
    struct matrix *shared_gate, *shared_up; // [R, n_ff_shared]
    struct matrix *shared;                  // [R, n_embd]
    struct matrix *shared_router;           // [R, 1]
};

// Inputs of the layers (forward_inputs.c); L: layers x n_layer_input.
struct input_matrices {
    struct matrix *all;         // [R, L] of all layers
    struct matrix *table;       // [R, L] rows of the table
    struct matrix *own, *gate;  // [R, n_layer_input] the layer's input, and its gate
    struct matrix *own_outputs; // [O, n_layer_input]
};

// Alternating updates (forward_altup.c); A: altup.n.
struct altup_matrices {
    struct matrix *streams, *predictions; // [R, A x n_embd]
    struct matrix *modalities;            // [R, A]
    struct matrix *predict, *correct;     // [R, A x A], [R, A] coefficients
    struct matrix *laurel_low;            // [R, laurel_rank]
    struct matrix *laurel;                // [R, n_embd]
    struct matrix *laurel_outputs;        // [O, n_embd]
};

// Hyper-connections (forward_hyper.c); S: streams x n_embd.
struct hyper_matrices {
    struct matrix *streams, *spare, *mixed; // [R, S]
    struct matrix *low;                     // [R, rank]
    struct matrix *gates, *gate_outputs;    // [R, streams], [O, streams]
    struct matrix *ngrams;                  // [R, heads x head_dim] n-gram embeddings
    struct matrix *value;                   // [R, n_embd]
};

struct output_matrices {
    struct matrix *x, *normed; // [O, n_embd]
    struct matrix *heads;      // [O, n_heads x value_dim]
    struct matrix *states;     // [O, inner] of a recurrent last layer
    struct matrix *logits;     // [O, n_vocab]
};

struct forward_matrices {
    struct matrix *x, *normed,
        *branch;               // [R, n_embd] residual stream, norm's output, attention's or MLP's output
    struct matrix *table_rows; // [R, n_embd_table] embeddings before their projection
    struct matrix *q, *k, *v, *heads; // [R, heads x their dim]
    struct matrix *gate, *up;         // [R, n_ff]
    struct matrix *low[PRODUCTS_MAX]; // [R, rank rounded up] between the halves of adapters
    struct latent_matrices latent;
    struct index_matrices index;
    struct disentangled_matrices disentangled;
    struct gated_matrices gated;
    struct state_matrices state;
    struct expert_matrices experts;
    struct input_matrices input;
    struct altup_matrices altup;
    struct hyper_matrices hyper;
    struct output_matrices out;
};

// The rows of a step grouped by adapter set. Rows whose set is empty are in no group. The arrays are NULL if the model
// has no adapters.
struct adapted_rows {
    struct adapter_rows *groups; // [n_sets]
    int32_t *rows;               // [n_tokens_max] or [n_outputs_max], which the groups share
    int n_groups;
};

struct forward {
    const struct model *model;
    struct backend *backend;
    struct forward_limits limits;
    struct forward_layer *layers; // [n_layers]
    struct weight *token_embd, *position_embd, *token_types, *embd_norm, *embd_norm_bias, *relative_bias;
    struct weight *output_norm, *output_norm_bias, *output, *output_bias;
    struct weight *output_head, *output_head_bias, *output_head_norm, *output_head_norm_bias;
    struct weight *layer_embd, *layer_embd_proj, *layer_embd_norm;
    struct weight *altup_proj, *altup_unembd_proj;
    struct weight *hyper_norm, *hyper_low, *hyper_mix;
    struct weight *convolution, *convolution_bias, *convolution_norm, *convolution_norm_bias;
    struct weight *embd_proj, *embd_proj_bias;
    int32_t *distance_buckets;               // [2 n_context + 1], of disentangled attention; NULL: none
    struct adapter_weights *output_adapters; // [n_sets]; NULL: none
    struct adapted_rows adapted[2];          // of all rows of a step, of its output rows
    struct forward_matrices matrices;
    float *rope[2]; // [n_tokens_max, n_dims of the table] of the step's rows
};

// State of a forward pass through the layers. In the last layer with keys and values of its own `n_rows` is
// reduced to the output rows.
struct pass {
    const struct forward *forward;
    const struct backend_operations *operations;
    struct backend *backend;
    const struct step *step;
    const struct model_shape *shape;
    int32_t n_rows;
    const struct adapted_rows *adapted;            // of the current rows
    struct matrix *x, *normed, *heads, *states;    // current matrices: all rows or the output rows
    struct matrix *streams, *predictions, *laurel; // the same, of alternating updates
    struct matrix *spare, *gates;                  // of hyper-connections, with `streams`
};

// Adapters (forward_adapter.c).
// Creates the weights of all adapters of the model.
enum status adapters_load(struct forward *forward, struct error *error) WARN_UNUSED;
void adapters_unload(struct forward *forward);
// Sets forward->adapted to the step's rows.
void adapters_group_rows(struct forward *forward, const struct step *step);
// Computes products of the same x with their adapters.
void pass_multiply(const struct pass *pass, const struct product *products, int n, const struct matrix *x);
static inline void pass_multiply_one(const struct pass *pass, struct product product, const struct matrix *x)
{
    pass_multiply(pass, &product, 1, x);
}
// y = the slot's weight * x + its bias + its adapters.
static inline struct product slot_product(struct matrix *y, const struct forward_layer *layer,
                                          enum layer_slot slot)
{
    return (struct product){.y = y,
                            .weight = layer->weights[slot],
                            .bias = layer->biases[slot],
                            .adapters = layer->adapters[slot]};
}

// Inputs of the layers (forward_inputs.c).
// Computes the inputs of all layers, from the embedded tokens.
void inputs_compute(const struct pass *pass);
// branch = the layer's input, gated by x and projected.
void inputs_project(const struct pass *pass, int32_t index, const struct matrix *x);

// Alternating updates (forward_altup.c). A layer calls altup_predict, altup_add_laurel and altup_correct; x
// is the active part of the residual stream.
void altup_begin(struct pass *pass); // makes the other parts from the embedded tokens
void altup_predict(struct pass *pass, int32_t index);
// laurel = the low-rank branch of `input`, which the layer's attention reads, too.
void altup_make_laurel(struct pass *pass, int32_t index, const struct matrix *input);
void altup_keep_outputs(struct pass *pass); // reduces the parts and laurel to the output rows
void altup_add_laurel(struct pass *pass);
void altup_correct(struct pass *pass, int32_t index); // with the layer's own input
void altup_end(struct pass *pass);                    // x = mean of all parts

// Hyper-connections (forward_hyper.c).
void hyper_begin(struct pass *pass); // all streams = x
// normed = the input of the layer's attention or recurrence, or of its MLP; with the gates of the result.
void hyper_enter(struct pass *pass, int32_t index, bool feeds_forward);
void hyper_leave(struct pass *pass);        // adds branch to the streams
void hyper_keep_outputs(struct pass *pass); // reduces the streams and gates to the output rows
void hyper_end(struct pass *pass); // x = the streams merged and normalized: the input of the output weight
void ngrams_add(struct pass *pass, int32_t index); // adds the layer's n-gram embeddings to the streams

// Autotuning (forward_tune.c), after `ready`.
enum status forward_tune(struct forward *forward, struct error *error) WARN_UNUSED;

// Norms (forward_norm.c). `consumed`: see struct norm_parameters.
void pass_normalize_rows(struct pass *pass, struct matrix *out, const struct matrix *in,
                         const struct weight *weight, const struct weight *bias, float epsilon,
                         bool consumed);
// out = the norm of a slot of the layer, of `in`.
void pass_normalize(struct pass *pass, struct matrix *out, const struct matrix *in,
                    const struct forward_layer *layer, enum layer_slot slot, bool consumed);
// Normalizes in place, per head or over the full width: the shape of the norm's weight decides.
void pass_normalize_heads(struct pass *pass, struct matrix *x, int32_t layer, enum layer_slot slot,
                          int32_t n_heads);

// The parts of a pass (forward.c), for forward_text.c and forward_tune.c. After pass_begin the backend's end must follow.
enum { PASS_QUERIES = 1, PASS_KEYS = 2 }; // keys and values
// `stops`: see struct step.
struct pass pass_begin(struct forward *forward, struct step *step, bool stops);
void pass_embed(struct pass *pass);
// A layer; PASS_KEYS: only its keys and values, to the pages; PASS_QUERIES: all but these.
void pass_run_layer(struct pass *pass, int32_t index, unsigned parts);
// branch = the layer's MLP, its experts, or both (forward_mlp.c).
void pass_feed_forward(struct pass *pass, int32_t index, const struct matrix *input);
// Begins the step and enqueues everything up to the outputs.
struct pass pass_enqueue_layers(struct forward *forward, struct step *step, bool stops);
// Reads the hidden states of the pass's rows, after the output norm.
void pass_read_hidden(struct pass *pass, float *hidden);

// normed = the head of normed (forward_output.c). `consumed`: see struct norm_parameters.
void output_head_run(struct pass *pass, bool consumed);

// Biases by distance (relative_bias.c) from the model's tensor of buckets.
enum status relative_bias_create(struct forward *forward, struct error *error) WARN_UNUSED;
uint64_t relative_bias_bytes(const struct model *model);
static inline int32_t relative_bias_center(const struct model_shape *shape)
{
    return shape->n_context - 1 + 16;
}

// Disentangled attention and the convolution of the embedding (forward_disentangled.c).
// Projects the relative positions with the weights of all layers. Called when the backend is ready.
enum status disentangled_load(struct forward *forward, struct error *error) WARN_UNUSED;
void disentangled_unload(struct forward *forward);
uint64_t disentangled_bytes(const struct model *model); // of the projections
// Computes the terms of the rows' queries and keys.
void disentangled_project(const struct pass *pass, int32_t index, unsigned parts);
struct disentangled_terms disentangled_terms(const struct forward *forward);
// x of layer 0 is the embedding, then the layer's output, to which the convolution is added.
void convolution_begin(const struct pass *pass);
void convolution_add(const struct pass *pass);

// Latent attention (forward_latent.c).
// Creates SLOT_ATTN_K_B and SLOT_ATTN_V_B of a layer whose file has both in one matrix, SLOT_ATTN_KV_B.
enum status latent_split(struct forward *forward, int32_t index, struct error *error) WARN_UNUSED;
// Bytes of these two weights in the backend.
uint64_t latent_split_bytes(const struct model *model, struct backend *backend, int32_t index);
// QKV projection, before rope; and what the layer's indexer selects, if it has one.
void latent_project(const struct pass *pass, int32_t index, const struct matrix *input);
// Projects the attention output, sums of latents, to the heads' outputs.
struct matrix *latent_values(const struct pass *pass, const struct forward_layer *layer);

// The indexer of sparse attention (forward_index.c).
// Stores a layer's keys, from their products in matrices.index.key, and selects positions if a row sees more than
// n_selected. `query_input`: input of the projection of queries; `input`: input of the layer.
void index_select(const struct pass *pass, int32_t index, const struct matrix *query_input,
                  const struct matrix *input);
// The same in a layer without latent attention, with the product of the keys.
void index_run(const struct pass *pass, int32_t index, const struct matrix *input);

// Recurrent layers (forward_recurrent.c).
// Creates the weights of a layer that are transposed: the taps of convolutions, decays for each state item.
enum status recurrent_load(struct forward *forward, int32_t index, struct error *error) WARN_UNUSED;
bool recurrent_is_transposed(const struct model *model, enum layer_slot slot);
struct state_shape recurrent_state_shape(const struct model_shape *shape, int32_t n_slots);
// Computes the layer up to its output product; the result is in matrices.state.heads.
void recurrent_run(const struct pass *pass, int32_t index, const struct matrix *input);

// A model family is data: the tensors of a layer, and flags of the one forward pass. To add a family, add a
// row to family.c; a family that does something new needs an operation or a flag, too. Names and conventions
// follow GGUF files: github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py. Thread: any; everything is
// constant.
#pragma once

#include "engine/model/model.h"

#define SLOT(name) (1u << SLOT_##name) // for slots up to SLOT_OF_FAMILY_LAST

enum residual_kind {
    RESIDUAL_SERIAL,
    RESIDUAL_PARALLEL,    // attention and MLP read the same input
    RESIDUAL_BY_KEY,      // by the file's use_parallel_residual
    RESIDUAL_BY_FFN_NORM, // parallel if the layers have no ffn_norm
};

// Which layers have attention, and which a recurrence.
enum layer_kinds {
    LAYERS_ATTEND,      // all have attention
    LAYERS_BY_INTERVAL, // every n-th has attention, the others a recurrence; or the file's keys say which
    LAYERS_BY_HEADS,    // those without key-value heads (an array of the file) have a recurrence
    LAYERS_RECURRENT,   // all have a recurrence, and neither attention nor an MLP
    LAYERS_BOTH,        // all have both
    LAYERS_SINGLE, // as LAYERS_BY_HEADS, but those with an MLP (another array) have nothing else, and the others no MLP
};

// A row of the table in family.c. Flat, not grouped, because the table is read row by row.
struct family {
    const char *name; // general.architecture
    enum norm_kind norm;
    enum activation_kind activation; // unless the file's hidden_activation names another
    enum rope_style rope_style;
    bool rope_by_key;        // the file's rope.scaling.finetuned says whether queries and keys are rotated
    bool halves_by_sections; // files with M-RoPE's sections have ROPE_HALVES (GLM-4.1V)
    enum residual_kind residual;
    uint32_t required, optional; // weights of a layer, by SLOT()
    uint32_t biased;             // weights whose bias is required; other biases are used if present
    bool has_position_embd;      // learned positions
    bool has_token_types;        // the embeddings of token types may be present
    bool varies_embedding; // the file may have a projection of the embeddings, and one layer in place of all
    bool has_embd_norm;    // a norm right after the embedding
    bool output_norm_as_embd; // the output's norm is named token_embd_norm in the file
    bool has_relative_bias;   // scores have a bias by distance, the same in all layers
    bool disentangled;        // scores may have terms of relative positions; learned positions are optional
    bool bidirectional;       // an encoder
    bool t5_names;            // files may have the names of T5's encoder: enc.blk.N.attn_o
    bool normed_after_sum;    // the post-norms follow the residual sums, and the last one is the output's
    bool normed_before_cut;   // a vector of fewer dimensions is cut after a layer norm without weights
    bool first_unnormed;      // layer 0 has no attn_norm: the embedding is normalized already
    bool has_output_bias;
    bool has_output_head; // a dense layer, the activation and a norm before the output matrix
    bool qk_norm_full;    // q and k are normalized over their full width, not head by head
    bool experts_allowed;
    bool experts_normalized;
    bool experts_plain;         // experts' MLPs have no gate
    bool experts_latent;        // experts may read and write a latent: the file's moe_latent_size
    bool experts_by_tensors;    // a layer with a router has experts, another an MLP
    bool experts_limited;       // the file may have limits of the experts' gated activations
    bool routed_by_keys;        // the file's keys say how experts are selected, and which layers are dense;
                                // other families refuse such keys
    enum route_kind route_kind; // if the file names none
    bool layers_beyond;         // the file's nextn_predict_layers last layers are for speculation; not used
    enum recurrent_kind recurrent;
    enum layer_kinds layer_kinds;
    bool delta_tiled;         // heads with a common key head are n_key_heads apart, and beta and alpha are
                              // separate; else one after the other, in one matrix
    bool delta_apart;         // as delta_tiled's beta and alpha, but heads are one after the other
    bool delta_doubled;       // beta is 2 sigmoid, not sigmoid: the rule may have negative eigenvalues
    float state_norm_epsilon; // of the norm of a recurrence's output; 0: as of other norms
    bool normed_by_kind;      // recurrent layers have norms before attention and MLP, the others after
    bool gated_by_head;       // attn_gate has a row a head, not a row an item of the heads
    bool gated_by_softplus;   // attn_gate's function; its tensor has a row a head, or an item of the heads
    bool gated_attention;     // attn_q holds, for each head, its query, then a gate for its output
    bool latent_attention;    // MLA: keys and values from a latent; no ATTN_Q, ATTN_K, ATTN_V
    bool indexed;             // sparse attention: layers have an indexer, or use the last one's selection
    bool index_adjacent;      // an indexer rotates adjacent pairs; else halves
    bool index_blocks;        // sparse attention to blocks: some layers have an indexer, with a head for each
                              // key-value head; the others see all positions
    bool index_means;         // sparse attention to blocks with one key, in all layers with attention
    bool ffn_norm_as_post;    // the MLP's norm is named post_attention_norm in the file
    int32_t unrotated_every;  // every n-th layer is not rotated; 0: all are
    bool unwindowed_unrotated; // layers without a window are not rotated
    bool window_rope_unscaled; // windowed layers ignore the rope scaling
    bool yarn_exact_bounds;    // YaRN's bounds are not rounded to whole pairs
    bool embedding_by_width;   // the embedding is multiplied by sqrt(n_embd)
    bool logit_scale_divides;  // logits are divided by the file's logit_scale, not multiplied
    bool norm_by_key;          // the file's expert_weights_norm counts
    bool norm_after_rope;      // the norms of queries' and keys' heads
    bool unit_head_norms;      // these have no weights in the file; in layers that are rotated
    bool unit_all_norms;       // as unit_head_norms in all layers, and the embedding is normalized so, too
    bool plain_norms;          // norms of layers and of the output have no weights in the file
    bool sub_norms;            // norms before attention's output matrix and before ffn_down
    bool window_chunked;       // windows do not slide
    bool experts_interleaved;  // the file's interleave_moe_layer_step says which layers have experts
    bool experts_weigh_inputs; // weights multiply the experts' inputs
    bool shared_expert;        // of the experts' width, in layers with experts
    bool shared_averaged;    // the shared expert's output and the routed experts' sum are averaged, not added
    bool dense_rotated;      // the leading layers without experts are rotated even without a window
    bool norm_by_epsilon;    // the file's key of epsilon selects layer norm or RMS norm
    bool attention_unscaled; // q.k is not scaled
    double query_temperature;     // of all queries, if the file has none
    double unrotated_temperature; // of queries in layers that are not rotated, with position + 1; 0: none
    float embedding_scale;        // if the file has none; 0: 1
    float residual_depth; // the residual scale is this / sqrt(n_layers) if the file has none; 0: it is 1
    float logit_width;    // the logit scale is n_embd / this if the file has none; 0: it is 1
    float alibi_bias_max;
    int32_t window;              // sliding window if the file names none
    int32_t window_pattern;      // every n-th layer has full attention, the last of n
    bool full_first;             // the first of n instead
    double window_rope_base;     // for windowed layers if the file has none; 0: as the other layers
    int32_t n_layers_wide_scale; // the model size (its n_layers) whose attention scale is
                                 // 1 / sqrt(n_embd / n_heads), not 1 / sqrt(key_dim); 0: none
    bool heads_vary;             // layers may differ in the number of heads and key-value heads
    bool layers_partial;    // layers may lack attention or an MLP, or have one matrix in place of attention
    bool half_rotated;      // layers without a window rotate half of the dims that the file says
    bool layers_vary;       // layers may differ in heads and MLPs, share keys and values, and have own inputs
    bool values_normalized; // values are normalized per head, and q.k is not scaled; without ATTN_V a layer
                            // without a window uses the projection of its keys
    bool experts_beside_mlp; // a layer with experts has an MLP, too, and norms for both
    bool hyper; // hyper-connections in place of norms before attention and MLP, and of the output's norm
    bool altup; // alternating updates, LAuReL, sparse gates (Gemma 3n)
    bool inputs_projected; // the layers' inputs are projections of the embedded token, without a table
    bool cpu_only;         // not tested on other devices, which refuse it
};

// NULL: no such family.
const struct family *family_find(struct text name);
// NULL past the end.
const struct family *family_at(size_t index);
// STATUS_REFUSE. The text names the nearest known name and lists all, `name_at` 0, 1, ... (NULL past the end).
enum status family_refuse_unknown(struct error *error, const char *what, struct text name,
                                  const char *(*name_at)(size_t index));

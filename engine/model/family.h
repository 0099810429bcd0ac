// A model family is data: which tensors a layer holds and a few flags over the one forward pass. Adding a
// family is adding a row to family.c (and, if it does something no other does, an operation or a flag with
// it). Names and conventions are those of GGUF files: github.com/ggml-org/llama.cpp,
// gguf-py/gguf/constants.py. Thread: any; everything is constant.
#pragma once

#include "engine/model/model.h"

#define SLOT(name) (1u << SLOT_##name) // of a slot up to SLOT_OF_FAMILY_LAST

enum residual_kind {
    RESIDUAL_SERIAL,
    RESIDUAL_PARALLEL,    // attention and MLP read the same input
    RESIDUAL_BY_KEY,      // the file says: use_parallel_residual
    RESIDUAL_BY_FFN_NORM, // parallel when the layers have no ffn_norm
};

// A row of the table in family.c, which is read a row at a time: flat.
struct family {
    const char *name; // general.architecture
    enum norm_kind norm;
    enum activation_kind activation;
    enum rope_style rope_style;
    enum residual_kind residual;
    uint32_t required, optional; // weights of a layer, by SLOT()
    uint32_t biased; // of them, those whose bias must be there; any other weight's bias is used if it is
    bool has_position_embd; // learned positions
    bool has_embd_norm;     // a norm right after the embedding
    bool has_output_bias;
    bool qk_norm_full; // q and k are normalized over their full width, not head by head
    bool experts_allowed;
    bool experts_normalized;
    bool routed_by_keys; // keys of the file say how experts are picked, which layers have none, and of layers
                         // for speculation; elsewhere such keys are refused
    enum route_kind route_kind; // when the file names none
    bool latent_attention;      // keys and values out of a latent; no ATTN_Q, ATTN_K, ATTN_V
    bool ffn_norm_as_post;      // the MLP's norm is named post_attention_norm in the file
    int32_t unrotated_every;    // every n-th layer has no positions; 0: all have
    bool unwindowed_unrotated;  // the layers that see everything have none
    bool window_rope_unscaled;  // windowed layers rotate without the context's scaling
    bool yarn_exact_bounds;     // YaRN blends between fractional pairs, not whole ones
    bool embedding_by_width;    // the embedding is multiplied by sqrt(n_embd)
    bool logit_scale_divides;   // logits are divided by the file's logit_scale, not multiplied
    bool half_pages; // reference logits were made with keys and values in half precision (see evaluate.h)
    float alibi_bias_max;
    int32_t window;              // sliding window when the file names none
    int32_t window_pattern;      // every n-th layer sees everything
    double window_rope_base;     // of windowed layers when the file names none; 0: the others'
    int32_t n_layers_wide_scale; // the size whose attention scale is 1 / sqrt(n_embd / n_heads), not of the
                                 // head; 0: none
};

// NULL: no such family.
const struct family *family_find(struct text name);
// NULL past the end.
const struct family *family_at(size_t index);

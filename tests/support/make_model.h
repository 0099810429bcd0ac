// Writes small models with seeded random weights as GGUF files, for tests that run the engine or the whole
// product without any file from outside. Every family, most tensor types; a byte-level vocabulary with a
// ChatML template on request. The tensors of a family are listed here a second time, on purpose: the engine's
// own list is what gets tested.
#pragma once

#include "engine/file/gguf.h"

enum { MADE_KEYS_MAX = 32 };

// A key-value to add, or to put in place of the recipe's own.
struct made_key {
    const char *key;     // whole; NULL: none
    enum gguf_kind kind; // GGUF_U32, GGUF_F32, GGUF_BOOL or GGUF_STRING
    double number;
    const char *string;
};

// Zero means the default in brackets.
struct model_recipe {
    const char *family; // ["llama"]; "mixtral" is llama with experts, "llama3" llama with rope_freqs
    enum tensor_type
        type; // of the matrices [TENSOR_F32]; those whose rows don't fit its blocks become Q8_0 or F16
    enum tensor_type experts_type; // of the experts' matrices [type]
    enum tensor_type gate_type;    // of the MLP's gate [type]
    enum tensor_type more_type; // of values and of the MLP's down matrix [type], as in the mixtures of files
    uint64_t seed;
    int32_t n_layers, n_embd, n_heads, n_kv_heads; // [2, 64, 4, 2; 4 layers if some are recurrent]
    int32_t head_dim, n_ff, n_vocab, n_context;    // [n_embd / n_heads, 96, 320, 512]
    int32_t n_experts, n_experts_used;             // [4, 2] in the families that have them
    int32_t window;                                // sliding window [24] in the families that have one
    float gain;                                    // [2] scales the weights: larger makes sharper logits
    bool tied;                                     // no output matrix of its own
    int32_t n_beyond;                              // layers for speculation after the others
    bool larger;    // as the family's larger models: Falcon 40B's second norm, StableLM 2 12B's norms of each
                    // head and parallel residual, Phi-3 128k's rope factors beyond the first 16 positions,
                    // DeepSeek V3's compressed queries and router, GLM-4.5's and Command R+'s norms of heads,
                    // Ministral's and gpt-oss's longer context, OLMo 3's windows, GLM-4.1V's M-RoPE
    bool split;     // DeepSeek: what makes keys and values of a latent is cut by head, as newer files have it
    bool scaled;    // further scales of matrices, as models of NVFP4 have them
    bool tokenizer; // vocabulary of bytes and ChatML marks, and the template
    struct made_key keys[MADE_KEYS_MAX];
    const char *drop_key;    // left out
    int32_t n_tokens_beyond; // the vocabulary's tokens for which the embedding has no row
    int32_t poisoned_token;  // above 0: its embedding is NaN
    // Faults in one tensor each, by name:
    const char *drop_tensor;   // left out
    const char *widen_tensor;  // gets one row too many
    const char *retype_tensor; // becomes I32
    const char *extra_tensor;  // added
};

// Ids of the vocabulary with `tokenizer`: 0..255 bytes, then merged pairs, then these.
enum { MADE_END_OF_TEXT = 272, MADE_IM_START, MADE_IM_END, MADE_N_TOKENS };

// Ends the test when the file can't be written.
void make_model(const char *path, const struct model_recipe *recipe);

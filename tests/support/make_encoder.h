// Writes small encoders with seeded random weights as GGUF files, with the keys and tensor names that
// llama.cpp's converter writes, where it has the family. Families: bert, mpnet, nomic-bert, nomic-bert-moe,
// jina-bert-v2, jina-bert-v3, gte, deberta, t5encoder, modern-bert, eurobert, ultrabert, llama-embed, gemma-embedding,
// gemma-embedding2; qwen2 is a decoder that
// attends in both directions.
#pragma once

#include "engine/file/gguf.h"

// How a made DeBERTa computes positions.
enum deberta_kind {
    DEBERTA_V3,          // shared projections, a norm, logarithmic buckets
    DEBERTA_V2_XL,       // as V3, with a convolution of three taps
    DEBERTA_V1,          // projections of their own, no buckets, learned positions
    DEBERTA_TO_POSITION, // one term; projections of their own, of few distances
    DEBERTA_TO_CONTENT,
    DEBERTA_ABSOLUTE, // learned positions only
};

// Zero means the default in brackets.
struct encoder_recipe {
    const char *family;    // ["bert"]
    enum tensor_type type; // of the matrices [TENSOR_F32]
    uint64_t seed;
    int32_t n_layers, n_embd, n_heads, n_ff; // [3, 48, 4, 56]
    int32_t n_vocab, n_context, window;      // [200, 200, 32]
    int32_t n_dense; // linear layers after the pooling, [0]; odd ones have a bias and tanh
    const char *drop_tensor, *extra_tensor; // left out; added
    const char *text_key, *text;            // a further key
    bool shared;                            // BERT as ALBERT: one layer for all, embeddings of 20 items
    bool plain;                             // T5 with ReLU in place of gates
    enum deberta_kind deberta;              // [DEBERTA_V3]
    bool causal;                            // in attention.causal
    // A classification head with these labels, [0]: none; its layers are those of the family. Keys
    // NAME.classifier.*; NULL: absent.
    int32_t n_labels;
    const char *head_pooling, *head_activation;
};

// Ends the test when the file can't be written.
void make_encoder(const char *path, const struct encoder_recipe *recipe);

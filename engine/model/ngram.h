// Hashed n-grams: table rows for the last tokens of a text. Each length from 2 to `size` tokens has several heads, and each
// head hashes the tokens into its own part of the table (Qwen4-Exp; modeling_qwen4_exp.py of
// github.com/huggingface/transformers):
//   row(h) = first[h] + (xor over the tokens t[p], p tokens back, of t[p] * multipliers[p]) mod n_rows[h]
// n_rows are consecutive primes, over all layers. Multipliers are odd numbers from SplitMix64 of seed and layer.
// Thread: any; constant after ngram_init.
#pragma once

#include "engine/model/model.h"

struct ngram {
    int32_t size, n_heads_each, n_heads;
    int32_t end;
    int64_t multipliers[MODEL_NGRAM_MAX];
    int64_t n_rows[MODEL_NGRAM_HEADS_MAX], first[MODEL_NGRAM_HEADS_MAX];
    int64_t n_rows_all;
};

// `index`: the layer's number among those with n-grams. The shape's sizes are within their limits.
void ngram_init(struct ngram *ngram, const struct ngram_shape *shape, int32_t n_vocab, int32_t index);
// tokens[p]: the token p back, `size` of them; `end` before the text's beginning. Sets rows [n_heads].
void ngram_rows(const struct ngram *ngram, const int32_t *tokens, int64_t *rows);

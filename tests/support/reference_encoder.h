// An encoder in plain double precision, direct and slow, that shares nothing with the engine but the file reader
// and the dequantizers: the reference for the engine's hidden states. Supports what tests/support/make_encoder.h
// writes, and BERT in general.
#pragma once

#include <stdint.h>

// The final hidden states of n_ids tokens, [n_ids, n_embd]. `types` NULL: all 0. Ends the test when the file
// can't be read.
void reference_hidden(const char *path, const int32_t *ids, const int32_t *types, int32_t n_ids,
                      double *hidden);

// The logits of the classification head over these states, [n labels of the head]: `pooling` is "first", "mean", "last" or
// "late", `activation` "tanh", "relu", "gelu", "gelu_tanh", "silu" or "identity", of the head's first layer.
void reference_logits(const char *path, const double *hidden, int32_t n_ids, const char *pooling,
                      const char *activation, double *logits);

// A transformer in plain double precision, slow and direct, that shares nothing with the engine but the file
// reader and the dequantizers: the reference for the engine's logits. Supports the families that
// tests/support/make_model.h writes.
#pragma once

#include <stdint.h>

// Logits [n_ids, n_vocab] of every position. Ends the test when the file can't be read.
void reference_logits(const char *path, const int32_t *ids, int32_t n_ids, double *logits);
// The same with GELU as ACTIVATION_GELU_HALF has it (engine/model/model.h): rounded before and after, nothing
// else is.
void reference_logits_half_gelu(const char *path, const int32_t *ids, int32_t n_ids, double *logits);

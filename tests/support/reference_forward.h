// A transformer in plain double precision, slow and direct, that shares nothing with the engine but the file
// reader and the dequantizers: the reference for the engine's logits. Supports the families that
// tests/support/make_model.h writes.
#pragma once

#include <stdint.h>

// Logits [n_ids, n_vocab] of every position. Ends the test when the file can't be read.
void reference_logits(const char *path, const int32_t *ids, int32_t n_ids, double *logits);

// Logits of every position of one text, for `sheaf logits` and the parity tests.
// Thread: engine.
#pragma once

#include "engine/forward.h"

// Tokens of one step; longer texts are prefilled in chunks.
enum { LOGITS_CHUNK_TOKENS = 256 };

// Binds the model to the backend, which must be new, and computes `logits` [n_ids, n_vocab]. The backend
// cannot be used for another forward pass. Errors: STATUS_REJECT for an empty text (ERROR_EMPTY_PROMPT), a
// text longer than the model's context (ERROR_CONTEXT_LENGTH) and an id outside the vocabulary
// (ERROR_TOKEN_RANGE); the errors of forward_create and forward_step.
enum status logits_of_text(const struct model *model, struct backend *backend, enum kv_type kv_type,
                           const int32_t *ids, int32_t n_ids, float *logits, struct error *error) WARN_UNUSED;

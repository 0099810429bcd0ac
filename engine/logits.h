// Computes logits for the positions of a text, for `sheaf logits`, `sheaf perplexity` and the parity tests.
// Thread: engine.
#pragma once

#include "engine/forward.h"

// Tokens of one step; longer texts are prefilled in chunks.
enum { LOGITS_CHUNK_TOKENS = 256 };

// Reads texts of at most n_ids tokens, one at a time. Binds the model to the backend, which must be new and
// cannot be used for another forward pass. Errors: as forward_create; ERROR_OUT_OF_MEMORY.
struct logits_reader;
enum status logits_open(struct logits_reader **reader, const struct model *model, struct backend *backend,
                        enum kv_type kv_type, int32_t n_ids, struct error *error) WARN_UNUSED;
void logits_close(struct logits_reader *reader);
// Computes tokens [first, first + n) of the text; n is at most LOGITS_CHUNK_TOKENS. Earlier tokens must have
// been computed by earlier calls; a text begins at first 0. Writes their logits [n, n_vocab]; NULL: not
// wanted. Errors: as forward_step.
enum status logits_read(struct logits_reader *reader, const int32_t *ids, int32_t first, int32_t n,
                        float *logits, struct error *error) WARN_UNUSED;

// Binds the model to the backend, which must be new, and computes `logits` [n_ids, n_vocab]. The backend
// cannot be used for another forward pass. Errors: STATUS_REJECT for an empty text (ERROR_EMPTY_PROMPT), a
// text longer than the model's context (ERROR_CONTEXT_LENGTH) and an id outside the vocabulary
// (ERROR_TOKEN_RANGE); the errors of forward_create and forward_step.
enum status logits_of_text(const struct model *model, struct backend *backend, enum kv_type kv_type,
                           const int32_t *ids, int32_t n_ids, float *logits, struct error *error) WARN_UNUSED;

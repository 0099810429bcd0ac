// A sequence under a constraint: its masks, and its forced tokens, where the constraint leaves no choice.
//
// If only one text can follow, its tokens are forced: they are appended without a draw and enter the next
// step as a prefill chunk, without an output. Their logprob is 0, as they are the only tokens allowed; their
// alternatives list themselves alone, and sampling settings do not change them. They count as generated
// tokens for max_tokens, stop rules, penalties and the indices of random numbers.
//
// The bytes forced after the last drawn token are tokenized by the model's tokenizer. A token that begins
// within these bytes may continue past their end (matcher_safe_size), so from such a position on the tokens
// depend on text that is not known yet. The bytes are tokenized up to each such position as well; the leading
// tokens common to all tokenizations are forced, the rest is drawn. So forced tokens are a function of the
// text before them, the constraint and the tokenizer: the same in every batch, chunk and run.
//
// An answer that must end draws no end token either; the end token is counted as if it were drawn.
// Thread: engine, except constrained_fill_mask and constrained_fill_draft_mask.
#pragma once

#include "batching/sequence.h"

enum { FORCED_BYTES_MAX = 256 }; // per call of the tokenizer; longer runs are forced in several calls

// Writes the mask of the sequence's next token, [prompt->n_mask_words]. A failure is stored in
// sequence->constrained.error and fails the answer when a token is accepted. Thread: any; one at a time for
// each recognizer.
void constrained_fill_mask(struct sequence *sequence, uint32_t *mask);
// Accepts the drawn token of a sequence with or without a constraint: appends it and, with a constraint, the
// tokens that must follow. Sets finish_reason if it was the last one. A NaN among the logits sets
// FINISH_ERROR and prompt->error.
void constrained_accept(struct sequence *sequence, const struct sample_result *drawn,
                        const struct tokenizer *tokenizer);
// Whether tokens are ever forced: by a constraint, or by a thinking budget (thinking.h).
bool constrained_may_force(const struct sequence *sequence);
// Appends the tokens that must follow, or ends the answer. A pending token is then not drawn: the caller
// drops its output.
void constrained_force(struct sequence *sequence, const struct tokenizer *tokenizer);

// Draft tokens (batching/speculation.h): the matcher advances over them and is rewound to the mark. Errors on
// the way are not errors of the sequence.
//
// False: no draft is possible. After true, call constrained_end_draft; the next two functions may be called
// in between.
bool constrained_begin_draft(struct sequence *sequence, struct matcher_mark *mark);
void constrained_end_draft(struct sequence *sequence, const struct matcher_mark *mark);
// Advances the matcher by the token. False: it is not allowed.
bool constrained_draft_token(struct sequence *sequence, int32_t token);
// Advances the matcher by the tokens that are forced now and writes them. False: the answer ends after them.
bool constrained_draft_forced(struct sequence *sequence, const struct tokenizer *tokenizer,
                              struct token_array *tokens);
// The first token of the forced bytes as the tokenizer writes them, if no token is forced because a longer
// token may follow. -1: no byte is forced.
int32_t constrained_draft_likely(struct sequence *sequence, const struct tokenizer *tokenizer);
// constrained_fill_mask for token n_generated, after the draft tokens in answer.generated. Sets all bits if
// there is no mask. Thread: any; one at a time for each recognizer.
void constrained_fill_draft_mask(struct sequence *sequence, int32_t n_generated, uint32_t *mask);
// Called after the draft tokens were drawn: writes the next token's mask to `own`. Returns whether it equals
// `mask`, with which that token was drawn.
bool constrained_confirm_mask(struct sequence *sequence, const uint32_t *mask, uint32_t *own);

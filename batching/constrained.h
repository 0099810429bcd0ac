// A sequence under a constraint: its masks, and the tokens that the constraint leaves no choice of.
//
// Where only one text can follow, its tokens are forced: they are appended without a draw and enter the next
// step as a prefill chunk, without an output. Their logprob is 0, as they are the only tokens allowed; their
// alternatives list themselves alone, and sampling settings do not change them. They count as generated
// tokens for max_tokens, stop rules, penalties and the indices of random numbers.
//
// The forced bytes, from the end of the last drawn token on, are tokenized by the model's tokenizer. An
// allowed token that begins within them may continue beyond their end (matcher_safe_size): from such a
// position on the tokens depend on the text that follows. The tokens that the tokenizations up to all these
// positions have in common are forced, the rest is drawn. So forced tokens are a function of the text before
// them, the constraint and the tokenizer, and are the same in every batch, chunk and run.
//
// An answer that must end draws no end token either; it is counted as if it were drawn.
// Thread: engine, but for constrained_fill_mask.
#pragma once

#include "batching/sequence.h"

enum { FORCED_BYTES_MAX = 256 }; // tokenized at a time; more are forced in several calls

// Writes the mask of the sequence's next token, [prompt->n_mask_words]. A failure is stored in
// sequence->constrained.error and fails the answer when a token is accepted. Thread: any; one at a time for
// each recognizer.
void constrained_fill_mask(struct sequence *sequence, uint32_t *mask);
// Takes the drawn token of a sequence with or without a constraint: appends it and, with one, the tokens that
// must follow. Sets finish_reason if it was the last one. Logits with a NaN set FINISH_ERROR and
// prompt->error.
void constrained_accept(struct sequence *sequence, const struct sample_result *drawn,
                        const struct tokenizer *tokenizer);
// Appends the tokens that must follow, or ends the answer. A pending token is not drawn then: the caller drops
// its output.
void constrained_force(struct sequence *sequence, const struct tokenizer *tokenizer);

// Draft tokens (batching/speculation.h): the matcher walks behind them and comes back, and what it meets there
// is no error of the sequence's.
//
// False: no draft. Otherwise to be ended, after any of the two between.
bool constrained_begin_draft(struct sequence *sequence, struct matcher_mark *mark);
void constrained_end_draft(struct sequence *sequence, const struct matcher_mark *mark);
// Moves behind the token. False: it is not allowed.
bool constrained_draft_token(struct sequence *sequence, int32_t token);
// Moves behind the tokens that are forced here, which it writes. False: the answer ends behind them.
bool constrained_draft_forced(struct sequence *sequence, const struct tokenizer *tokenizer,
                              struct token_array *tokens);
// The token that the forced bytes begin with here as the tokenizer alone would have it, where they force none
// because a longer token may follow. -1: no byte is forced.
int32_t constrained_draft_likely(struct sequence *sequence, const struct tokenizer *tokenizer);
// constrained_fill_mask of token n_generated, behind the draft tokens in answer.generated. All bits are set
// where there is none. Thread: any; one at a time for each recognizer.
void constrained_fill_draft_mask(struct sequence *sequence, int32_t n_generated, uint32_t *mask);
// When its draft tokens were drawn: constrained_fill_mask into `own`. Whether that is the mask that the next
// token was drawn with.
bool constrained_confirm_mask(struct sequence *sequence, const uint32_t *mask, uint32_t *own);

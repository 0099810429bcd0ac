// A sequence under a constraint: its masks, and the tokens that the constraint leaves no choice of.
//
// Where one text alone can follow, its tokens are forced: they are appended without a draw, and enter the
// next step as a chunk of prompt does, without an output. Their logprob is 0, that of the only token allowed,
// without alternatives but themselves; settings of sampling do not change them. They count as generated: for
// max_tokens, for stop rules and penalties, and as indices of random numbers.
//
// Which tokens: those of the model's own tokenizer for the forced bytes by themselves, from the end of the
// token that was drawn last, as far as they end before the first place whose tokens depend on what follows.
// Such a place is one where an allowed token may begin that continues behind the forced bytes
// (matcher_safe_size). The tokens that all tokenizations up to these places have in common are forced; the
// rest is drawn. So they are a function of the text before them, the constraint and the tokenizer: the same
// in each batch, chunk and run.
//
// An answer that must end is not drawn from either: its end token counts as one that was drawn.
// Thread: engine, but for constrained_fill_mask.
#pragma once

#include "batching/sequence.h"

enum { FORCED_BYTES_MAX = 256 }; // tokenized at a time; more are forced in several calls

// Writes the mask of the sequence's next token, [prompt->n_mask_words]. A failure is kept in
// sequence->matching and fails the answer when a token is accepted. Thread: any; one at a time for each
// recognizer.
void constrained_fill_mask(struct sequence *sequence, uint32_t *mask);
// Of a sequence with or without a constraint, when its token is drawn. False: no token is to be taken,
// because its mask failed or nothing can follow; finish_reason is set.
bool constrained_check(struct sequence *sequence);
// Moves the matcher behind a drawn token. False: it failed, finish_reason is set.
bool constrained_match(struct sequence *sequence, int32_t token);
// Of an answer that has used its max_tokens: it has ended by itself where nothing can follow it, and where it
// closes within them and is complete.
void constrained_judge_length(struct sequence *sequence);
// Appends the tokens that must follow, or ends the answer. No token may be pending.
void constrained_force(struct sequence *sequence, const struct tokenizer *tokenizer);

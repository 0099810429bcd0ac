// A thinking budget: thoughts that reach thinking_token_budget are closed by forced tokens (constrained.h), as the
// family writes the end of a thought, and the answer follows. The closing tokens are a function of the tokens
// before them: the same in every batch, after a preemption and with draft tokens.
//
//   budget 3:   <think>  t1 t2 t3   \n </think> \n\n   content ...
//               drawn    counted    forced             drawn
//
// The thought may exceed the budget where a token ends within a character, by the tokens that end it, and with
// close_at_max_tokens where the closing tokens leave no room for the shortest answer: the limit closes it then.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

bool thinking_has_budget(const struct sequence *sequence);
// Sets the state before the first token.
void thinking_start(struct sequence *sequence);
// Reads a token that was appended to the answer.
void thinking_note_token(struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer);
// Whether the next tokens of the answer are the closing tokens.
bool thinking_is_spent(const struct sequence *sequence);
// Appends the closing tokens, without those that the thought already ends with.
enum status thinking_closing(const struct sequence *sequence, const struct tokenizer *tokenizer,
                             struct token_array *tokens, struct error *error) WARN_UNUSED;

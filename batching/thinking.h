// A thinking budget: thoughts that reach thinking_token_budget are closed by forced tokens (constrained.h),
// as the family writes the end of a thought, and the answer follows. The closing tokens are a function of the
// tokens before them: the same in every batch, after a preemption and with draft tokens.
//
//   budget 3:   <think>  t1 t2 t3   \n </think> \n\n   content ...
//               drawn    counted    forced             drawn
//
// A thought may exceed the budget in two cases: a token ends within a character, so further tokens complete
// the character; or, with close_at_max_tokens, the closing tokens leave no room for the shortest answer. Then
// the limit closes it.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

bool thinking_has_budget(const struct sequence *sequence);
// Sets the state before the first token.
void thinking_start(struct sequence *sequence);
// Reads a token that was appended to the answer.
void thinking_note_token(struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer);
// True if the answer's next tokens are the closing tokens.
bool thinking_is_spent(const struct sequence *sequence);
// Appends the closing tokens, without those that the thought already ends with.
enum status thinking_closing(const struct sequence *sequence, const struct tokenizer *tokenizer,
                             struct token_array *tokens, struct error *error) WARN_UNUSED;

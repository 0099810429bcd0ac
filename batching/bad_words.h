// Words that an answer must not contain (vLLM's bad_words). A word is forbidden as two token sequences: its
// text with and without a leading blank, each tokenized as a continuation. A token that would complete one of
// them at the end of the answer cannot be drawn. As in vLLM, the prompt's tokens do not count; unlike in
// vLLM, both sequences are forbidden even if their lengths differ. A word spelled by other tokens is not
// detected.
// Thread: engine; bad_words_prepare runs on the pool.
#pragma once

#include "batching/sequence.h"

// Tokenizes the job's words. Sets prompt->error on failure.
enum status bad_words_prepare(struct prompt *prompt,
                              const struct prompt_environment *environment) WARN_UNUSED;
// Writes the mask of the sequence's next token, [prompt->n_mask_words]: `base` (NULL: all) without the tokens
// that complete a word. All generated tokens are known. If none is left, sequence->constrained.error is set.
void bad_words_fill_mask(struct sequence *sequence, const uint32_t *base, uint32_t *mask);

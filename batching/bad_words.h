// Words that an answer must not contain (vLLM's bad_words). A word is forbidden as two sequences of tokens,
// its text with and without a blank before it, each tokenized as a continuation; a token that would complete
// one of them behind the answer's last tokens can't be drawn. The prompt's tokens do not count, as in vLLM.
// Unlike there, the two are forbidden whatever their numbers of tokens. Other tokens may spell a word too.
// Thread: engine; bad_words_prepare runs on the pool.
#pragma once

#include "batching/sequence.h"

// Tokenizes the job's words. Sets prompt->error on failure.
enum status bad_words_prepare(struct prompt *prompt,
                              const struct prompt_environment *environment) WARN_UNUSED;
// Writes the mask of the sequence's next token, [prompt->n_mask_words]: `base` (NULL: all) without the tokens
// that complete a word. All generated tokens are known. Nothing left is an error of sequence->matching.
void bad_words_fill_mask(struct sequence *sequence, const uint32_t *base, uint32_t *mask);

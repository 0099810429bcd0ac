// Cuts texts to a number of the model's tokens. Thread: main.
#pragma once

#include "consumer/options/options.h"
#include "schemas/base/text.h"

struct text_cut;

// side: "left" or "right", the end that is cut; NULL: right. STATUS_REFUSE: another side, or the model can't be
// read.
enum status text_cut_open(struct text_cut **cut, const struct settings *settings, int64_t n_tokens_max,
                          const char *side, struct error *error) WARN_UNUSED;
void text_cut_close(struct text_cut *cut);
// Cuts whole characters off the text until it has at most n_tokens_max tokens, counted without the tokens that are
// added around a text. STATUS_REJECT: the text can't be tokenized.
enum status text_cut_apply(struct text_cut *cut, struct buffer *text, struct error *error) WARN_UNUSED;
// Texts that were cut since the last call.
int64_t text_cut_take_count(struct text_cut *cut);

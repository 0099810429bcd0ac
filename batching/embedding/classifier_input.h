// The input of a classification head (engine/classifier.h): the tokens of a text, or of a pair such as a query and a
// document, as the tokenizer's post-processor or the model's template joins the two.
// Thread: any.
#pragma once

#include "engine/classifier_head.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/base/arena.h"

struct classifier_reader {
    const struct model *model;
    const struct tokenizer *tokenizer;
    const struct classifier_facts *facts;
    int32_t n_longest;    // a longer input is rejected
    size_t n_tokens_max;  // an input is cut to this many tokens (tokenizer_encode_input); 0: it is not cut
    bool cuts_left;       // at the start of its texts; in a template always at the document's end
    struct text instruct; // instruction of a judge's template; empty: its own
};

// STATUS_REFUSE: the tokenizer gives token types that the model does not have, or there is an instruct and the template
// has no place for it.
enum status classifier_reader_check(const struct classifier_reader *reader, struct error *error) WARN_UNUSED;
// Appends the tokens of texts[0], or of the pair, and their types (types only where the model has them). *n_cut: the
// tokens that were cut. STATUS_REJECT: the input has no tokens or too many, with both numbers; the errors of
// tokenizer_encode_input.
enum status classifier_input_encode(const struct classifier_reader *reader, const struct text texts[2],
                                    size_t n_texts, struct token_array *ids, struct token_array *types,
                                    size_t *n_cut, struct error *error) WARN_UNUSED;

// Facts of a language model that answers with one of two words. `answers`: "yes,no", the relevant one first; NULL: yes
// and no, if the model's name says that it is a reranker of the Qwen3 family, else STATUS_REFUSE, ERROR_MODEL_FILE: it
// has no head. Each answer must be one token. The template is the file's, else Qwen3-Reranker's. `answers` must outlive the facts.
enum status classifier_judge_read(struct classifier_facts *facts, const struct model *model,
                                  const struct tokenizer *tokenizer, const char *answers,
                                  struct error *error) WARN_UNUSED;

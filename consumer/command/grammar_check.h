// Checks texts against a grammar with a model's tokens, for `sheaf grammar`. Each mask is computed as for a
// job, and timed. Thread: main.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/tokenizer/tokenizer.h"

struct grammar_vocabulary_of {
    struct tokenizer *tokenizer;
    struct grammar_vocabulary *vocabulary;
    struct buffer bytes; // of all tokens
    struct text *tokens; // by id
    uint32_t *mask;
};

// `model`: a GGUF file, also one with only a vocabulary, or a model folder.
enum status grammar_vocabulary_of_model(struct grammar_vocabulary_of *of, const char *model,
                                        struct error *error) WARN_UNUSED;
void grammar_vocabulary_of_finish(struct grammar_vocabulary_of *of);

struct mask_times {
    double *us;
    size_t n, max;
};

struct grammar_verdict {
    bool valid;
    size_t byte; // where the text leaves the grammar; the text's size if it ends too early
    size_t n_tokens, n_forced;
};

// Checks one text. Adds to `times` the time of each mask and of accepting its token. STATUS_REJECT: the text
// reaches a limit.
enum status grammar_check(const struct grammar_vocabulary_of *of, struct recognizer *recognizer,
                          struct text text, struct mask_times *times, struct grammar_verdict *verdict,
                          struct error *error) WARN_UNUSED;

// Texts against a grammar with a model's tokens, for `sheaf grammar`: each mask is computed and timed as a
// job would. Thread: main.
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

// MODEL is a GGUF file, of a vocabulary alone if need be, or a folder.
enum status grammar_vocabulary_of_model(struct grammar_vocabulary_of *of, const char *model,
                                        struct error *error) WARN_UNUSED;
void grammar_vocabulary_of_finish(struct grammar_vocabulary_of *of);

struct mask_times {
    double *us;
    size_t n, max;
};

struct grammar_verdict {
    bool valid;
    size_t byte; // where the text leaves the grammar; its size where it only ends too early
    size_t n_tokens, n_forced;
};

// Adds the times of its masks, each with the step that follows it. STATUS_REJECT: a limit that the text
// reaches.
enum status grammar_check(const struct grammar_vocabulary_of *of, struct recognizer *recognizer,
                          struct text text, struct mask_times *times, struct grammar_verdict *verdict,
                          struct error *error) WARN_UNUSED;

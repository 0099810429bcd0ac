// Pre-tokenizers of byte-level BPE: cut text into the words that merges never cross, as each model family's
// split patterns do. A pre-tokenizer is a list of stages; each stage cuts the pieces of the one before. The
// common patterns are written by hand (split_words.c, split_runs.c): one pass, linear for any text; the rest
// run on PCRE2 (pattern.c). Immutable after open: any thread may run one.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>

struct splitter;

// What comes with a pre-tokenizer's name besides the patterns.
struct splitter_traits {
    const char *name;    // as tokenizer.ggml.pre has it
    bool ignores_merges; // a word that is a token is that token, whatever the merges say
    bool adds_bos;       // unless the file says otherwise
};

// Refuses a name it doesn't know, by name (STATUS_REFUSE, ERROR_UNKNOWN_TYPE).
enum status splitter_open(struct splitter **splitter, struct text name, struct error *error) WARN_UNUSED;
void splitter_close(struct splitter *splitter);
const struct splitter_traits *splitter_traits(const struct splitter *splitter);

enum { SPLIT_WORDS_MAX = 16 };

// Takes pieces that follow one another: `data` is where the first begins, sizes[n_words] are their bytes; n_words is 1 to
// SPLIT_WORDS_MAX.
typedef void take_words(void *context, const char *data, const size_t *sizes, size_t n_words);

// Calls `words` for the pieces of `text` in order; the pieces are never empty and put together give the text.
// False: no memory (only patterns that run on PCRE2 need any).
bool splitter_run(const struct splitter *splitter, struct text text, take_words *words, void *context) WARN_UNUSED;

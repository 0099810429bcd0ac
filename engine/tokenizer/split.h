// Pre-tokenizers: they split text into words, which merges do not cross, by the model family's split
// patterns. A pre-tokenizer is a list of stages; each splits the pieces of the previous stage. Common
// patterns are written by hand (split_words.c, split_runs.c): one pass, linear in the text. Others use PCRE2
// (split_pattern.c). Immutable after open: any thread may run one.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct splitter;

// Properties of a pre-tokenizer besides its patterns.
struct splitter_traits {
    const char *name;    // as in tokenizer.ggml.pre
    bool ignores_merges; // a word that is a token becomes that token, without merging
    bool adds_bos;       // the default if the file does not set it
};

// STATUS_REFUSE, ERROR_UNKNOWN_TYPE for an unknown name.
enum status splitter_open(struct splitter **splitter, struct text name, struct error *error) WARN_UNUSED;
void splitter_close(struct splitter *splitter);
const struct splitter_traits *splitter_traits(const struct splitter *splitter);

enum { SPLIT_WORDS_MAX = 16 };

// True if a stage drops text; then the pieces are not the whole text. NULL: false.
bool splitter_drops(const struct splitter *splitter);

// Receives consecutive pieces. `data` is the start of the first one, and sizes[n_words] are their sizes in
// bytes. n_words is 1 to SPLIT_WORDS_MAX.
typedef void take_words(void *context, const char *data, const size_t *sizes, size_t n_words);

// Calls `words` for the pieces of `text` in order. Pieces are not empty, and their concatenation is the text,
// unless a stage drops some. False: out of memory (only patterns that run on PCRE2 need any).
bool splitter_run(const struct splitter *splitter, struct text text, take_words *words,
                  void *context) WARN_UNUSED;

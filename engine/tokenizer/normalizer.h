// The "normalizer" of tokenizer.json, applied to text before it is split into words: Unicode normal forms
// (utf8proc), lower case, replacements. Immutable once its steps are set: any thread may run it.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_REPLACE, // replaces each `from` with `to`
    NORMALIZE_PREPEND, // puts `to` before a non-empty text
};

enum { NORMALIZER_STEPS_MAX = 16 };

struct normalizer_step {
    enum normalizer_kind kind;
    struct text from, to;
};

// Zeroed is valid: text is unchanged. The owner keeps the steps' texts.
struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    size_t n_steps;
};

// Writes the normalized text to one of the two buffers, or returns `text` itself if nothing changes. Normal
// forms leave text that is not valid UTF-8 unchanged. False: no memory.
bool normalizer_run(const struct normalizer *normalizer, struct text text, struct buffer buffers[2],
                    struct text *normalized) WARN_UNUSED;

// The maximum number of bytes of a text per byte of its normalized form; 0: no bound.
size_t normalizer_shrinks(const struct normalizer *normalizer, bool is_ascii);

// The "normalizer" of tokenizer.json, applied to text before it is split into words: Unicode normal forms
// (utf8proc), lower case, replacements. Immutable once its steps stand: any thread may run one.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>

enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_REPLACE, // each `from` by `to`
    NORMALIZE_PREPEND, // `to`, before text that is not empty
};

enum { NORMALIZER_STEPS_MAX = 16 };

struct normalizer_step {
    enum normalizer_kind kind;
    struct text from, to;
};

// Zeroed is valid: text stays as it is. The texts are the owner's.
struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    size_t n_steps;
};

// Writes the normalized text to one of the two buffers, or gives `text` itself back where nothing changes.
// Text that is not valid UTF-8 is left to its bytes by the normal forms. False: no memory.
bool normalizer_run(const struct normalizer *normalizer, struct text text, struct buffer buffers[2],
                    struct text *normalized) WARN_UNUSED;

// Bytes of a text for each byte of its normalized form, at most; 0: no bound.
size_t normalizer_shrinks(const struct normalizer *normalizer, bool is_ascii);

// The "normalizer" of tokenizer.json, applied to text before it is split into words: Unicode normal forms
// (utf8proc), lower case, replacements, BERT's cleaning, SentencePiece's maps. Immutable once its steps are set:
// any thread may run it. Source: github.com/huggingface/tokenizers, tokenizers/src/normalizers.
#pragma once

#include "engine/tokenizer/charsmap.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/split_pattern.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_REPLACE,         // replaces each `from` with `to`
    NORMALIZE_REPLACE_PATTERN, // replaces each match of `pattern` with `to`
    NORMALIZE_PREPEND,         // puts `to` before a non-empty text
    NORMALIZE_BERT,            // BERT's steps in `options`
    NORMALIZE_STRIP_ACCENTS,   // drops combining marks
    NORMALIZE_STRIP,           // drops white space at the ends that `options` names
    NORMALIZE_NMT,
    NORMALIZE_PRECOMPILED,   // replaces text with the rules of `charsmap`
    NORMALIZE_SENTENCEPIECE, // uses `charsmap` and `sentencepiece`; `kept` is unchanged
};

enum { BERT_CLEAN = 1, BERT_CHINESE = 2, BERT_ACCENTS = 4, BERT_LOWERCASE = 8 };
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

enum { NORMALIZER_STEPS_MAX = 16 };

struct normalizer_step {
    enum normalizer_kind kind;
    struct text from, to; // `from` of NORMALIZE_PRECOMPILED and _SENTENCEPIECE: the bytes of `charsmap`
    unsigned options;
    struct split_pattern *pattern; // owned
    struct charsmap charsmap;
    struct sentencepiece_rules sentencepiece;
    struct special_matcher *kept; // owned: text that stays unchanged; NULL: none
};

// Zeroed is valid: text is unchanged. The owner keeps the steps' texts.
struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    size_t n_steps;
};

void normalizer_finish(struct normalizer *normalizer);

// Normalizes the text. Writes the result to one of the two buffers, or returns `text` itself if nothing
// changes. Normal forms leave text that is not valid UTF-8 unchanged. False: out of memory.
bool normalizer_run(const struct normalizer *normalizer, struct text text, struct buffer buffers[2],
                    struct text *normalized) WARN_UNUSED;

// The maximum number of bytes of a text per byte of its normalized form; 0: no bound.
size_t normalizer_shrinks(const struct normalizer *normalizer, bool is_ascii);

// Steps in normalizer_bert.c. Each appends the text without the characters that it drops.
void bert_normalize(struct text text, unsigned options, struct buffer *out);
void bert_strip_accents(struct text text, struct buffer *out);
void bert_normalize_nmt(struct text text, struct buffer *out);
// True for punctuation of BertPreTokenizer and Punctuation.
bool bert_is_punctuation(uint32_t codepoint);
// True for characters that \w of Rust's regular expressions matches.
bool bert_is_of_word(uint32_t codepoint);

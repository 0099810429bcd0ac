// Private state of a tokenizer: written by tokenizer_build.c, read by tokenizer.c.
#pragma once

#include "engine/tokenizer/merge.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pieces.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/split.h"
#include "engine/tokenizer/token_map.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/word_cache.h"
#include "schemas/base/arena.h"

#define TOKENIZER_BLANK "\xE2\x96\x81" // U+2581, SentencePiece's blank

// The tokens, followed by symbols that merges name but the vocabulary lacks.
struct token_symbols {
    struct text *forms; // a symbol's bytes in prepared text: blanks are U+2581 unless byte_level
    size_t n_symbols;
    struct token_map words;     // symbols by form
    bool *is_whole;             // a word with this form encodes to this one token
    size_t whole_bytes_max;     // size of the longest such form
    int32_t byte_symbols[256];  // byte_level: symbol of each byte; otherwise of the token "<0xNN>"; -1: none
    int32_t ascii_symbols[128]; // not byte_level: the symbol of each character
    bool joins_blank[256];      // not byte_level: some merge joins this byte with a following blank
};

// See least_tokens.c.
struct token_bound {
    size_t bytes_max;  // maximum number of bytes that one token covers; 0: no bound
    bool counts[256];  // [byte] encoding never drops it
    bool takes_spaces; // some token strips adjacent white space
};

struct tokenizer {
    struct arena arena;
    int32_t n_tokens;
    uint16_t *flags;     // enum token_flag
    struct text *texts;  // texts as in the vocabulary
    struct text *pieces; // decoded texts; empty for unused tokens
    struct token_symbols symbols;
    struct merge_table merges;
    struct piece_model piece_model; // for models other than VOCABULARY_BPE
    struct special_matcher specials;
    struct special_matcher normalized; // finds tokens in normalized text
    size_t special_bytes_max;          // size of the longest token of both matchers
    struct splitter *splitter, *splitter_after;
    enum vocabulary_model model;
    struct token_rules rules;
    struct normalizer normalizer;
    bool strips_first;        // decoding drops the first blank of a text
    struct word_cache *cache; // the only mutable part; lock-free
    struct special_ids ids;
    const int32_t *suppressed; // [n_suppressed]
    size_t n_suppressed;
    struct token_template templates[2]; // templates of one text and of a pair; not empty
    struct token_bound bound;
};

// Writes the initial symbols of a word; returns how many (at most word.size).
size_t tokenizer_first_symbols(const struct tokenizer *tokenizer, struct text word, int32_t *symbols);

// White space that special tokens strip: White_Space of Unicode, as \s in huggingface/tokenizers.
static inline bool tokenizer_is_space(uint32_t codepoint)
{
    return codepoint_is_space(codepoint) && !(codepoint >= 0x1C && codepoint < 0x20);
}

void tokenizer_find_bound(struct tokenizer *tokenizer); // sets `bound`; call it last

// Private state of a tokenizer: built by tokenizer_build.c, used by tokenizer.c.
#pragma once

#include "engine/tokenizer/merge.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/split.h"
#include "engine/tokenizer/token_map.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/word_cache.h"
#include "schemas/arena.h"

#define TOKENIZER_BLANK "\xE2\x96\x81" // U+2581, SentencePiece's blank

// The tokens, and beyond them what merges name but the vocabulary lacks.
struct token_symbols {
    struct text *forms; // a symbol's bytes in prepared text: blanks are U+2581 unless byte_level
    size_t n_symbols;
    struct token_map words;     // symbols by form
    bool *is_whole;             // the form as a word of its own becomes just that token
    size_t whole_bytes_max;     // of those
    int32_t byte_symbols[256];  // byte_level: the symbol of each byte; else the token "<0xNN>"; -1: none
    int32_t ascii_symbols[128]; // not byte_level: the symbol of each character
    bool joins_blank[256];      // not byte_level: some merge joins this byte with a blank after it
};

// See least_tokens.c.
struct token_bound {
    size_t bytes_max;  // that one token covers at most; 0: no bound
    bool counts[256];  // bytes that are never dropped
    bool takes_spaces; // some token takes white space away
};

struct tokenizer {
    struct arena arena;
    int32_t n_tokens;
    uint16_t *flags;     // enum token_flag
    struct text *texts;  // as the vocabulary has them
    struct text *pieces; // their text in a document; empty for unused tokens
    struct token_symbols symbols;
    struct merge_table merges;
    struct special_matcher specials;
    struct special_matcher normalized; // tokens that are found in normalized text
    size_t special_bytes_max;          // of what either finds
    struct splitter *splitter;
    struct token_rules rules;
    struct normalizer normalizer;
    bool strips_first;        // decoding drops the first blank of a text
    struct word_cache *cache; // the only mutable part; lock-free
    struct special_ids ids;
    struct token_bound bound;
};

// Writes the symbols that the word starts out as; returns how many (at most word.size).
size_t tokenizer_first_symbols(const struct tokenizer *tokenizer, struct text word, int32_t *symbols);

// White space that special tokens take away: White_Space of Unicode, as \s of the library's expressions.
static inline bool tokenizer_is_space(uint32_t codepoint)
{
    return codepoint_is_space(codepoint) && !(codepoint >= 0x1C && codepoint < 0x20);
}

void tokenizer_find_bound(struct tokenizer *tokenizer); // sets `bound`, once all else stands

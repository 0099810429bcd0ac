// Models that choose among pieces instead of merging. WordPiece (BERT) takes the longest piece, from left to
// right. Unigram (Kudo 2018, arxiv.org/abs/1804.10959) takes the pieces with the highest sum of scores. Both
// give the ids of the tokenizers library; Unigram also gives the ids of SentencePiece. Immutable once built.
#pragma once

#include "engine/tokenizer/piece_trie.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

struct piece_model {
    enum vocabulary_model model;
    struct piece_trie starts;    // Unigram: all pieces; WordPiece: pieces that start a word
    struct piece_trie continues; // WordPiece: pieces inside a word, without their prefix
    size_t characters_max;       // WordPiece: a longer word is unknown
    double *scores;              // [n_tokens] Unigram
    double unknown_score;
    double bonus;       // SentencePiece: score of a user-defined piece per byte
    bool single;        // SentencePiece: sums are floats
    bool byte_fallback; // an unknown character becomes its byte tokens, if all exist
    int32_t unknown;
    const int32_t *byte_ids; // [256]
    const uint16_t *flags;   // [n_tokens] enum token_flag
};

// Best path that ends at a byte.
struct piece_path {
    double score;
    uint32_t start; // where its last piece starts; UINT32_MAX: no path
    int32_t id;     // id of its last piece
};

// Reused from word to word. Zeroed is valid and empty.
struct piece_scratch {
    struct piece_path *paths;
    size_t capacity;
};

// Builds the model from a vocabulary with scores that are numbers, and with an unknown token. `byte_ids` and
// `flags` must outlive the model. False: out of memory.
bool pieces_build(struct piece_model *pieces, const struct vocabulary *vocabulary, const int32_t *byte_ids,
                  const uint16_t *flags);
void pieces_finish(struct piece_model *pieces);
void piece_scratch_finish(struct piece_scratch *scratch);

// Appends the ids of a word. The time is proportional to the size of the word times the size of the longest
// piece. False: out of memory.
bool pieces_encode(const struct piece_model *pieces, struct piece_scratch *scratch, struct text word,
                   struct token_array *ids) WARN_UNUSED;

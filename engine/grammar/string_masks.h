// Masks inside one JSON string: which tokens stay inside it or close it, found with the terminal's automaton
// alone and kept for all sets that are in the same place of the same string. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_letters.h"

struct string_mask {
    uint32_t state;         // of the byte automaton; BYTE_STATE_DEAD: none
    uint32_t *bits;         // tokens that stay inside or end with the closing quote
    VECTOR(uint32_t) exits; // nodes of vocabulary.all that close the string and have children, ascending
    uint64_t n_states;      // of the automaton, that the tokens lead to: a measure of the state alone
};

// Tokens that stay inside a string: string_tokens.inside[first .. behind].
struct token_run {
    uint32_t first, behind;
};

// The trie of a walk: vocabulary.all or string_tokens.not_plain.
struct walked_trie {
    const struct trie *trie;
    const uint32_t *nodes; // of vocabulary.all, by node; NULL: it is vocabulary.all
    const struct string_letters *letters;
};

enum { STRING_MASKS_KEPT = 256 };

struct string_masks {
    struct byte_automaton *automaton;            // borrowed
    const struct grammar_vocabulary *vocabulary; // borrowed
    struct string_mask *kept;                    // by state % STRING_MASKS_KEPT; NULL: none asked for yet
    struct walked_trie walked;                   // by the walk that is under way
    uint32_t *walk;                              // states by depth in the trie
    VECTOR(uint64_t) visits;                     // by state: the last mask that reached it
    VECTOR(uint64_t) seen; // by expression: the last search that reached it * SEARCH_LEVELS + after how many
                           // characters
    uint32_t n_plain;      // plain characters that may follow where that search began
    VECTOR(uint32_t) queue;
    struct letter_steps letters;
    VECTOR(struct token_run) runs; // taken by the walk that is under way, ascending
    size_t n_taken;                // tokens of them
    uint32_t *taken;               // a mask's room, for their bits
    uint64_t visit, search;
    size_t n_bytes;
};

// Whether the state is inside a JSON string: between its quotes.
bool string_masks_inside(const struct byte_automaton *automaton, uint32_t state);
// Valid until the next call; NULL when the pool has failed.
const struct string_mask *string_masks_find(struct string_masks *masks, uint32_t state);
void string_masks_finish(struct string_masks *masks);

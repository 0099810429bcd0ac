// Masks inside one JSON string: which tokens stay inside it or close it, found with the terminal's automaton
// alone and kept for all sets that are in the same place of the same string. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_lengths.h"
#include "engine/grammar/string_letters.h"

struct string_mask {
    uint32_t state;         // of the byte automaton; BYTE_STATE_DEAD: none
    uint32_t *bits;         // tokens that stay inside or end with the closing quote
    VECTOR(uint32_t) exits; // nodes of vocabulary.all that close the string and have children, ascending
    uint64_t n_states;      // of the automaton, that the tokens lead to: a measure of the state alone
    uint64_t work;          // of the expressions that were derived; likewise
    bool in_making;
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

// Properties of a state that a walk reads repeatedly, computed once a walk.
struct walked_state {
    uint64_t visit; // the last mask that reached it: what follows is of that one
    bool is_between;
    bool is_left;              // steps from it are counted
    bool has_letters;          // `letters` and `next` are found
    uint8_t open;              // of any characters: its place among string_tokens.states, else 0
    uint32_t n_plain;          // plain characters that may follow, whichever they are
    uint32_t expression, next; // `letters` lead from it to `next`
    struct letter_set letters;
};

struct walk_place {
    uint32_t state;
    const uint32_t *row; // of the state; NULL: not asked for yet
};

enum { STRING_MASKS_KEPT = 256 };

struct string_masks {
    struct byte_automaton *automaton;            // borrowed
    const struct grammar_vocabulary *vocabulary; // borrowed
    struct string_mask *kept;                    // by state % STRING_MASKS_KEPT; NULL: none asked for yet
    struct walked_trie walked;                   // by the walk that is under way
    uint32_t *walk;                              // states by depth in the trie
    struct walk_place *places;                   // the same, for a walk of the trie
    BLOCKS(struct walked_state) states;          // by state
    VECTOR(uint64_t) seen; // by expression: the last search that reached it * SEARCH_LEVELS + after how many
                           // characters
    uint32_t n_plain;      // plain characters that may follow where that search began
    VECTOR(uint32_t) queue;
    struct letter_steps letters;
    struct length_search lengths;
    VECTOR(struct token_run) runs; // taken by the walk that is under way, ascending
    size_t n_taken;                // tokens of them
    uint32_t *taken;               // room for a mask
    uint64_t visit, search, n_made;
    size_t n_bytes;
};

// Whether the state is inside a JSON string: between its quotes.
bool string_masks_inside(const struct byte_automaton *automaton, uint32_t state);
// Begins a visit of the pool, whose work is that so far and the mask's. Valid until the next call; NULL when the
// pool has failed.
const struct string_mask *string_masks_find(struct string_masks *masks, uint32_t state);
void string_masks_finish(struct string_masks *masks);

// The walk that finds a mask, in string_walk.c. Sets the bits and exits of a mask that has none; the pool may
// have failed then.
void string_walk(struct string_masks *masks, struct string_mask *mask);
// The state behind a byte, or several, with the derivatives that the steps need counted. BYTE_STATE_DEAD also when
// the pool has failed.
uint32_t string_walk_step(struct string_masks *masks, uint32_t state, unsigned char byte);
uint32_t string_walk_bytes(struct string_masks *masks, uint32_t state, struct text bytes);
// Adds a node of vocabulary.all that closes the string, where it has children. False: no memory.
bool string_mask_add_exit(struct string_masks *masks, struct string_mask *mask, uint32_t at);

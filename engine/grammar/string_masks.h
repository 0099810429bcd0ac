// Masks inside one JSON string: the tokens that stay inside it or close it. They are computed from the
// terminal's automaton alone, and cached for all item sets in the same state of the same string. Internal to
// engine/grammar/.
//
// Example: a string of [a-z]*, tokens cat, cat", cat", and 4. The trie is walked with one automaton state per
// node.
//
//   c -> a -> t        inside: cat is allowed, whatever the grammar
//              `- "    closed: cat" is allowed; the node has a child, so it is an exit
//                 `- , after the string: a walk from the item set after the quote decides cat",
//   4                  dead
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_lengths.h"
#include "engine/grammar/string_letters.h"

struct string_mask {
    uint32_t state;         // state of the byte automaton; BYTE_STATE_DEAD: a free entry
    uint32_t *bits;         // tokens that stay inside or end with the closing quote
    VECTOR(uint32_t) exits; // nodes of vocabulary.all that close the string and have children, ascending
    uint64_t n_states;      // number of automaton states that the tokens lead to; depends on `state` only
    uint64_t work;          // work of the derivatives; depends on `state` only
    bool in_making;         // being computed, so the entry must not be replaced
};

// Tokens that stay inside a string: string_tokens.inside[first .. stop - 1].
struct token_run {
    uint32_t first, stop;
};

// The trie that is walked: vocabulary.all or string_tokens.not_plain.
struct walked_trie {
    const struct trie *trie;
    const uint32_t *nodes; // node of vocabulary.all for each node; NULL: `trie` is vocabulary.all
    const struct string_letters *letters;
};

// Properties of a state that a walk reads repeatedly. They are computed once per walk.
struct walked_state {
    uint64_t visit; // the last mask that reached the state; the fields below belong to this mask
    bool is_between;
    bool is_left;              // steps from it are counted
    bool has_letters;          // `letters` and `next` are computed
    uint8_t open;              // index into string_tokens.states if any characters may follow; else 0
    uint32_t n_plain;          // number of plain characters that may follow, in any order
    uint32_t expression, next; // `letters` lead from `expression` to `next`
    struct letter_set letters;
};

struct walk_place {
    uint32_t state;
    const uint32_t *row; // row of the state; NULL: not computed yet
};

enum { STRING_MASKS_KEPT = 256 };

struct string_masks {
    struct byte_automaton *automaton;            // borrowed
    const struct grammar_vocabulary *vocabulary; // borrowed
    struct string_mask *kept;                    // index: state % STRING_MASKS_KEPT; NULL: not allocated yet
    struct walked_trie walked;                   // the trie of the current walk
    uint32_t *walk;                              // states, indexed by depth in the trie
    struct walk_place *places;                   // the same, for a walk of the trie
    BLOCKS(struct walked_state) states;          // indexed by state
    // For each expression: (the last search that reached it) * SEARCH_LEVELS + (characters read until then).
    VECTOR(uint64_t) seen;
    uint32_t n_plain; // plain characters that may follow at the start of that search
    VECTOR(uint32_t) queue;
    struct letter_steps letters;
    struct length_search lengths;
    VECTOR(struct token_run) runs; // runs of the current walk, in ascending order
    size_t n_taken;                // number of tokens in `runs`
    uint32_t *taken;               // memory for a mask
    uint64_t visit, search, n_made;
    size_t n_bytes;
};

// True if the state is between the quotes of a JSON string.
bool string_masks_inside(const struct byte_automaton *automaton, uint32_t state);
// Returns the mask of a state. Begins a visit of the pool with the work so far plus the work of the mask.
// Valid until the next call. NULL: the pool has failed.
const struct string_mask *string_masks_find(struct string_masks *masks, uint32_t state);
void string_masks_finish(struct string_masks *masks);

// Computes a mask by a walk (string_walk.c): sets the bits and exits of an empty mask. The pool may fail.
void string_walk(struct string_masks *masks, struct string_mask *mask);
// Return the state after one byte, or after several bytes. Count the derivatives that the steps need. They
// return BYTE_STATE_DEAD also if the pool has failed.
uint32_t string_walk_step(struct string_masks *masks, uint32_t state, unsigned char byte);
uint32_t string_walk_bytes(struct string_masks *masks, uint32_t state, struct text bytes);
// Adds a node of vocabulary.all that closes the string, if it has children. False: out of memory.
bool string_mask_add_exit(struct string_masks *masks, struct string_mask *mask, uint32_t at);

// A hashed n-gram index over text: finds where the last tokens of a sequence occurred before, so that the
// tokens which followed there can be proposed as draft tokens (vLLM: ngram prompt lookup; Arctic Inference:
// suffix decoding). The text is a ring of tokens; for each n of 1, 2, 4 and 8 a slot of the hash table keeps
// one place where an n-gram was followed by a token. A slot has votes: another continuation replaces the
// place when it has been seen as often, so a place continues as most occurrences do, or the latest.
//
// Memory is fixed at init, time per token is constant. What is found may be out of date or, after a collision
// of hashes, of another dataset: draft tokens decide how fast an answer is computed, never its tokens.
// Thread: engine.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUFFIX_LENGTH_MAX = 16, // tokens of a match that are compared
    SUFFIX_BREAK = -1, // between texts; no token follows or precedes it in a match, but a match may begin
};

struct suffix_slot {
    uint32_t place; // of the continuation
    uint32_t votes;
};

// Zeroed is empty: it takes no tokens and finds nothing.
struct suffix_index {
    int32_t *tokens;            // [capacity] ring: the token of place p is at p % capacity
    struct suffix_slot *slots;  // [n_slots]
    uint32_t capacity, n_slots; // powers of two
    uint32_t n;                 // tokens appended: the end of the text
    uint32_t first;             // tokens before it are gone
};

// A place in the text whose last `length` tokens are those that were looked for.
struct suffix_match {
    uint32_t place;
    int32_t length; // 0: none
    int32_t votes;  // of the slot that led to it
};

// Bytes of an index of that capacity.
uint64_t suffix_index_bytes(uint32_t capacity);
// `capacity`: tokens, rounded up to a power of two. False: out of memory.
bool suffix_index_init(struct suffix_index *index, uint32_t capacity);
void suffix_index_finish(struct suffix_index *index);
// `key` keeps the n-grams of different datasets apart.
void suffix_index_append(struct suffix_index *index, uint64_t key, int32_t token);
// The longest match of the last tokens of `tail` [n], of those that slots lead to.
struct suffix_match suffix_index_find(const struct suffix_index *index, uint64_t key, const int32_t *tail,
                                      int32_t n);
// The token at a place; SUFFIX_BREAK: there is none.
int32_t suffix_index_token(const struct suffix_index *index, uint32_t place);

// A hashed n-gram index over text. It finds earlier occurrences of a sequence's last tokens; the tokens that
// followed there are proposed as draft tokens (vLLM: ngram prompt lookup; Arctic Inference: suffix decoding).
// The text is a ring of tokens. For each n of 1, 2, 4 and 8, a slot of the hash table keeps one place where
// an n-gram was followed by a token. A slot counts votes: an occurrence with the same next token adds a vote,
// any other removes a vote. When no vote is left, the new occurrence replaces the place. So a place shows the
// most frequent or the latest continuation.
//
// Memory is fixed at init; the time per token is constant. A result may be out of date or, after a hash
// collision, belong to another dataset. This is harmless: draft tokens decide how fast an answer is computed,
// never its tokens.
// Thread: engine.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUFFIX_LENGTH_MAX = 16, // compared tokens of a match
    SUFFIX_BREAK = -1,      // separates texts. A match never continues past a break, but may begin at one.
};

struct suffix_slot {
    uint32_t place; // where the continuation begins
    uint32_t votes;
};

// A zeroed index is empty: it stores no tokens and finds nothing.
struct suffix_index {
    int32_t *tokens;            // [capacity] ring: the token of place p is at p % capacity
    struct suffix_slot *slots;  // [n_slots]
    uint32_t capacity, n_slots; // powers of two
    uint32_t n;                 // tokens appended so far, the end of the text
    uint32_t first;             // earlier tokens were overwritten
};

// A place in the text. The `length` tokens before it equal the last tokens of the search.
struct suffix_match {
    uint32_t place;
    int32_t length; // 0: none
    int32_t votes;  // votes of the slot that led to the place
};

// Memory in bytes of an index of that capacity.
uint64_t suffix_index_bytes(uint32_t capacity);
// `capacity`: tokens, rounded up to a power of two. False: out of memory.
bool suffix_index_init(struct suffix_index *index, uint32_t capacity);
void suffix_index_finish(struct suffix_index *index);
// `key` separates the n-grams of different datasets.
void suffix_index_append(struct suffix_index *index, uint64_t key, int32_t token);
// The longest match of the last tokens of `tail` [n]. Only places that a slot holds are compared.
struct suffix_match suffix_index_find(const struct suffix_index *index, uint64_t key, const int32_t *tail,
                                      int32_t n);
// Token at a place; SUFFIX_BREAK if the place has none.
int32_t suffix_index_token(const struct suffix_index *index, uint32_t place);

// A hashed n-gram index over text: finds earlier occurrences of a sequence's last tokens, so that the tokens
// which followed there can be proposed as draft tokens (vLLM: ngram prompt lookup; Arctic Inference: suffix
// decoding). The text is a ring of tokens. For each n of 1, 2, 4 and 8, a slot of the hash table keeps one
// place where an n-gram was followed by a token. A slot has votes: each occurrence with the same next token
// adds a vote, another one removes a vote and replaces the place when the last vote is gone. So a place shows
// the most frequent continuation, or the latest one.
//
// Memory is fixed at init, time per token is constant. A result may be out of date or, after a hash
// collision, of another dataset: draft tokens decide how fast an answer is computed, never its tokens.
// Thread: engine.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUFFIX_LENGTH_MAX = 16, // tokens of a match that are compared
    SUFFIX_BREAK = -1,      // between texts. A match never continues past a break, but may begin at one.
};

struct suffix_slot {
    uint32_t place; // of the continuation
    uint32_t votes;
};

// A zeroed index is empty: it stores no tokens and finds nothing.
struct suffix_index {
    int32_t *tokens;            // [capacity] ring: the token of place p is at p % capacity
    struct suffix_slot *slots;  // [n_slots]
    uint32_t capacity, n_slots; // powers of two
    uint32_t n;                 // tokens appended: the end of the text
    uint32_t first;             // tokens before it were overwritten
};

// A place whose preceding `length` tokens are the last tokens of the search.
struct suffix_match {
    uint32_t place;
    int32_t length; // 0: none
    int32_t votes;  // of the slot that led to the place
};

// Bytes of an index of that capacity.
uint64_t suffix_index_bytes(uint32_t capacity);
// `capacity`: tokens, rounded up to a power of two. False: out of memory.
bool suffix_index_init(struct suffix_index *index, uint32_t capacity);
void suffix_index_finish(struct suffix_index *index);
// `key` keeps the n-grams of different datasets apart.
void suffix_index_append(struct suffix_index *index, uint64_t key, int32_t token);
// The longest match of the last tokens of `tail` [n]. Only places that a slot holds are compared.
struct suffix_match suffix_index_find(const struct suffix_index *index, uint64_t key, const int32_t *tail,
                                      int32_t n);
// The token at a place; SUFFIX_BREAK: there is none.
int32_t suffix_index_token(const struct suffix_index *index, uint32_t place);

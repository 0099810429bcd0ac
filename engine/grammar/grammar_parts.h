// A compiled grammar and its vocabulary. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/grammar/rules_parts.h"

struct grammar {
    struct rules *rules; // nullable and productive are set; children that derive nothing are removed
    uint32_t start;
};

// A node of a trie. Nodes are in preorder: the subtree of node i is i .. stop - 1.
//
//   tokens: 5 = a, 7 = ab, 2 = b
//
//   node   byte   depth   stop   token
//      0   a          0        2       5
//      1   b          1        2       7
//      2   b          0        3       2
struct trie_node {
    uint32_t stop;
    // The token that ends at this node, or NO_TOKEN.
    uint32_t token;
    uint16_t depth : 15;        // depth of the byte: 0 for the first byte of a token
    uint16_t has_next_same : 1; // other tokens have the same bytes: see grammar_vocabulary.next_same
    unsigned char byte;
    uint8_t string_state; // index into string_tokens.states of the state after this node; 0: none
};

enum { NO_TOKEN = UINT32_MAX };

struct trie {
    struct trie_node *nodes;
    size_t n_nodes;
};

struct grammar_vocabulary {
    size_t n_tokens;
    struct text *tokens; // copies
    char *bytes;
    uint32_t *next_same; // next token with the same bytes, indexed by token; or NO_TOKEN
    uint32_t *ends;
    size_t n_ends;
    unsigned depth_max; // number of bytes of the longest token
    struct trie all;    // every token with bytes; string_state is set in this trie and in
                        // string_tokens.not_plain
    struct string_tokens *strings;
    struct trie not_inside; // tokens that leave a JSON string of arbitrary characters
};

// Sets the bits of the node's token and of all tokens with the same bytes.
static inline void vocabulary_set_tokens(const struct grammar_vocabulary *vocabulary,
                                         const struct trie_node *node, uint32_t *bits)
{
    uint32_t token = node->token;
    if (token == NO_TOKEN)
        return;
    bits[token / 32] |= 1u << token % 32;
    if (node->has_next_same)
        while ((token = vocabulary->next_same[token]) != NO_TOKEN)
            bits[token / 32] |= 1u << token % 32;
}

// Builds a trie from tokens sorted by their bytes. Overwrites the next_same chains, so a subset must contain
// all tokens with the same bytes, or none.
bool trie_build(struct grammar_vocabulary *vocabulary, const uint32_t *ids, size_t n, struct trie *trie);

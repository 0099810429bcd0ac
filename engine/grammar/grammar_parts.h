// A compiled grammar and its vocabulary. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/grammar/rules_parts.h"

struct grammar {
    struct rules *rules; // nullable and productive are known; children that derive nothing are gone
    uint32_t start;
};

// A node of the trie, in preorder: its subtree is the nodes up to `behind`.
struct trie_node {
    uint32_t behind;
    uint32_t token; // NO_TOKEN: none ends here; further ones of the same bytes: grammar_vocabulary.next_same
    uint16_t depth : 15;        // of its byte: 0 for the first of a token
    uint16_t has_next_same : 1; // its token has one
    unsigned char byte;
    uint8_t string_state; // of string_tokens.states behind this node; 0: none
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
    uint32_t *next_same; // by token
    uint32_t *ends;
    size_t n_ends;
    unsigned depth_max; // bytes of the longest token
    struct trie all;    // every token that has bytes; string_state is set here and in string_tokens.not_plain
    struct string_tokens *strings;
    struct trie not_inside; // tokens that do not stay inside a JSON string of any characters
};

// Sets the bits of the node's token and of all that have its bytes.
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

// Builds the trie of sorted tokens. Chains of equal tokens come out the same for every subset that has all or
// none of them.
bool trie_build(struct grammar_vocabulary *vocabulary, const uint32_t *ids, size_t n, struct trie *trie);

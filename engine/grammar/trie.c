// Builds a trie in preorder.
#include "engine/grammar/grammar_parts.h"

static size_t shared_bytes(struct text a, struct text b)
{
    size_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    return n;
}

// Builds one node for each byte that a token does not share with the previous token. Tokens with the same
// bytes are chained.
bool trie_build(struct grammar_vocabulary *vocabulary, const uint32_t *ids, size_t n, struct trie *trie)
{
    struct text before = {0};
    size_t n_nodes = 0;
    for (size_t i = 0; i < n; before = vocabulary->tokens[ids[i++]])
        n_nodes += vocabulary->tokens[ids[i]].size - shared_bytes(before, vocabulary->tokens[ids[i]]);
    trie->nodes = malloc((n_nodes + 1) * sizeof *trie->nodes);
    // The nodes at each depth whose subtree is not complete yet.
    uint32_t *open = malloc((vocabulary->depth_max + 1) * sizeof *open);
    if (!trie->nodes || !open || n_nodes >= UINT32_MAX) {
        free(open);
        return false;
    }
    size_t depth = 0;
    before = (struct text){0};
    for (size_t i = 0; i < n; i++) {
        struct text token = vocabulary->tokens[ids[i]];
        size_t shared = shared_bytes(before, token);
        while (depth > shared)
            trie->nodes[open[--depth]].stop = (uint32_t)trie->n_nodes;
        for (; depth < token.size; depth++) {
            open[depth] = (uint32_t)trie->n_nodes;
            trie->nodes[trie->n_nodes++] = (struct trie_node){.token = NO_TOKEN,
                                                              .depth = (uint16_t)depth,
                                                              .byte = (unsigned char)token.data[depth]};
        }
        struct trie_node *node = &trie->nodes[open[depth - 1]];
        vocabulary->next_same[ids[i]] = node->token;
        node->has_next_same = node->token != NO_TOKEN;
        node->token = ids[i];
        before = token;
    }
    while (depth)
        trie->nodes[open[--depth]].stop = (uint32_t)trie->n_nodes;
    free(open);
    return true;
}

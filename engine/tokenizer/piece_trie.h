// A trie over the bytes of pieces: finds the pieces that are prefixes of a text. The children of a node are
// consecutive nodes, sorted by byte. Immutable once built: any thread may search.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trie_node {
    uint32_t first; // its first child; the next node's first child ends the children
    int32_t id;     // id of the piece that ends at this node; -1: none
};

// Zeroed is valid and empty.
struct piece_trie {
    struct trie_node *nodes; // [n_nodes + 1]
    unsigned char *bytes;    // [n_nodes] byte that leads to the node
    size_t n_nodes;
    uint32_t roots[256]; // child of the root; 0: none
};

struct trie_piece {
    struct text text; // not empty
    int32_t id;
};

// Builds the trie and sorts `pieces`. If pieces have the same text, the last id is used. False: out of
// memory.
bool piece_trie_build(struct piece_trie *trie, struct trie_piece *pieces, size_t n_pieces);
void piece_trie_finish(struct piece_trie *trie);

uint32_t piece_trie_child_of_many(const struct piece_trie *trie, uint32_t node, unsigned char byte);

// Returns the child of a node for a byte; node 0 is the root. 0: none.
static inline uint32_t piece_trie_child(const struct piece_trie *trie, uint32_t node, unsigned char byte)
{
    if (node == 0)
        return trie->roots[byte];
    uint32_t first = trie->nodes[node].first, end = trie->nodes[node + 1].first;
    if (end - first > 8)
        return piece_trie_child_of_many(trie, node, byte);
    for (; first < end; first++)
        if (trie->bytes[first] == byte)
            return first;
    return 0;
}

// Returns the id of the piece with that text; -1: none.
int32_t piece_trie_find(const struct piece_trie *trie, struct text text);
// Returns the id of the longest piece that is a prefix of `text`, and its size in *size; -1: none.
int32_t piece_trie_longest(const struct piece_trie *trie, struct text text, size_t *size);

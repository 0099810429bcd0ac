#include "engine/tokenizer/piece_trie.h"

#include <stdlib.h>
#include <string.h>

static int compare_pieces(const void *a, const void *b)
{
    const struct trie_piece *left = a, *right = b;
    size_t size = left->text.size < right->text.size ? left->text.size : right->text.size;
    int order = memcmp(left->text.data, right->text.data, size);
    if (order)
        return order;
    if (left->text.size != right->text.size)
        return left->text.size < right->text.size ? -1 : 1;
    return (left->id > right->id) - (left->id < right->id);
}

// The pieces below a node: pieces[first..end), which share `depth` bytes.
struct piece_range {
    size_t first, end, depth;
};

struct trie_build {
    struct piece_trie *trie;
    const struct trie_piece *pieces;
    struct piece_range *ranges; // [capacity] of the nodes
    size_t capacity;
};

static bool add_node(struct trie_build *build, unsigned char byte, struct piece_range range)
{
    struct piece_trie *trie = build->trie;
    if (trie->n_nodes == build->capacity) {
        size_t capacity = build->capacity ? 2 * build->capacity : 1024;
        struct piece_range *ranges =
            capacity < UINT32_MAX ? realloc(build->ranges, capacity * sizeof *ranges) : NULL;
        if (ranges)
            build->ranges = ranges;
        struct trie_node *nodes = ranges ? realloc(trie->nodes, (capacity + 1) * sizeof *nodes) : NULL;
        if (nodes)
            trie->nodes = nodes;
        unsigned char *bytes = nodes ? realloc(trie->bytes, capacity) : NULL;
        if (!bytes)
            return false;
        trie->bytes = bytes;
        build->capacity = capacity;
    }
    build->ranges[trie->n_nodes] = range;
    trie->bytes[trie->n_nodes] = byte;
    trie->nodes[trie->n_nodes++] = (struct trie_node){0, -1};
    return true;
}

static unsigned char byte_at(const struct trie_piece *piece, size_t depth)
{
    return (unsigned char)piece->text.data[depth];
}

// Adds the children of a node; its first pieces may end at the node.
static bool add_children(struct trie_build *build, size_t node)
{
    struct piece_range range = build->ranges[node];
    for (; range.first < range.end && build->pieces[range.first].text.size == range.depth; range.first++)
        build->trie->nodes[node].id = build->pieces[range.first].id;
    build->trie->nodes[node].first = (uint32_t)build->trie->n_nodes;
    while (range.first < range.end) {
        unsigned char byte = byte_at(&build->pieces[range.first], range.depth);
        size_t end = range.first + 1;
        while (end < range.end && byte_at(&build->pieces[end], range.depth) == byte)
            end++;
        if (!add_node(build, byte, (struct piece_range){range.first, end, range.depth + 1}))
            return false;
        range.first = end;
    }
    return true;
}

bool piece_trie_build(struct piece_trie *trie, struct trie_piece *pieces, size_t n_pieces)
{
    *trie = (struct piece_trie){0};
    struct trie_build build = {.trie = trie, .pieces = pieces};
    if (n_pieces)
        qsort(pieces, n_pieces, sizeof *pieces, compare_pieces);
    bool done = add_node(&build, 0, (struct piece_range){0, n_pieces, 0});
    for (size_t node = 0; done && node < trie->n_nodes; node++)
        done = add_children(&build, node);
    free(build.ranges);
    if (!done) {
        piece_trie_finish(trie);
        return false;
    }
    trie->nodes[trie->n_nodes] = (struct trie_node){(uint32_t)trie->n_nodes, -1};
    for (uint32_t child = trie->nodes[0].first; child < trie->nodes[1].first; child++)
        trie->roots[trie->bytes[child]] = child;
    return true;
}

void piece_trie_finish(struct piece_trie *trie)
{
    free(trie->nodes);
    free(trie->bytes);
    *trie = (struct piece_trie){0};
}

uint32_t piece_trie_child_of_many(const struct piece_trie *trie, uint32_t node, unsigned char byte)
{
    uint32_t low = trie->nodes[node].first, end = trie->nodes[node + 1].first, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (trie->bytes[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && trie->bytes[low] == byte ? low : 0;
}

int32_t piece_trie_find(const struct piece_trie *trie, struct text text)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text.size; i++)
        if (!(node = piece_trie_child(trie, node, (unsigned char)text.data[i])))
            return -1;
    return node ? trie->nodes[node].id : -1;
}

int32_t piece_trie_longest(const struct piece_trie *trie, struct text text, size_t *size)
{
    int32_t longest = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size && (node = piece_trie_child(trie, node, (unsigned char)text.data[i]));
         i++)
        if (trie->nodes[node].id >= 0) {
            longest = trie->nodes[node].id;
            *size = i + 1;
        }
    return longest;
}

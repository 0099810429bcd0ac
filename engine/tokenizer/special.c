#include "engine/tokenizer/special.h"

#include <stdlib.h>
#include <string.h>

// -1: no memory.
static int32_t node_create(struct special_matcher *matcher, unsigned char byte)
{
    if (matcher->n_nodes == matcher->capacity) {
        size_t capacity = matcher->capacity ? 2 * matcher->capacity : 256;
        if (capacity > INT32_MAX)
            return -1;
        struct special_node *nodes = realloc(matcher->nodes, capacity * sizeof *nodes);
        if (!nodes)
            return -1;
        matcher->nodes = nodes;
        matcher->capacity = capacity;
    }
    matcher->nodes[matcher->n_nodes] =
        (struct special_node){.child = -1, .sibling = -1, .id = -1, .byte = byte};
    return (int32_t)matcher->n_nodes++;
}

static int32_t child_with(const struct special_matcher *matcher, int32_t node, unsigned char byte)
{
    int32_t child = matcher->nodes[node].child;
    while (child >= 0 && matcher->nodes[child].byte != byte)
        child = matcher->nodes[child].sibling;
    return child;
}

bool special_add(struct special_matcher *matcher, struct text text, int32_t id, bool is_control)
{
    if (text.size == 0)
        return true;
    unsigned char first = (unsigned char)text.data[0];
    int32_t node = matcher->roots[first] - 1;
    if (node < 0) {
        node = node_create(matcher, first);
        if (node < 0)
            return false;
        matcher->roots[first] = node + 1;
        matcher->first_root = first;
        matcher->n_roots++;
    }
    for (size_t i = 1; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        int32_t child = child_with(matcher, node, byte);
        if (child < 0) {
            child = node_create(matcher, byte);
            if (child < 0)
                return false;
            matcher->nodes[child].sibling = matcher->nodes[node].child;
            matcher->nodes[node].child = child;
        }
        node = child;
    }
    if (matcher->nodes[node].id < 0) {
        matcher->nodes[node].id = id;
        matcher->nodes[node].is_control = is_control;
    }
    matcher->has_text_token[first] |= !is_control;
    return true;
}

void special_finish(struct special_matcher *matcher)
{
    free(matcher->nodes);
    *matcher = (struct special_matcher){0};
}

static bool counts_at(struct special_controls controls, size_t start, size_t end)
{
    return controls.any && !(controls.plain && text_spans_touch(controls.plain, start, end));
}

// Finds the longest match that starts at `start`.
static bool match_at(const struct special_matcher *matcher, struct text text, size_t start,
                     struct special_controls controls, struct special_match *match)
{
    int32_t node = matcher->roots[(unsigned char)text.data[start]] - 1;
    size_t at = start + 1;
    bool found = false;
    while (node >= 0) {
        const struct special_node *reached = &matcher->nodes[node];
        if (reached->id >= 0 && (!reached->is_control || counts_at(controls, start, at))) {
            *match = (struct special_match){start, at, reached->id};
            found = true;
        }
        if (at == text.size)
            break;
        node = child_with(matcher, node, (unsigned char)text.data[at++]);
    }
    return found;
}

bool special_match_at(const struct special_matcher *matcher, struct text text, size_t start,
                      struct special_match *match)
{
    return match_at(matcher, text, start, (struct special_controls){.any = true}, match);
}

// Returns the next byte that can start a token; text.size: none. If all tokens start with the same byte
// (usually "<"), memchr finds it.
static size_t next_start(const struct special_matcher *matcher, struct text text, size_t at, bool controls)
{
    if (matcher->n_roots == 1) {
        const char *found = memchr(text.data + at, matcher->first_root, text.size - at);
        return found ? (size_t)(found - text.data) : text.size;
    }
    for (; at < text.size; at++) {
        unsigned char byte = (unsigned char)text.data[at];
        if (controls ? matcher->roots[byte] != 0 : matcher->has_text_token[byte])
            break;
    }
    return at;
}

bool special_find(const struct special_matcher *matcher, struct text text, size_t from,
                  struct special_controls controls, struct special_match *match)
{
    if (matcher->n_roots == 0)
        return false;
    for (size_t start = from; start < text.size; start++) {
        start = next_start(matcher, text, start, controls.any);
        if (start < text.size && match_at(matcher, text, start, controls, match))
            return true;
    }
    return false;
}

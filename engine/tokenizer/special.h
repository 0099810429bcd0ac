// Finds added tokens (control and user-defined ones) in text: the leftmost match, and the longest one if
// several start there. A trie over the tokens' bytes, immutable once built. The worst-case time is the size
// of the text times the size of the longest token.
#pragma once

#include "schemas/base/span.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct special_node {
    int32_t child, sibling; // -1: none
    int32_t id;             // the token that ends here; -1: none
    unsigned char byte;
    bool is_control; // matches only if control tokens are enabled
};

// Zeroed is valid and empty.
struct special_matcher {
    struct special_node *nodes;
    size_t n_nodes, capacity;
    int32_t roots[256];       // [first byte] node + 1; 0: no token starts with it
    int32_t n_roots;          // number of nonzero roots
    unsigned char first_root; // the first byte of one of them
    bool has_text_token[256]; // [first byte] a token that is not a control token starts with it
};

struct special_match {
    size_t start, end;
    int32_t id;
};

// False: out of memory. An empty text is ignored.
bool special_add(struct special_matcher *matcher, struct text text, int32_t id, bool is_control);
void special_finish(struct special_matcher *matcher);

// Which control tokens match: none (`any` false); all; or, with `plain`, those that do not overlap its spans.
struct special_controls {
    bool any;
    const struct text_spans *plain;
};

// Finds the first match in text[from..]. False: none.
bool special_find(const struct special_matcher *matcher, struct text text, size_t from,
                  struct special_controls controls, struct special_match *match);
// Finds the longest match that starts at text[start], start < text.size. Control tokens match too. False:
// none.
bool special_match_at(const struct special_matcher *matcher, struct text text, size_t start,
                      struct special_match *match);

// Finds added tokens (control and user-defined ones) in text: the first, and of those with the same start the
// longest. A trie over their bytes; immutable once built. Worst-case time: the size of the text times that of
// the longest token.
#pragma once

#include "schemas/span.h"
#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct special_node {
    int32_t child, sibling; // -1: none
    int32_t id;             // of the token that ends here; -1: none
    unsigned char byte;
    bool is_control; // matches only when control tokens are asked for
};

// Zeroed is valid and empty.
struct special_matcher {
    struct special_node *nodes;
    size_t n_nodes, capacity;
    int32_t roots[256];       // node + 1 of the tokens' first bytes; 0: none
    int32_t n_roots;          // that are not 0
    unsigned char first_root; // one of those bytes
    bool has_text_token[256]; // first bytes of tokens that are no control tokens
};

struct special_match {
    size_t start, end;
    int32_t id;
};

// False: no memory. Empty texts are left out.
bool special_add(struct special_matcher *matcher, struct text text, int32_t id, bool is_control);
void special_finish(struct special_matcher *matcher);

// Which control tokens match: none, all, or, if `plain` is not NULL, those that do not overlap it.
struct special_controls {
    bool any;
    const struct text_spans *plain;
};

// The first match in text[from..]. False: none.
bool special_find(const struct special_matcher *matcher, struct text text, size_t from,
                  struct special_controls controls, struct special_match *match);

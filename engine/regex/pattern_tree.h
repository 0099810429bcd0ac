// A pattern while it is parsed. Parts without assertions are already expressions. Other parts remain a tree
// until it is known what follows them (pattern_tree.c). Internal to engine/regex/.
#pragma once

#include "engine/regex/expression_parts.h"

enum pattern_kind {
    PATTERN_PLAIN,    // has an expression
    PATTERN_SEQUENCE, // has children
    PATTERN_CHOICE,   // has children
    PATTERN_REPEAT,   // has one child, repeated min to max times
    PATTERN_BEGIN,    // ^
    PATTERN_END,      // $ of ECMA-262, \Z and \z
    PATTERN_LINE_END, // $ of Python: at the end, or before a final line feed
    PATTERN_BOUNDARY, // \b, negative: \B
    PATTERN_AHEAD,    // (?=child), negative: (?!child)
};

struct pattern_node {
    uint8_t kind;
    bool negative;
    uint32_t expression;
    uint32_t first_child, n_children; // in pattern_tree.children
    uint32_t min, max;
};

enum { NO_PATTERN = UINT32_MAX };

struct pattern_tree {
    struct expressions *pool;
    VECTOR(struct pattern_node) nodes;
    VECTOR(uint32_t) children;
    uint64_t n_steps;
};

// The constructors convert nodes without assertions to PATTERN_PLAIN. NO_PATTERN: out of memory; the pool has
// failed.
uint32_t pattern_plain(struct pattern_tree *tree, uint32_t expression);
uint32_t pattern_assertion(struct pattern_tree *tree, enum pattern_kind kind, bool negative,
                           uint32_t child); // child NO_PATTERN: none
uint32_t pattern_many(struct pattern_tree *tree, enum pattern_kind kind, const uint32_t *children, size_t n);
uint32_t pattern_repeat(struct pattern_tree *tree, uint32_t child, uint32_t min, uint32_t max);
// *expression becomes the texts that the pattern matches as a whole or, with `search`, that contain a match.
// False: a repetition of an assertion is unbounded.
bool pattern_language(struct pattern_tree *tree, uint32_t root, bool search, uint32_t *expression);
void pattern_tree_finish(struct pattern_tree *tree);

uint32_t pattern_word_characters(struct expressions *pool); // \w

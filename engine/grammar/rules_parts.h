// Representation of rules: one node per symbol. Internal to engine/grammar/ and engine/json_schema/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/rules.h"

enum rule_kind {
    RULE_CHOICE,   // has children
    RULE_SEQUENCE, // has children
    RULE_REPEAT,   // has one child, repeated min to max times
    RULE_TERMINAL, // has an expression and an encoding
};

struct rule_node {
    uint8_t kind;
    uint8_t encoding;
    bool is_nonterminal; // created by rules_nonterminal()
    bool is_defined;
    bool nullable, productive;        // valid once the rules are compiled
    uint32_t first_child, n_children; // index and number in rules.children
    uint32_t min, max;
    uint32_t expression;
};

struct rules {
    struct expressions *expressions;
    VECTOR(struct rule_node) nodes; // indexed by symbol
    VECTOR(uint32_t) children;
    uint64_t schema_work; // work on all schemas compiled so far
};

// Merges symbols of equal structure, if they are not recursive. *start is the start symbol, and becomes the
// symbol it was merged into. Call it after pruning. False: out of memory.
bool rules_merge(struct rules *rules, uint32_t *start);

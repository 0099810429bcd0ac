// Representation of rules: one node per symbol. Internal to engine/grammar/ and engine/json_schema/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/rules.h"

enum rule_kind {
    RULE_CHOICE,   // children
    RULE_SEQUENCE, // children
    RULE_REPEAT,   // one child, min to max times
    RULE_TERMINAL, // expression and encoding
};

struct rule_node {
    uint8_t kind;
    uint8_t encoding;
    bool is_nonterminal; // created by rules_nonterminal()
    bool is_defined;
    bool nullable, productive;        // valid once the rules are compiled
    uint32_t first_child, n_children; // in rules.children
    uint32_t min, max;
    uint32_t expression;
};

struct rules {
    struct expressions *expressions;
    VECTOR(struct rule_node) nodes; // by symbol
    VECTOR(uint32_t) children;
    uint64_t schema_work; // of all schemas compiled so far
};

// Merges symbols of equal structure, as far as they are not recursive. *start: in, the start symbol; out,
// what it was merged into. Call after pruning. False: no memory.
bool rules_merge(struct rules *rules, uint32_t *start);

// Limits of grammars that come from outside. Each limit is counted, has a name that the error gives, and is
// reached in bounded time. Counts depend on the grammar and the text matched only, never on what is cached.
#pragma once

#include "schemas/base/text.h"

#include <stdint.h>

enum grammar_limit {
    GRAMMAR_LIMIT_SOURCE_BYTES, // bytes of one pattern, schema or grammar
    GRAMMAR_LIMIT_NODES,        // expressions in the pool, including those derived while matching
    GRAMMAR_LIMIT_POSITIONS,    // positions of one expression with its repetitions expanded (expression.h)
    GRAMMAR_LIMIT_DEPTH,        // nesting depth of the source
    GRAMMAR_LIMIT_RULES,        // symbols of a grammar plus the children of its rules
    GRAMMAR_LIMIT_SEARCH,       // states of a search that decides whether an expression matches anything
    GRAMMAR_LIMIT_STATE_ITEMS,  // items of one item set of the parser
    GRAMMAR_LIMIT_STATE_TERMS,  // terms of one derivative
    GRAMMAR_LIMIT_MASK_SETS,    // item sets that the tokens of one mask lead to
    GRAMMAR_LIMIT_SCHEMA_BYTES, // memory while one JSON Schema is compiled, including its document
    // Work of the mask before the text's first byte, of the closing costs after its tokens, and of the
    // shortest ends of all terminals. Higher than GRAMMAR_LIMIT_MASK_WORK, because no other sequence waits
    // for them.
    GRAMMAR_LIMIT_FIRST_WORK,
    // Work of any other mask (items processed, expressions derived), or of its closing costs.
    GRAMMAR_LIMIT_MASK_WORK,
    // Work of all masks and closing costs of one answer, except the first mask; each state counts once.
    GRAMMAR_LIMIT_ANSWER_WORK,
    GRAMMAR_LIMIT_WORK, // pieces of the derivatives computed while compiling
    GRAMMAR_LIMIT_COUNT,
};

struct grammar_limits {
    uint64_t values[GRAMMAR_LIMIT_COUNT];
};

extern const struct grammar_limits grammar_limits_default;

// Sets an error such as "grammar_nodes: more than 1000000". Returns STATUS_REJECT, ERROR_LIMIT_EXCEEDED.
enum status grammar_limit_reached(const struct grammar_limits *limits, enum grammar_limit limit,
                                  struct error *error);

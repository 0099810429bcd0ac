// Limits of grammars, which come from outside: each is counted, has a name that the error says, and is
// reached in a bounded time. All counts are functions of the grammar and of the text matched, never of what
// is cached.
#pragma once

#include "schemas/text.h"

#include <stdint.h>

enum grammar_limit {
    GRAMMAR_LIMIT_SOURCE_BYTES, // of one pattern, schema or grammar
    GRAMMAR_LIMIT_NODES,        // expressions in the pool, with those that matching derives
    GRAMMAR_LIMIT_POSITIONS,    // of one expression with its repetitions written out (see expression.h)
    GRAMMAR_LIMIT_DEPTH,        // of nesting in the source
    GRAMMAR_LIMIT_RULES,        // symbols of a grammar, with the children of its rules
    GRAMMAR_LIMIT_SEARCH,       // states looked at to find out whether an expression matches anything
    GRAMMAR_LIMIT_STATE_ITEMS,  // items of one state of the parser
    GRAMMAR_LIMIT_STATE_TERMS,  // terms of one derivative
    GRAMMAR_LIMIT_MASK_SETS,    // states of the parser that the tokens of one mask lead to
    GRAMMAR_LIMIT_SCHEMA_BYTES, // of memory of one JSON Schema while it is compiled, its document with it
    GRAMMAR_LIMIT_FIRST_WORK, // of the mask before the text's first byte and of the look behind its tokens, which are
    // made while others wait for nothing; of the shortest ends of all terminals, too
    GRAMMAR_LIMIT_MASK_WORK, // of any other mask: items that steps look at, and what expressions derive; of any other
                             // look how far the end is behind each token, too
    GRAMMAR_LIMIT_ANSWER_WORK, // of all masks and looks of one answer but the first mask, each state's once
    GRAMMAR_LIMIT_WORK,        // pieces of derivatives computed while compiling
    GRAMMAR_LIMIT_COUNT,
};

struct grammar_limits {
    uint64_t values[GRAMMAR_LIMIT_COUNT];
};

extern const struct grammar_limits grammar_limits_default;

// STATUS_REJECT, ERROR_LIMIT_EXCEEDED: "grammar_nodes: more than 200000".
enum status grammar_limit_reached(const struct grammar_limits *limits, enum grammar_limit limit,
                                  struct error *error);

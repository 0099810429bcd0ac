#include "engine/regex/grammar_limits.h"

static const char *const names[GRAMMAR_LIMIT_COUNT] = {
    [GRAMMAR_LIMIT_SOURCE_BYTES] = "grammar_source_bytes",
    [GRAMMAR_LIMIT_NODES] = "grammar_nodes",
    [GRAMMAR_LIMIT_POSITIONS] = "grammar_positions",
    [GRAMMAR_LIMIT_DEPTH] = "grammar_depth",
    [GRAMMAR_LIMIT_RULES] = "grammar_rules",
    [GRAMMAR_LIMIT_SEARCH] = "grammar_search",
    [GRAMMAR_LIMIT_STATE_ITEMS] = "grammar_state_items",
    [GRAMMAR_LIMIT_STATE_TERMS] = "grammar_state_terms",
    [GRAMMAR_LIMIT_MASK_SETS] = "grammar_mask_sets",
    [GRAMMAR_LIMIT_SCHEMA_BYTES] = "grammar_schema_bytes",
    [GRAMMAR_LIMIT_FIRST_WORK] = "grammar_first_work",
    [GRAMMAR_LIMIT_MASK_WORK] = "grammar_mask_work",
    [GRAMMAR_LIMIT_ANSWER_WORK] = "grammar_answer_work",
    [GRAMMAR_LIMIT_WORK] = "grammar_work",
};

const struct grammar_limits grammar_limits_default = {{
    [GRAMMAR_LIMIT_SOURCE_BYTES] = 1 << 20,
    [GRAMMAR_LIMIT_NODES] = 1000000,
    [GRAMMAR_LIMIT_POSITIONS] = 1000000,
    [GRAMMAR_LIMIT_DEPTH] = 200,
    [GRAMMAR_LIMIT_RULES] = 500000,
    [GRAMMAR_LIMIT_SEARCH] = 20000,
    [GRAMMAR_LIMIT_STATE_ITEMS] = 20000,
    [GRAMMAR_LIMIT_STATE_TERMS] = 20000,
    [GRAMMAR_LIMIT_MASK_SETS] = 50000,
    [GRAMMAR_LIMIT_SCHEMA_BYTES] = 100 << 20, // a document of GRAMMAR_LIMIT_SOURCE_BYTES uses 48 MB of it
    [GRAMMAR_LIMIT_FIRST_WORK] = 12000000,
    [GRAMMAR_LIMIT_MASK_WORK] = 3500000,
    [GRAMMAR_LIMIT_ANSWER_WORK] = 15000000,
    [GRAMMAR_LIMIT_WORK] = 5000000,
}};

enum status grammar_limit_reached(const struct grammar_limits *limits, enum grammar_limit limit,
                                  struct error *error)
{
    return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "%s: more than %llu", names[limit],
                     (unsigned long long)limits->values[limit]);
}

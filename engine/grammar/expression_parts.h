// The pool's inside: nodes, their hash table, and the derivatives found so far. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/expression.h"
#include "engine/grammar/vector.h"

enum expression_kind {
    KIND_NOTHING,
    KIND_EMPTY,
    KIND_SET,        // a: first range, b: how many
    KIND_CONCAT,     // a, b; a is no KIND_CONCAT
    KIND_EITHER,     // a: first link, b: how many; ascending, none of them KIND_EITHER
    KIND_BOTH,       // likewise
    KIND_COMPLEMENT, // a
    KIND_REPEAT,     // a, b: min, c: max
};

enum { EXPRESSION_DEPTH_STEP = 1, NO_DERIVATIVE = UINT32_MAX };

struct expression_node {
    uint8_t kind;
    bool nullable;
    bool uncertain;   // by a KIND_BOTH or KIND_COMPLEMENT: may match nothing, not being EXPRESSION_NOTHING
    bool in_search;   // seen by the search that is under way
    uint8_t liveness; // enum expression_liveness
    uint32_t a, b, c;
    uint32_t depth;                    // of the recursion that derives it
    uint32_t positions;                // see expression_positions; saturates
    uint32_t derivative, n_derivative; // pieces; NO_DERIVATIVE: not derived yet
};

enum expression_liveness { LIVENESS_UNKNOWN, LIVENESS_LIVE, LIVENESS_DEAD };

// The derivative for code points from `first` up to where the next piece begins. The first piece begins at 0.
struct expression_piece {
    uint32_t first, target;
};

struct expressions {
    struct grammar_limits limits;
    VECTOR(struct expression_node) nodes;
    VECTOR(struct code_range) ranges;
    VECTOR(uint32_t) links;
    VECTOR(struct expression_piece) pieces;
    uint32_t *table;   // of ids, 0: free (EXPRESSION_NOTHING is never looked up)
    size_t table_size; // a power of two
    uint64_t work;
    uint32_t
        number_sets[5]; // ids that json_number.c asks for again and again; EXPRESSION_NOTHING: not made yet
    enum status status;
    enum grammar_limit limit; // when the status is STATUS_REJECT
};

static inline const struct expression_node *expression_node(const struct expressions *pool, uint32_t id)
{
    return &pool->nodes.items[id];
}

// The id of a node, new or found. `payload` (ranges or links, n of them) is copied where the kind has one.
uint32_t expression_intern(struct expressions *pool, enum expression_kind kind, uint32_t a, uint32_t b,
                           uint32_t c, const void *payload, size_t n);
uint32_t expressions_fail(struct expressions *pool, enum grammar_limit limit); // returns EXPRESSION_NOTHING
uint32_t expressions_fail_memory(struct expressions *pool);

// Derives `id` if need be; false: the pool has failed. Then its pieces are pieces[derivative .. +
// n_derivative).
bool expression_derive(struct expressions *pool, uint32_t id);
// The derivative of one code point.
uint32_t expression_step(struct expressions *pool, uint32_t id, uint32_t code_point);
// Whether all code points first..last (surrogates apart) have one derivative, which is then in *target.
bool expression_step_range(struct expressions *pool, uint32_t id, uint32_t first, uint32_t last,
                           uint32_t *target);

// The pool's inside: nodes, their hash table, and the derivatives found so far. Internal to engine/grammar/.
#pragma once

#include "engine/regex/expression.h"
#include "engine/regex/vector.h"

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

enum {
    SEARCH_PIECES_SHORT = 1 << 10, // a search that looks at no more is counted by what it derives alone
    STATE_WORK = 100,              // of a state that steps are taken from
    PIECES_LOOKED_AT = 8,          // in the time of a step
    PARTS_WORK_MIN = 64,           // an expression that takes less is counted with its parts
};

enum work_stamp {
    STAMP_VISIT,    // the derivation is counted
    STAMP_FOLLOWED, // so are the searches whether its derivatives match anything
    STAMP_SEARCHED, // so is the search whether it matches anything, a long one
    STAMP_REACHED,  // so is what follows from it, as far as `counted`
    STAMP_COUNT,
};

enum { REACH_ALL = UINT16_MAX };

// How code points are spelled in bytes.
enum spelling { SPELLED_AS_UTF8, SPELLED_IN_JSON, SPELLING_COUNT };

// Steps of the constructors; both saturate.
struct expression_work {
    uint32_t own;                     // of deriving it, its parts being derived
    uint32_t all;                     // with its parts, shared ones as often as they are parts
    uint32_t stamps[2 * STAMP_COUNT]; // the last visits that counted it, and the last ones apart
};

// Of the search whether an expression matches anything, and of those of all that follows from it.
enum search_length { SEARCH_UNKNOWN, SEARCH_NONE, SEARCH_SHORT, SEARCH_LONG };

struct expression_node {
    uint8_t kind;
    bool nullable;
    bool uncertain;   // by a KIND_BOTH or KIND_COMPLEMENT: may match nothing, not being EXPRESSION_NOTHING
    bool in_search;   // seen by the search that is under way
    uint8_t liveness; // enum expression_liveness
    uint8_t search, ahead; // enum search_length
    bool is_repetition;    // KIND_REPEAT, alone or before another
    bool is_bound;         // least_bytes are a lower bound: a KIND_BOTH or KIND_COMPLEMENT is in it
    uint16_t least_bytes[SPELLING_COUNT]; // of a text that it matches; saturate
    uint16_t measured[SPELLING_COUNT];    // the same, exact, found by expression_measure
    bool is_measured[SPELLING_COUNT];
    uint32_t a, b, c;
    uint16_t
        reach; // of its search, a short one: code points to one that matches something; REACH_ALL: none does
    uint16_t counted[2];               // of a visit, and of one apart: see STAMP_REACHED
    uint32_t depth;                    // of the recursion that derives it
    uint32_t positions;                // see expression_positions; saturates
    uint32_t derivative, n_derivative; // pieces; NO_DERIVATIVE: not derived yet
    struct expression_work work;
};

enum expression_liveness { LIVENESS_UNKNOWN, LIVENESS_LIVE, LIVENESS_DEAD };

// The derivative for code points from `first` up to where the next piece begins. The first piece begins at 0.
struct expression_piece {
    uint32_t first, target;
};

// One look around a state, as a mask is: the work of the expressions that it derives, each once, whether they
// are derived already or not. So it is a function of the grammar and the state.
struct expressions_visit {
    uint32_t id;
    uint32_t first_stamp;     // 0; STAMP_COUNT: apart
    enum grammar_limit limit; // of its work
    uint64_t work;
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
    uint64_t steps;        // of the constructors: terms looked at, nodes asked for
    uint64_t steps_before; // the derivation that is under way
    uint32_t deriving;     // nodes that it is in
    struct expressions_visit visit;
    uint32_t n_apart; // visits
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
// Sets the node's least_bytes and is_bound from its children's.
void expression_describe_bytes(const struct expressions *pool, struct expression_node *node);
// Of the code points first..last, surrogates apart, the one with the shortest spelling.
unsigned spelled_bytes(enum spelling spelling, uint32_t first, uint32_t last);
uint32_t expressions_fail(struct expressions *pool, enum grammar_limit limit); // returns EXPRESSION_NOTHING
uint32_t expressions_fail_memory(struct expressions *pool);

// Derives `id` if need be; false: the pool has failed. Then its pieces are pieces[derivative .. +
// n_derivative).
bool expression_derive(struct expressions *pool, uint32_t id);
// Begins a visit, of which this much work is done.
void expressions_begin_visit(struct expressions *pool, uint64_t work);
static inline uint64_t expressions_work_max(const struct expressions *pool)
{
    return pool->limits.values[pool->visit.limit];
}
// A visit in the midst of another, which goes on behind it as if nothing had been counted meanwhile: its work is
// that of an answer which may be known. It has the other's limit.
struct expressions_visit expressions_begin_apart(struct expressions *pool);
uint64_t expressions_end_apart(struct expressions *pool, struct expressions_visit outer);
// Finds the least bytes of all expressions that follow from this one, whose least_bytes are a lower bound, if they
// are few enough. Work of the visit, without searches.
void expression_measure(struct expressions *pool, uint32_t id, enum spelling spelling);
static inline uint32_t expression_least(const struct expression_node *node, enum spelling spelling,
                                        bool *is_exact)
{
    *is_exact = !node->is_bound || node->is_measured[spelling];
    return node->is_measured[spelling] ? node->measured[spelling] : node->least_bytes[spelling];
}
// Derives `id` if need be and counts the work of that once a visit.
bool expression_count_derivative(struct expressions *pool, uint32_t id);
// Adds to the work of the visit. False: more than its limit, or the pool has failed.
bool expressions_add_work(struct expressions *pool, uint64_t work);
// Derives `id` if need be and counts the work of that, and of the searches whether its derivatives match anything,
// each expression once a visit. Before steps from it are taken. False as above.
bool expression_count(struct expressions *pool, uint32_t id);
// The expressions that are derived for the node: *parts, which may be `own`. Returns how many.
uint32_t expression_derived_parts(const struct expressions *pool, const struct expression_node *node,
                                  uint32_t own[2], const uint32_t **parts);
// A measure of the time that deriving it took: its pieces, times the terms of two levels.
uint64_t expression_derived_work(const struct expressions *pool, uint32_t id);
// The derivative of one code point.
uint32_t expression_step(struct expressions *pool, uint32_t id, uint32_t code_point);
// The code points around this one that have its derivative; `id` is derived.
void expression_piece_range(const struct expressions *pool, uint32_t id, uint32_t code_point, uint32_t *first,
                            uint32_t *last);
// Whether all code points first..last (surrogates apart) have one derivative, which is then in *target.
bool expression_step_range(struct expressions *pool, uint32_t id, uint32_t first, uint32_t last,
                           uint32_t *target);

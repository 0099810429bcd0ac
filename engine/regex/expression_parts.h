// Representation of the pool: nodes, their hash table, and the derivatives computed so far. Internal to
// engine/regex/, engine/grammar/ and engine/json_schema/.
#pragma once

#include "engine/regex/expression.h"
#include "engine/regex/vector.h"
#include "schemas/base/hash_index.h"

enum expression_kind {
    KIND_NOTHING,
    KIND_EMPTY,
    KIND_SET,        // a: index of the first range, b: number of ranges
    KIND_CONCAT,     // a, b; a is not a KIND_CONCAT
    KIND_EITHER,     // a: index of the first link, b: number of links; ascending, none is a KIND_EITHER
    KIND_BOTH,       // the same; none is a KIND_BOTH
    KIND_COMPLEMENT, // a: the operand
    KIND_REPEAT,     // a: the operand, b: min, c: max
};

enum { EXPRESSION_DEPTH_STEP = 1, NO_DERIVATIVE = UINT32_MAX };

enum {
    SEARCH_PIECES_SHORT = 1 << 10, // a search of at most so many pieces counts only the work of its
                                   // derivatives
    STATE_WORK = 100,              // work of a state from which steps are made
    PIECES_LOOKED_AT = 8,          // pieces visited in the time of one step
    PARTS_WORK_MIN = 64,           // an expression with less work is counted together with its parts
};

enum work_stamp {
    STAMP_VISIT,    // its derivative was counted
    STAMP_FOLLOWED, // the searches that decide whether its derivatives match anything were counted
    STAMP_SEARCHED, // the long search that decides whether it matches anything was counted
    STAMP_REACHED,  // its successors within `counted` code points were counted
    STAMP_COUNT,
};

enum { REACH_ALL = UINT16_MAX };

// Encodings of code points in bytes.
enum spelling { SPELLED_AS_UTF8, SPELLED_IN_JSON, SPELLING_COUNT };

// Work in steps of the constructors. `own` and `all` saturate.
struct expression_work {
    uint32_t own;                     // work of deriving it after its parts
    uint32_t all;                     // work including its parts; a shared part counts each time
    uint32_t stamps[2 * STAMP_COUNT]; // by enum work_stamp: the last visit that counted it; then the same for
                                      // visits apart
};

// Length of the search that decides whether an expression matches anything. `ahead` is the longest such
// search of its derivatives.
enum search_length { SEARCH_UNKNOWN, SEARCH_NONE, SEARCH_SHORT, SEARCH_LONG };

struct expression_node {
    uint8_t kind;
    bool nullable;
    bool uncertain;   // contains a KIND_BOTH or KIND_COMPLEMENT that may match nothing although it is not
                      // EXPRESSION_NOTHING
    bool in_search;   // already found by the current search
    uint8_t liveness; // enum expression_liveness
    uint8_t search, ahead; // enum search_length
    bool is_repetition;    // a KIND_REPEAT, or a concatenation that begins with one
    bool is_bound;         // contains a KIND_BOTH or KIND_COMPLEMENT, so least_bytes are a lower bound
    uint16_t least_bytes[SPELLING_COUNT]; // minimum bytes of a text that it matches; they saturate
    uint16_t measured[SPELLING_COUNT];    // exact values, computed by expression_measure()
    bool is_measured[SPELLING_COUNT];
    uint32_t a, b, c;
    // Result of a short search: number of code points to the nearest expression that matches something.
    // REACH_ALL: none.
    uint16_t reach;
    uint16_t counted[2];               // see STAMP_REACHED; for visits, and for visits apart
    uint32_t depth;                    // recursion depth of its derivation
    uint32_t positions;                // see expression_positions(); saturates
    uint32_t derivative, n_derivative; // first piece and number of pieces; NO_DERIVATIVE: not derived yet
    struct expression_work work;
};

enum expression_liveness { LIVENESS_UNKNOWN, LIVENESS_LIVE, LIVENESS_DEAD };

// A piece of the derivative: the target for the code points from `first` up to the next piece's `first`. The
// first piece begins at 0.
struct expression_piece {
    uint32_t first, target;
};

// A visit is one computation from a state, such as a mask. Its work is the sum over the distinct expressions
// derived, cached or not, so it depends on the grammar and the state only.
struct expressions_visit {
    uint32_t id;
    uint32_t first_stamp;     // 0, or STAMP_COUNT in a visit apart
    enum grammar_limit limit; // limit of its work
    uint64_t work;
};

struct expressions {
    struct grammar_limits limits;
    VECTOR(struct expression_node) nodes;
    VECTOR(struct code_range) ranges;
    VECTOR(uint32_t) links;
    VECTOR(struct expression_piece) pieces;
    struct hash_index index; // finds nodes; EXPRESSION_NOTHING, 0, is never searched
    uint64_t work;
    uint64_t steps;        // steps of the constructors: terms processed and nodes interned
    uint64_t steps_before; // `steps` before the current derivation
    uint32_t deriving;     // recursion depth of the current derivation
    struct expressions_visit visit;
    uint32_t n_apart; // number of visits apart so far
    // Sets that json_number.c uses repeatedly; EXPRESSION_NOTHING: not created yet.
    uint32_t number_sets[5];
    enum status status;
    enum grammar_limit limit; // valid if the status is STATUS_REJECT
};

static inline const struct expression_node *expression_node(const struct expressions *pool, uint32_t id)
{
    return &pool->nodes.items[id];
}

// Returns the node's id, found or added. `payload` (n ranges or links) is copied if the kind has one.
uint32_t expression_intern(struct expressions *pool, enum expression_kind kind, uint32_t a, uint32_t b,
                           uint32_t c, const void *payload, size_t n);
// Computes the node's least_bytes and is_bound from its children.
void expression_describe_bytes(const struct expressions *pool, struct expression_node *node);
// Bytes of the shortest spelling of a code point in first..last. Surrogates do not count.
unsigned spelled_bytes(enum spelling spelling, uint32_t first, uint32_t last);
uint32_t expressions_fail(struct expressions *pool, enum grammar_limit limit); // returns EXPRESSION_NOTHING
uint32_t expressions_fail_memory(struct expressions *pool);

// Derives `id` if necessary. Its pieces are then pieces[derivative .. derivative + n_derivative). False: the
// pool has failed.
bool expression_derive(struct expressions *pool, uint32_t id);
// Starts a visit whose work is `work` so far.
void expressions_begin_visit(struct expressions *pool, uint64_t work);
static inline uint64_t expressions_work_max(const struct expressions *pool)
{
    return pool->limits.values[pool->visit.limit];
}
// Begins a visit apart: a visit within another one, for a computation whose result may be cached. It has the
// limit of the outer visit, which then continues as if nothing had been counted.
struct expressions_visit expressions_begin_apart(struct expressions *pool);
uint64_t expressions_end_apart(struct expressions *pool, struct expressions_visit outer);
// Computes the exact minimum bytes of the expression and of all its successors, if least_bytes is only a
// lower bound and they are few enough. The work, without searches, counts toward the visit.
void expression_measure(struct expressions *pool, uint32_t id, enum spelling spelling);
static inline uint32_t expression_least(const struct expression_node *node, enum spelling spelling,
                                        bool *is_exact)
{
    *is_exact = !node->is_bound || node->is_measured[spelling];
    return node->is_measured[spelling] ? node->measured[spelling] : node->least_bytes[spelling];
}
// Derives `id` if necessary and counts that work once per visit.
bool expression_count_derivative(struct expressions *pool, uint32_t id);
// Adds to the visit's work. False: its limit is exceeded, or the pool has failed.
bool expressions_add_work(struct expressions *pool, uint64_t work);
// Derives `id` if necessary. Counts, once per visit, that work and the searches that decide whether its
// derivatives match anything. Call it before the first step from `id`. False as above.
bool expression_count(struct expressions *pool, uint32_t id);
// Finds the expressions that must be derived before the node: *parts, which may point to `own`. Returns their
// number.
uint32_t expression_derived_parts(const struct expressions *pool, const struct expression_node *node,
                                  uint32_t own[2], const uint32_t **parts);
// Estimates the time of deriving it: its pieces times the terms of two levels.
uint64_t expression_derived_work(const struct expressions *pool, uint32_t id);
// Returns the derivative by one code point.
uint32_t expression_step(struct expressions *pool, uint32_t id, uint32_t code_point);
// Finds the range of code points around this one that have the same derivative. `id` must be derived.
void expression_piece_range(const struct expressions *pool, uint32_t id, uint32_t code_point, uint32_t *first,
                            uint32_t *last);
// True if all code points first..last (without surrogates) have one derivative; *target is then set.
bool expression_step_range(struct expressions *pool, uint32_t id, uint32_t first, uint32_t last,
                           uint32_t *target);

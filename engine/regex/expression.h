// Regular expressions over sets of Unicode code points (surrogates excluded), hash-consed in one pool: equal
// ids are equal expressions after simplification, so an id is also a state of the expression's automaton (J.
// A. Brzozowski, "Derivatives of Regular Expressions", 1964). Intersection and complement are ordinary
// operators.
//
// A pool remembers its first failure (a limit, memory); every constructor then returns EXPRESSION_NOTHING,
// and expressions_status says what it was: check it once at the end. Not thread-safe.
#pragma once

#include "engine/regex/grammar_limits.h"

enum {
    EXPRESSION_NOTHING = 0, // no string at all
    EXPRESSION_EMPTY = 1,   // ""
    EXPRESSION_ANY = 2,     // one code point, whichever
    EXPRESSION_ALL = 3,     // every string
    EXPRESSION_UNBOUNDED = UINT32_MAX,
    CODE_POINT_MAX = 0x10FFFF,
};

struct expressions;

struct code_range {
    uint32_t first, last;
};

// NULL when memory runs out. `limits` NULL: grammar_limits_default.
struct expressions *expressions_create(const struct grammar_limits *limits);
struct expressions *expressions_copy(const struct expressions *expressions); // the same ids
void expressions_destroy(struct expressions *expressions);
// STATUS_OK, or the first failure: STATUS_REJECT for a limit, STATUS_RETRY for memory. `error` may be NULL.
enum status expressions_status(const struct expressions *expressions, struct error *error);

// One code point of the ranges: in any order, overlapping or not; surrogates and what lies above
// CODE_POINT_MAX do not count.
uint32_t expression_set(struct expressions *pool, const struct code_range *ranges, size_t n_ranges);
uint32_t expression_set_complement(struct expressions *pool,
                                   uint32_t set); // of one code point; `set` is a set or NOTHING
// Whether a set has one code point, which is then in *code_point.
bool expression_code_point(const struct expressions *pool, uint32_t set, uint32_t *code_point);
uint32_t expression_literal(struct expressions *pool,
                            struct text utf8); // bytes that are no UTF-8: EXPRESSION_NOTHING
// One of the texts, which are UTF-8 and are sorted in place. Its positions are at most their bytes.
uint32_t expression_texts(struct expressions *pool, struct text *texts, size_t n_texts);
uint32_t expression_concat(struct expressions *pool, uint32_t a, uint32_t b);
uint32_t expression_either(struct expressions *pool, uint32_t a, uint32_t b);
uint32_t expression_both(struct expressions *pool, uint32_t a, uint32_t b);
// The same of many at once, in n log n.
uint32_t expression_concat_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_either_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_both_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_complement(struct expressions *pool, uint32_t a);
uint32_t expression_without(struct expressions *pool, struct text utf8); // texts that do not have this one
uint32_t expression_repeat(struct expressions *pool, uint32_t a, uint32_t min, uint32_t max);

// Counted against GRAMMAR_LIMIT_POSITIONS: sets with repetitions written out, of which a repeated set itself
// counts one position a thousand times, because it has one state at a time.
uint64_t expression_positions(const struct expressions *pool, uint32_t a);
bool expression_is_nullable(const struct expressions *pool, uint32_t a); // matches ""
// Whether it matches the text; false too once the pool has failed.
bool expression_matches(struct expressions *pool, uint32_t a, struct text utf8);
// Whether it matches no string, found by derivatives up to GRAMMAR_LIMIT_SEARCH; the pool fails there, and
// the answer is then false.
bool expression_is_empty_language(struct expressions *pool, uint32_t a);

enum pattern_dialect {
    PATTERN_SEARCH, // JSON Schema's `pattern`: ECMA-262 with flag u, found anywhere in the text unless
                    // anchored
    PATTERN_WHOLE,  // a regex as Python's re.fullmatch has it, with flag re.ASCII
    PATTERN_PART,   // the same of a part of a text: assertions, which look at what is around it, are refused
};
// The set of all texts that the pattern accepts. STATUS_REJECT with the construct's name for syntax that is
// wrong or not regular (backreferences) or not built (look-behind, Unicode properties).
enum status expression_parse(struct expressions *pool, struct text pattern, enum pattern_dialect dialect,
                             uint32_t *expression, struct error *error) WARN_UNUSED;

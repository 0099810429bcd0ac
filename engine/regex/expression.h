// Regular expressions over Unicode code points (without surrogates), hash-consed in a pool. Expressions with
// equal ids are equal after simplification, so an id is also a state of the automaton whose steps are
// derivatives (J. A. Brzozowski, "Derivatives of Regular Expressions", 1964). Intersection and complement are
// ordinary operators.
//
//   derivative of  ab|ac*  by a:  b|c*      by b:  EXPRESSION_NOTHING
//   the text "ac" matches: derive by a, then by c, and c* is nullable (matches "")
//
// A pool remembers its first failure: a limit, or no memory. Every constructor then returns
// EXPRESSION_NOTHING; check expressions_status() once at the end. Not thread-safe.
#pragma once

#include "engine/regex/grammar_limits.h"

enum {
    EXPRESSION_NOTHING = 0, // no string at all
    EXPRESSION_EMPTY = 1,   // ""
    EXPRESSION_ANY = 2,     // any single code point
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

// Matches any one code point of the ranges, which may overlap and be in any order. Surrogates and values
// above CODE_POINT_MAX are ignored.
uint32_t expression_set(struct expressions *pool, const struct code_range *ranges, size_t n_ranges);
uint32_t expression_set_complement(struct expressions *pool,
                                   uint32_t set); // all other code points; `set` is a set or
                                                  // EXPRESSION_NOTHING
// True if the set has exactly one code point; *code_point is then set.
bool expression_code_point(const struct expressions *pool, uint32_t set, uint32_t *code_point);
uint32_t expression_literal(struct expressions *pool,
                            struct text utf8); // invalid UTF-8: EXPRESSION_NOTHING
// Matches any of the texts (UTF-8; the array is sorted in place). Has no more positions than the texts have
// bytes.
uint32_t expression_texts(struct expressions *pool, struct text *texts, size_t n_texts);
uint32_t expression_concat(struct expressions *pool, uint32_t a, uint32_t b);
uint32_t expression_either(struct expressions *pool, uint32_t a, uint32_t b);
uint32_t expression_both(struct expressions *pool, uint32_t a, uint32_t b);
// Join many operands at once, in O(n log n).
uint32_t expression_concat_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_either_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_both_many(struct expressions *pool, const uint32_t *parts, size_t n_parts);
uint32_t expression_complement(struct expressions *pool, uint32_t a);
uint32_t expression_without(struct expressions *pool, struct text utf8); // texts that do not contain `utf8`
uint32_t expression_repeat(struct expressions *pool, uint32_t a, uint32_t min, uint32_t max);

// The number that counts against GRAMMAR_LIMIT_POSITIONS: sets, with repetitions expanded. A repeated set
// counts only once per thousand, because it has one state at a time.
uint64_t expression_positions(const struct expressions *pool, uint32_t a);
bool expression_is_nullable(const struct expressions *pool, uint32_t a); // matches ""
// True if it matches the text. Also returns false if the pool has failed.
bool expression_matches(struct expressions *pool, uint32_t a, struct text utf8);
// True if it matches no text. Searches the derivatives; at GRAMMAR_LIMIT_SEARCH the pool fails and the result
// is false.
bool expression_is_empty_language(struct expressions *pool, uint32_t a);

enum pattern_dialect {
    // JSON Schema's `pattern`: ECMA-262 with flag u, found anywhere in the text unless anchored.
    PATTERN_SEARCH,
    PATTERN_WHOLE, // a regex for the whole text, like Python's re.fullmatch with flag re.ASCII
    PATTERN_PART,  // the same for a part of a text; assertions about surrounding text are rejected
};
// Parses a pattern. The expression matches the texts that the pattern accepts. STATUS_REJECT names the
// construct: wrong syntax, not regular (backreferences), or not supported (look-behind, Unicode properties).
enum status expression_parse(struct expressions *pool, struct text pattern, enum pattern_dialect dialect,
                             uint32_t *expression, struct error *error) WARN_UNUSED;

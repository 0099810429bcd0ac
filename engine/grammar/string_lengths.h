// Upper bound on the characters that complete a match, from any state of an expression. Away from a length
// limit, a bounded string allows the same tokens as an unbounded one. Internal to engine/grammar/.
//
//   (ab)* with at most 100 characters: to_end is 1 (after "a").
//   With 20 characters left, every token of at most 19 characters that (ab)* allows is allowed.
#pragma once

#include "engine/regex/expression_parts.h"

// Lengths of the texts that an expression matches.
struct string_lengths {
    uint32_t expression;   // EXPRESSION_NOTHING: a free entry
    bool known;            // false: too many states, or a state without a known end
    bool exact;            // all states are known, so to_end_first is exact
    bool extends;          // each state can also end after any higher number of characters
    uint32_t n_letters;    // all states after at most this many characters are known
    uint32_t to_end;       // each of these states ends within this many more characters
    uint32_t to_end_first; // characters from `expression` to its nearest end; EXPRESSION_UNBOUNDED: none
                           // found
    uint64_t work;         // work of the computed derivatives
};

enum { STRING_LENGTHS_KEPT = 64 };

struct length_state {
    uint32_t expression;
    uint32_t to_end; // characters to the nearest known end; EXPRESSION_UNBOUNDED: none
    bool extends;    // it can also end after any higher number of characters
};

// For each expression the time it was last seen.
struct length_stamps {
    uint64_t *items;
    size_t n, capacity;
};

// The caller sets `visit`. The work of an expression counts once per visit.
struct length_search {
    struct string_lengths *kept;       // indexed by expression % STRING_LENGTHS_KEPT; NULL: not allocated yet
    VECTOR(struct length_state) found; // in order of discovery
    struct length_stamps places;       // the last search that found it, and its index in `found`
    struct length_stamps counted;      // the last visit that counted its work
    uint64_t search, visit;
};

// Finds the lengths, which depend on the expression only. Only GRAMMAR_LIMIT_NODES and the visit's work limit
// can make the pool fail. NULL: the pool has failed. Counts the work of the search, cached or not. Valid
// until the next call.
const struct string_lengths *string_lengths_find(struct length_search *search, struct expressions *pool,
                                                 uint32_t expression);
void length_search_finish(struct length_search *search);

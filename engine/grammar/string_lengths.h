// How long the texts of an expression are: how many more characters end one, wherever it is. Where few do,
// limits of the length matter only near them, so a string within limits has, elsewhere, the tokens of the
// string without them. Internal to engine/grammar/.
#pragma once

#include "engine/regex/expression_parts.h"

// Of the texts so far that an expression can still match.
struct string_lengths {
    uint32_t expression;   // EXPRESSION_NOTHING: a free entry
    bool known;            // false: too many states, or one of which no end was found
    bool exact;            // every state is known: to_end_first is no upper bound alone
    bool extends;          // each can end with any larger number of characters too
    uint32_t n_letters;    // texts of at most that many characters are known
    uint32_t to_end;       // each of them ends with at most that many more
    uint32_t to_end_first; // the expression itself; EXPRESSION_UNBOUNDED: no end was found
    uint64_t work;         // of the expressions that were derived
};

enum { STRING_LENGTHS_KEPT = 64 };

struct length_state {
    uint32_t expression;
    uint32_t to_end; // characters to the nearest end that is known; EXPRESSION_UNBOUNDED: none is
    bool extends;    // to any number above too
};

// By expression.
struct length_stamps {
    uint64_t *items;
    size_t n, capacity;
};

// `visit` is the caller's: in one, an expression's work is counted once.
struct length_search {
    struct string_lengths *kept;       // by expression % STRING_LENGTHS_KEPT; NULL: none asked for yet
    VECTOR(struct length_state) found; // in the order of their discovery
    struct length_stamps places;       // the last search that found it, and its place
    struct length_stamps counted;      // the last visit that counted its work
    uint64_t search, visit;
};

// A measure of the expression alone; a limit that is reached is no failure of the pool. NULL: the pool has
// failed. Counts the work of the search, made now or before. Valid until the next call.
const struct string_lengths *string_lengths_find(struct length_search *search, struct expressions *pool,
                                                 uint32_t expression);
void length_search_finish(struct length_search *search);

// Dead ends inside a JSON string: which letters it takes, in whatever order, until nothing can follow. Tokens
// that lack one of the letters of each way there stay inside the string, and need no walk. For patterns that
// are found anywhere, and their complements: what ends them is rare, and each of its letters is not. Internal
// to engine/grammar/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/string_letters.h"

enum { DEAD_ENDS_WAYS_MAX = 16, DEAD_ENDS_SETS_MAX = 256 };

// Sets of letters, a bit each: a text has a letter of each of them before it ends dead.
struct dead_ends_way {
    uint64_t words[DEAD_ENDS_SETS_MAX / 64];
};

struct dead_ends_state {
    uint32_t expression;
    uint32_t first_step, n_steps; // of dead_ends.steps
    bool is_live;
    bool is_near; // sets that many tokens have a letter of lead there
    uint32_t n_ways;
    struct dead_ends_way ways[DEAD_ENDS_WAYS_MAX]; // of no sets: any text may end dead
};

// The letters of sets[set] lead to the state at a place, or to none.
struct dead_ends_step {
    uint32_t set, to;
};

struct dead_ends {
    bool known;
    VECTOR(struct dead_ends_state) found; // the first is the search's expression
    VECTOR(struct dead_ends_step) steps;
    VECTOR(uint64_t) places; // by expression: the last search that found it, and its place
    struct letter_set sets[DEAD_ENDS_SETS_MAX], regular;
    bool is_rare[DEAD_ENDS_SETS_MAX]; // by set: few tokens have one of its letters
    uint32_t n_sets;
    uint64_t search;
};

enum { DEAD_ENDS_NONE = UINT32_MAX };

struct string_tokens;

// Looks at all that can follow the expression. `known` is false where that is too much, or where most tokens
// may end dead; a measure of the expression alone, and a limit that is reached is no failure of the pool.
void dead_ends_find(struct dead_ends *ends, struct expressions *pool, uint32_t expression,
                    const struct string_tokens *tokens);
// The place of an expression of the last search; DEAD_ENDS_NONE: it is not known.
uint32_t dead_ends_place(const struct dead_ends *ends, uint32_t expression);
// Whether texts of these letters alone lead from the state at the place to no dead end.
bool dead_ends_avoided(const struct dead_ends *ends, uint32_t place, const struct letter_set *letters);
// Of the tokens that stay inside a string of any characters, sets the bits of those that may lead from the
// state to a dead end; `room` is of as many words. False: most tokens may.
bool dead_ends_tokens(const struct dead_ends *ends, uint32_t place, const struct string_tokens *tokens,
                      size_t n_words, uint32_t *room, uint32_t *bits);
void dead_ends_finish(struct dead_ends *ends);

// Dead ends inside a JSON string: which letters every text must contain, in any order, to reach one. A token
// without one of these letters stays inside the string and needs no walk. Helps patterns that may match
// anywhere, and their complements: a dead end needs a rare combination of letters that are frequent one by
// one. Internal to engine/grammar/.
//
//   string that must not contain "DROP":  s0 -D-> s1 -R-> s2 -O-> s3 -P-> dead end
//   ways of s0: {D, R, O, P}     token "TABLE" has no D: it stays inside
//   ways of s2: {O, P}           token "STOP" has both: it is walked
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/string_letters.h"

enum { DEAD_ENDS_WAYS_MAX = 16, DEAD_ENDS_SETS_MAX = 256 };

// A way to a dead end, as a bit per letter set: each text that ends dead contains a letter of each set.
struct dead_ends_way {
    uint64_t words[DEAD_ENDS_SETS_MAX / 64];
};

struct dead_ends_state {
    uint32_t expression;
    uint32_t first_step, n_steps; // of dead_ends.steps
    bool is_live;
    bool is_near; // reached by sets whose letters are in many tokens
    uint32_t n_ways;
    struct dead_ends_way ways[DEAD_ENDS_WAYS_MAX]; // a way without sets: any text may end dead
};

// Letters of sets[set] lead to found[to]; DEAD_ENDS_NONE: to a dead end.
struct dead_ends_step {
    uint32_t set, to;
};

struct dead_ends {
    bool known;
    VECTOR(struct dead_ends_state) found; // the first is the expression searched
    VECTOR(struct dead_ends_step) steps;
    VECTOR(uint64_t) places; // by expression: the last search that found it, and its index in `found`
    struct letter_set sets[DEAD_ENDS_SETS_MAX], regular;
    bool is_rare[DEAD_ENDS_SETS_MAX]; // by set: few tokens contain one of its letters
    uint32_t n_sets;
    uint64_t search;
};

enum { DEAD_ENDS_NONE = UINT32_MAX };

struct string_tokens;

// Derives all that can follow the expression. `known` is false if this is too much, or if most tokens may end
// dead. Depends on the expression only. GRAMMAR_LIMIT_NODES is the only limit that makes the pool fail.
void dead_ends_find(struct dead_ends *ends, struct expressions *pool, uint32_t expression,
                    const struct string_tokens *tokens);
// Index in `found` of an expression of the last search; else DEAD_ENDS_NONE.
uint32_t dead_ends_place(const struct dead_ends *ends, uint32_t expression);
// Whether texts of these letters only lead from found[place] to no dead end.
bool dead_ends_avoided(const struct dead_ends *ends, uint32_t place, const struct letter_set *letters);
// Sets the bits of those tokens of a string of any characters that may reach a dead end from found[place].
// `room`: n_words of scratch. False: most tokens may, or the state is dead.
bool dead_ends_tokens(const struct dead_ends *ends, uint32_t place, const struct string_tokens *tokens,
                      size_t n_words, uint32_t *room, uint32_t *bits);
void dead_ends_finish(struct dead_ends *ends);

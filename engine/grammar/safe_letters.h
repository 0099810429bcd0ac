// Safe letters of a string: from a state, whichever of them follow, in whatever order, the string can go on.
// Tokens of safe letters alone stay inside it and need no walk, though they lead to many states, as those of a
// URI do, or of counted words. Internal to engine/grammar/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/string_letters.h"

struct safe_state {
    uint32_t expression;
    uint32_t first_step, n_steps; // of safe_letters.steps
    bool is_expanded;
    uint64_t pass;           // the last that reached it: what follows is of that one
    uint32_t n_before;       // letters on the shortest way to it
    uint32_t n_tokens;       // that have a letter of the step that reached it, at most
    struct letter_set entry; // the letters of that step
};

// The letters lead to the state at a place, or to none.
struct safe_step {
    struct letter_set letters;
    uint32_t to;
};

struct safe_letters {
    bool known;
    bool closed; // however many of them
    struct letter_set letters;
    VECTOR(struct safe_state) found; // the first is the search's expression
    VECTOR(struct safe_step) steps;
    VECTOR(uint32_t) queue;
    VECTOR(uint64_t) places; // by expression: the last search that found it, and its place
    uint64_t search, pass;
};

enum { SAFE_LETTERS_NONE = UINT32_MAX };

struct string_tokens;

// `known` is false where too much can follow the expression. A measure of the expression alone, and a limit
// that is reached is no failure of the pool.
void safe_letters_find(struct safe_letters *safe, struct expressions *pool, uint32_t expression,
                       const struct string_tokens *tokens);
// The place of an expression that safe letters lead to; SAFE_LETTERS_NONE: none do.
uint32_t safe_letters_place(const struct safe_letters *safe, uint32_t expression);
// Whether the letters are safe from the state at the place.
bool safe_letters_have(const struct safe_letters *safe, uint32_t place, const struct letter_summary *summary);
// Of the tokens that stay inside a string of any characters, sets the bits of those that have other letters, or
// too many, and clears all others. False: it is more than n_max.
bool safe_letters_tokens(const struct safe_letters *safe, const struct string_tokens *tokens, size_t n_words,
                         size_t n_max, uint32_t *bits);
void safe_letters_finish(struct safe_letters *safe);

// Safe letters of a string: letters that can follow a state in any order without a dead end. Tokens of safe
// letters only stay inside the string and need no walk, even if they lead to many states, as in a URI or a
// pattern of counted words. Internal to engine/grammar/.
//
//   URI after "http://": letters, digits and '-' are safe, ':' and '%' are not
//   (a port or an escape must follow); a token without these two stays inside
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/string_letters.h"

struct safe_state {
    uint32_t expression;
    uint32_t first_step, n_steps; // of safe_letters.steps
    bool is_expanded;
    uint64_t pass;           // the last pass that reached it; the fields below are of this pass
    uint32_t n_before;       // letters on the shortest path to it
    uint32_t n_tokens;       // upper bound of the tokens that contain a letter of `entry`
    struct letter_set entry; // letters of the step that reached it
};

// The letters lead to found[to]; SAFE_LETTERS_NONE: to a dead end.
struct safe_step {
    struct letter_set letters;
    uint32_t to;
};

struct safe_letters {
    bool known;
    bool closed;                     // safe in any number; else at most LEVELS of them
    struct letter_set letters;       // the safe letters
    VECTOR(struct safe_state) found; // the first is the expression searched
    VECTOR(struct safe_step) steps;
    VECTOR(uint32_t) queue;
    VECTOR(uint64_t) places; // by expression: the last search that found it, and its index in `found`
    uint64_t search, pass;
};

enum { SAFE_LETTERS_NONE = UINT32_MAX };

struct string_tokens;

// `known` is false if too many states can follow the expression. Depends on the expression only.
// GRAMMAR_LIMIT_NODES is the only limit that makes the pool fail.
void safe_letters_find(struct safe_letters *safe, struct expressions *pool, uint32_t expression,
                       const struct string_tokens *tokens);
// Index in `found` of an expression that safe letters lead to; else SAFE_LETTERS_NONE.
uint32_t safe_letters_place(const struct safe_letters *safe, uint32_t expression);
// Whether tokens of these letters, up to the summary's n_letters, stay inside from found[place].
bool safe_letters_have(const struct safe_letters *safe, uint32_t place, const struct letter_summary *summary);
// Sets the bits of the tokens that stay inside a string of any characters but contain an unsafe letter or too
// many letters; clears all other bits. False: a letter that is not safe is in more than n_max tokens.
bool safe_letters_tokens(const struct safe_letters *safe, const struct string_tokens *tokens, size_t n_words,
                         size_t n_max, uint32_t *bits);
void safe_letters_finish(struct safe_letters *safe);

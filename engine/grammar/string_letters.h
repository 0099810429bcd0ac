// Letters inside a JSON string: characters by their first byte. Where a terminal treats most letters alike,
// as a class with a few exceptions does, the tokens below a node of the trie that have none of the exceptions
// are taken at once. Internal to engine/grammar/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/grammar_parts.h"

// First bytes: of ASCII, and of characters of several bytes, which are 0xC0 and above.
enum { LETTERS = 192 };
struct letter_set {
    uint64_t words[LETTERS / 64]; // a bit each: see letter_of
};

static inline bool begins_letter(unsigned char byte)
{
    return byte < 0x80 || byte >= 0xC0;
}

static inline unsigned letter_of(unsigned char first_byte)
{
    return first_byte < 0x80 ? first_byte : first_byte - 0x40u;
}

// The letters that the tokens below a node begin behind it, and how many one of them has at most.
struct letter_summary {
    struct letter_set letters;
    uint32_t n_letters;
};

enum { LETTERS_NODES_MIN = 4 }; // a node with fewer below it has no summary

struct string_letters {
    uint32_t *index; // by node of the trie: of its summary, 0: it has none
    VECTOR(struct letter_summary) summaries;
};

bool letters_within(const struct letter_set *set, const struct letter_set *of);
// Adds the first bytes that begin code points of first..last alone, as a JSON string has them unescaped.
void letters_add(struct letter_set *set, uint32_t first, uint32_t last);
// False: no memory.
bool string_letters_create(struct string_letters *letters, const struct trie *trie);
void string_letters_finish(struct string_letters *letters);

// Letters that all lead from an expression to `next`, which matches something.
struct letter_step {
    uint32_t expression, next; // `expression` EXPRESSION_NOTHING: a free entry
    struct letter_set letters;
};

enum { LETTER_STEPS = 1024, LETTERS_FOLLOWING_MAX = 64 };

// By expression % LETTER_STEPS.
struct letter_steps {
    struct letter_step *kept; // NULL: none asked for yet
};

// A measure of the expression alone; a limit that is reached is no failure of the pool. Valid until the next
// call; NULL: no memory.
const struct letter_step *letters_step(struct letter_steps *steps, struct expressions *pool,
                                       uint32_t expression);
// Whether n_letters of the letters may follow the expression, whichever they are, as steps alike show: false
// where they differ. A measure of the expression alone; a limit that is reached is no failure of the pool.
bool letters_follow(struct letter_steps *steps, struct expressions *pool, uint32_t expression,
                    const struct letter_summary *summary);
void letter_steps_finish(struct letter_steps *steps);

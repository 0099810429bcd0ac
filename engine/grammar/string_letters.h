// Letters: the characters of a JSON string, grouped by the first byte of their UTF-8. If a state leads to the
// same next state for most letters, all tokens below a trie node that use only these letters are taken at
// once. Internal to engine/grammar/.
//
//   string [^#]*, trie node t with 900 tokens below it, none of which contains '#':
//   all of them stay inside, no walk
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/grammar_parts.h"

// ASCII, and the first bytes of longer characters, which are 0xC0 and above.
enum { LETTERS = 192 };
struct letter_set {
    uint64_t words[LETTERS / 64]; // a bit per letter, see letter_of
};

static inline bool begins_letter(unsigned char byte)
{
    return byte < 0x80 || byte >= 0xC0;
}

static inline unsigned letter_of(unsigned char first_byte)
{
    return first_byte < 0x80 ? first_byte : first_byte - 0x40u;
}

// Letters that begin after a node in the tokens below it, and the highest number of them in one token.
struct letter_summary {
    struct letter_set letters;
    uint32_t n_letters;
};

enum { LETTERS_NODES_MIN = 4 }; // nodes with a smaller subtree have no summary

struct string_letters {
    uint32_t *index; // by node of the trie: index of its summary; 0: none
    VECTOR(struct letter_summary) summaries;
};

bool letters_within(const struct letter_set *set, const struct letter_set *of);
// Adds the letters all of whose characters are in first..last and are unescaped in a JSON string.
void letters_add(struct letter_set *set, uint32_t first, uint32_t last);
// False: no memory.
bool string_letters_create(struct string_letters *letters, const struct trie *trie);
void string_letters_finish(struct string_letters *letters);

// Letters that lead from `expression` to `next`, which matches something.
struct letter_step {
    uint32_t expression, next; // `expression` EXPRESSION_NOTHING: a free entry
    struct letter_set letters;
};

enum { LETTER_STEPS = 1024, LETTERS_FOLLOWING_MAX = 64 };

// A cache, by expression % LETTER_STEPS.
struct letter_steps {
    struct letter_step *kept; // NULL: not allocated yet
};

// The step of the letter 'z' and of all letters with the same target. Depends on the expression only.
// GRAMMAR_LIMIT_NODES and the visit's work limit are the only limits that make the pool fail. Valid until the
// next call; NULL: no memory or a failed pool.
const struct letter_step *letters_step(struct letter_steps *steps, struct expressions *pool,
                                       uint32_t expression);
// Whether any text of the summary's letters, up to its n_letters, may follow. False also if the letters
// differ in their steps. Errors as above.
bool letters_follow(struct letter_steps *steps, struct expressions *pool, uint32_t expression,
                    const struct letter_summary *summary);
void letter_steps_finish(struct letter_steps *steps);

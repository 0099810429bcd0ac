// Letters: the characters of a JSON string, grouped by the first byte of their UTF-8. If a state leads to the
// same next state for most letters, all tokens below a trie node that use only these letters are taken at
// once, without a walk. Internal to engine/grammar/.
//
//   string [^#]*, trie node t with 900 tokens below it, none of which contains '#':
//   all of them stay inside, no walk
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/grammar_parts.h"

// ASCII characters, and the first bytes of longer characters (0xC0 and above).
enum { LETTERS = 192 };
struct letter_set {
    uint64_t words[LETTERS / 64]; // one bit per letter, see letter_of
};

static inline bool begins_letter(unsigned char byte)
{
    return byte < 0x80 || byte >= 0xC0;
}

static inline unsigned letter_of(unsigned char first_byte)
{
    return first_byte < 0x80 ? first_byte : first_byte - 0x40u;
}

// Summary of the tokens below a node: the letters that begin after the node, and their maximum number in one
// token.
struct letter_summary {
    struct letter_set letters;
    uint32_t n_letters;
};

enum { LETTERS_NODES_MIN = 4 }; // nodes with a smaller subtree have no summary

struct string_letters {
    uint32_t *index; // index of the summary of each node of the trie; 0: none
    VECTOR(struct letter_summary) summaries;
};

bool letters_within(const struct letter_set *set, const struct letter_set *of);
// Adds the letters of which all characters are in first..last and need no escape in a JSON string.
void letters_add(struct letter_set *set, uint32_t first, uint32_t last);
// Returns false if memory runs out.
bool string_letters_create(struct string_letters *letters, const struct trie *trie);
void string_letters_finish(struct string_letters *letters);

// Letters that lead from `expression` to `next`, which matches some text.
struct letter_step {
    uint32_t expression, next; // `expression` EXPRESSION_NOTHING: a free entry
    struct letter_set letters;
};

enum { LETTER_STEPS = 1024, LETTERS_FOLLOWING_MAX = 64 };

// A cache, indexed by expression % LETTER_STEPS.
struct letter_steps {
    struct letter_step *kept; // NULL: not allocated yet
};

// Returns the step of the letter 'z' and of all letters with the same target. It depends on the expression
// only. Only GRAMMAR_LIMIT_NODES and the visit's work limit can make the pool fail. Valid until the next
// call. NULL: out of memory, or the pool has failed.
const struct letter_step *letters_step(struct letter_steps *steps, struct expressions *pool,
                                       uint32_t expression);
// True if any text of the summary's letters, up to its n_letters, may follow. Also returns false if the
// letters differ in their steps. Errors are the same as for letters_step.
bool letters_follow(struct letter_steps *steps, struct expressions *pool, uint32_t expression,
                    const struct letter_summary *summary);
void letter_steps_finish(struct letter_steps *steps);

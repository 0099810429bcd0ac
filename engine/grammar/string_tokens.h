// The tokens that stay inside a JSON string of arbitrary characters, which is the most frequent constraint.
// They are computed once per vocabulary. Internal to engine/grammar/.
//
//   token   inside a string             lists
//   abc     stays inside                inside, masks 3 to 16, plain
//   a\n     stays inside (an escape)    inside, masks 2 to 16
//   abc"    closes the string           closing
//   abc",   closes it and continues     continuing; the node of its quote is an exit
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_letters.h"

// Mask k has the tokens that stay inside the string and begin at most k characters, for k <
// STRING_TOKENS_MASKS.
enum { STRING_TOKENS_MASKS = 17 };

// Plain characters are those that no common pattern treats specially: all but escapes, line ends and control
// characters.
enum { STRING_PLAIN_LETTERS = STRING_TOKENS_MASKS - 1 };

struct string_token {
    uint32_t id;        // id of a token, or number of a node of the trie
    uint32_t n_letters; // number of characters that begin in it
    uint32_t node;      // node of the trie at which the token or node closes the string
};

// A node with many tokens below it that stay inside, and the mask of these tokens.
struct string_block {
    uint32_t node;
    uint32_t *mask;
};

enum { STRING_STATES_MAX = 255, STRING_BLOCKS_LEVEL = 256 }; // at most 256 blocks per depth

struct string_tokens {
    uint32_t *masks;                     // consecutive, n_words each
    uint32_t *all;                       // tokens that stay inside with any number of characters
    VECTOR(struct string_token) longer;  // tokens with more characters than the masks count
    VECTOR(struct string_token) closing; // tokens whose last byte closes the string
    VECTOR(struct string_token) exits;   // nodes that close the string and have children
    // States of the byte automaton after nodes that stay inside a string of arbitrary characters.
    VECTOR(struct byte_state) states; // by trie_node.string_state; the first is unused
    VECTOR(uint32_t) inside;          // tokens that stay inside, in trie order
    uint32_t *n_inside;               // for each node the number of `inside` tokens before it
    VECTOR(struct string_block) blocks;
    struct string_letters letters;   // summaries of vocabulary.all
    struct letter_set plain_letters; // letters whose characters are all plain
    size_t block_tokens;             // least number of tokens below a node with a block
    uint32_t *plain;       // tokens that stay inside and have at most STRING_PLAIN_LETTERS characters, all
                           // plain
    struct trie not_plain; // all other tokens that stay inside or close the string
    uint32_t *not_plain_nodes; // for each node of not_plain the node of vocabulary.all with the same bytes
    struct string_letters not_plain_letters;
    struct trie continuing; // tokens that close the string and continue after it
};

// False: out of memory.
bool string_tokens_create(struct string_tokens **tokens, struct grammar_vocabulary *vocabulary);
// Fills `plain`, `not_plain` and `continuing`. `ids` are the tokens with bytes, sorted. False: out of memory.
bool string_tokens_divide(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n);
// True if any of the code points first..last is plain.
bool string_tokens_has_plain(uint32_t first, uint32_t last);
void string_tokens_destroy(struct string_tokens *tokens);
// Sets the bits of the tokens that stay inside a string when at most `max` characters are left.
void string_tokens_inside(const struct string_tokens *tokens, size_t n_words, uint32_t max, uint32_t *bits);
// Sets (value) or clears the bits of the tokens at and below the node that stay inside a string of arbitrary
// characters.
void string_tokens_below(const struct string_tokens *tokens, const struct trie *trie, size_t n_words,
                         uint32_t node, bool value, uint32_t *bits);
// Sets (value) or clears the bits of inside[first .. stop - 1].
void string_tokens_set(const struct string_tokens *tokens, uint32_t first, uint32_t stop, bool value,
                       uint32_t *bits);
// Returns the index of the first list entry whose node is >= `node`.
size_t string_tokens_first(const struct string_token *list, size_t n, uint32_t node);

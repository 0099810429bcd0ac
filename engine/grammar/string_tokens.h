// Tokens inside a JSON string whose characters may be any, which most constrained text is: found once a
// vocabulary. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_letters.h"

// STRING_TOKENS_MASKS masks: mask k has the tokens that stay inside the string and begin at most k
// characters.
enum { STRING_TOKENS_MASKS = 17 };

// Plain characters are those that no usual pattern treats apart: without escapes, line ends and controls.
enum { STRING_PLAIN_LETTERS = STRING_TOKENS_MASKS - 1 };

struct string_token {
    uint32_t id;        // a token, or a node of the trie
    uint32_t n_letters; // characters that it begins
    uint32_t node;      // of the trie, where it closes the string
};

// A node with many tokens below it that stay inside.
struct string_block {
    uint32_t node;
    uint32_t *mask;
};

enum { STRING_STATES_MAX = 255, STRING_BLOCKS_LEVEL = 256 }; // at most that many blocks of one depth

struct string_tokens {
    uint32_t *masks;                     // one behind the other
    uint32_t *all;                       // however many characters
    VECTOR(struct string_token) longer;  // begin more characters than the masks count
    VECTOR(struct string_token) closing; // tokens whose last byte closes the string
    VECTOR(struct string_token) exits;   // nodes that close it and have children
    // Of nodes whose bytes stay inside: where a text that may have any characters is behind them.
    VECTOR(struct byte_state) states; // by trie_node.string_state; the first is unused
    VECTOR(uint32_t) inside;          // tokens that stay inside, in the trie's order
    uint32_t *n_inside;               // by node: how many of them are before it
    VECTOR(struct string_block) blocks;
    struct string_letters letters;   // of vocabulary.all
    struct letter_set plain_letters; // that are plain whatever follows their first byte
    size_t block_tokens;             // below a node that has one
    uint32_t *plain;       // tokens that stay inside, with at most STRING_PLAIN_LETTERS characters, all plain
    struct trie not_plain; // all others that stay inside or close the string
    uint32_t *not_plain_nodes; // by its node: the node of vocabulary.all of the same bytes
    struct string_letters not_plain_letters;
    struct trie continuing; // tokens that close the string and continue behind it
};

// False: no memory.
bool string_tokens_create(struct string_tokens **tokens, struct grammar_vocabulary *vocabulary);
// `plain`, `not_plain` and `continuing`. `ids`: the tokens that have bytes, sorted. False: no memory.
bool string_tokens_divide(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n);
// Whether one of the code points first..last is plain.
bool string_tokens_has_plain(uint32_t first, uint32_t last);
void string_tokens_destroy(struct string_tokens *tokens);
// Sets the bits of the tokens that stay inside a string of which `max` characters are left to come.
void string_tokens_inside(const struct string_tokens *tokens, size_t n_words, uint32_t max, uint32_t *bits);
// Sets, or clears, the bits of the tokens at the node and below that stay inside a string of any characters.
void string_tokens_below(const struct string_tokens *tokens, const struct trie *trie, size_t n_words,
                         uint32_t node, bool value, uint32_t *bits);
// Sets, or clears, the bits of inside[first .. behind].
void string_tokens_set(const struct string_tokens *tokens, uint32_t first, uint32_t behind, bool value,
                       uint32_t *bits);
// The place of the first of the list at or behind the node.
size_t string_tokens_first(const struct string_token *list, size_t n, uint32_t node);

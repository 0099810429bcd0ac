// Tokens inside a JSON string whose characters may be any, which most constrained text is: found once a
// vocabulary. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar_parts.h"

// STRING_TOKENS_MASKS masks: mask k has the tokens that stay inside the string and begin at most k
// characters.
enum { STRING_TOKENS_MASKS = 17 };

struct string_token {
    uint32_t id;        // a token, or a node of the trie
    uint32_t n_letters; // characters that it begins
};

struct string_tokens {
    uint32_t *masks;                     // one behind the other
    uint32_t *all;                       // however many characters
    VECTOR(struct string_token) longer;  // begin more characters than the masks count
    VECTOR(struct string_token) closing; // tokens whose last byte closes the string
    VECTOR(struct string_token) exits;   // nodes that close it and have children
};

// False: no memory.
bool string_tokens_create(struct string_tokens **tokens, const struct grammar_vocabulary *vocabulary);
void string_tokens_destroy(struct string_tokens *tokens);
// Sets the bits of the tokens that stay inside a string of which `max` characters are left to come.
void string_tokens_inside(const struct string_tokens *tokens, size_t n_words, uint32_t max, uint32_t *bits);

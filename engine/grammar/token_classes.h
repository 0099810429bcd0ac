// Classes of short tokens made of certain bytes only. If all of a class's bytes are live in any order, for as
// many bytes as its longest token has, the class's tokens are allowed without a walk. Internal to
// engine/grammar/.
//
//   class a-z, grammar position [a-z ]*: all tokens of a-z (up to 16 bytes) are set from `mask`,
//   the walk covers only the trie `others`
#pragma once

#include "engine/grammar/grammar_parts.h"

struct token_class {
    unsigned char bytes[256];
    unsigned n_bytes;
    uint32_t *mask;     // tokens of at most TOKEN_CLASS_BYTES_MAX bytes, all in `bytes`
    struct trie others; // all other tokens
};

enum { TOKEN_CLASSES = 4, TOKEN_CLASS_BYTES_MAX = 16 };

// Creates the classes, widest first. `ids`: the tokens with bytes, sorted. False: no memory.
bool token_classes_create(struct token_class **classes, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n);
void token_classes_destroy(struct token_class *classes);

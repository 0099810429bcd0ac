// Short tokens made of some bytes alone: where all of those bytes lead on, whatever their order, for as long
// as such a token is, the tokens need no walk. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar_parts.h"

struct token_class {
    unsigned char bytes[256];
    unsigned n_bytes;
    uint32_t *mask;     // tokens of at most TOKEN_CLASS_BYTES_MAX of these bytes alone
    struct trie others; // all others
};

enum { TOKEN_CLASSES = 4, TOKEN_CLASS_BYTES_MAX = 16 };

// Widest first. `ids`: the tokens that have bytes, sorted. False: no memory.
bool token_classes_create(struct token_class **classes, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n);
void token_classes_destroy(struct token_class *classes);

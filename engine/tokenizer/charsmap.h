// A precompiled_charsmap of SentencePiece: rules that replace a few characters with others (NFKC and the like).
// Format (normalizer.cc of github.com/google/sentencepiece), little-endian:
//
//   uint32 size of the trie in bytes | the trie | the replacements, each with a NUL at its end
//
// The trie is a double array (github.com/s-yata/darts-clone), an array of uint32 units. The child of node n for a
// byte is unit n ^ byte, n being the node's number ^ its offset; the child exists if its label is the byte:
//
//   bits 0..7 label, bit 31 set in units that hold a value | bit 8 has a value | bit 9 offset is shifted by 8 |
//   bits 10..30 offset
//
// The value of a node is in its child for the byte 0: where its replacement starts. Immutable: any thread.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct normalizer_step;
struct special_matcher;

// Zeroed is valid: no rules. Borrows the bytes.
struct charsmap {
    struct text units, replacements;
};

// STATUS_REFUSE if the bytes are not such a map: sizes, a loop of the trie, replacements outside the map.
enum status charsmap_open(struct charsmap *charsmap, struct text bytes, struct error *error) WARN_UNUSED;

// Finds the rule for the shortest or the longest prefix of `text` that has one. Returns the size of the
// prefix; 0: none.
size_t charsmap_find(const struct charsmap *charsmap, struct text text, bool longest,
                     struct text *replacement);

// Appends the text as "Precompiled" of tokenizer.json normalizes it. If a grapheme cluster has at most five
// bytes and its shortest prefix has a rule, the rule replaces the cluster. Otherwise each of its characters
// is replaced.
void charsmap_normalize(const struct charsmap *charsmap, struct text text, struct buffer *out);

// Settings of SentencePiece's own normalization.
struct sentencepiece_rules {
    bool adds_blank;     // before the text (add_dummy_prefix)
    bool removes_blanks; // at both ends, and all but one between words (remove_extra_whitespaces)
    bool keeps_blanks;   // does not write U+2581 for blanks (escape_whitespaces false)
    bool blank_is_last;  // adds_blank adds it after the text (treat_whitespace_as_suffix)
};

// Appends the text as SentencePiece normalizes it. `kept` (may be NULL) finds text that no rule changes.
void charsmap_normalize_sentence(const struct charsmap *charsmap, const struct sentencepiece_rules *rules,
                                 const struct special_matcher *kept, struct text text, struct buffer *out);

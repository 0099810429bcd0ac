// A cache of encoded words: a repeated word (most are) needs one lookup instead of merging. Direct-mapped and
// bounded; a new entry replaces the old entry of its slot. Lock-free: any thread may look up and insert; a
// lookup during an insertion misses.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WORD_CACHE_BYTES_MAX = 24, // longer words are not cached,
    WORD_CACHE_IDS_MAX = 8,    // nor words of more tokens
};

struct word_cache;

struct word_cache *word_cache_create(void); // NULL: out of memory
void word_cache_destroy(struct word_cache *cache);

// Key of a word in the cache: its bytes, padded with zeros, and its size.
struct word_key {
    uint64_t bytes[WORD_CACHE_BYTES_MAX / 8];
    uint32_t size;
};

// Looks up consecutive words from `data` on, with sizes[n_words] bytes, up to the first word that is not in
// the cache or not cacheable; may read text up to `end`. Returns the number of words found. Their tokens,
// *n_ids in all, are written to `ids`, which has room for WORD_CACHE_IDS_MAX per word. *unknown is the key of
// the next word, if it has 1 to WORD_CACHE_BYTES_MAX bytes.
size_t word_cache_find(const struct word_cache *cache, const char *data, const size_t *sizes, size_t n_words,
                       const char *end, int32_t *ids, size_t *n_ids, struct word_key *unknown);
// n_ids is 0 to WORD_CACHE_IDS_MAX.
void word_cache_put(struct word_cache *cache, const struct word_key *key, const int32_t *ids, size_t n_ids);

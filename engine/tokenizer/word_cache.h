// A cache of encoded words, so that a repeated word (most are) needs one lookup instead of its merges.
// Direct-mapped and bounded; a new entry replaces the old one of its slot. Lock-free: any thread may look up
// and insert; a lookup during an insertion misses.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WORD_CACHE_BYTES_MAX = 24, // longer words are not kept,
    WORD_CACHE_IDS_MAX = 8,    // nor those of more tokens
};

struct word_cache;

struct word_cache *word_cache_create(void); // NULL: no memory
void word_cache_destroy(struct word_cache *cache);

// Key of a word in the cache: its bytes, padded with zeros, and its size.
struct word_key {
    uint64_t bytes[WORD_CACHE_BYTES_MAX / 8];
    uint32_t size;
};

// Looks words up that follow one another from `data` on, sizes[n_words] being their bytes, up to the first
// that it does not know or does not keep; text up to `end` may be read. Returns how many it knew. Their
// tokens, *n_ids in all, are written to `ids`, which has room for WORD_CACHE_IDS_MAX a word. The next word's
// key is set where it has 1 to WORD_CACHE_BYTES_MAX bytes.
size_t word_cache_find(const struct word_cache *cache, const char *data, const size_t *sizes, size_t n_words,
                       const char *end, int32_t *ids, size_t *n_ids, struct word_key *unknown);
// n_ids is 0 to WORD_CACHE_IDS_MAX.
void word_cache_put(struct word_cache *cache, const struct word_key *key, const int32_t *ids, size_t n_ids);

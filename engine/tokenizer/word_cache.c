// A slot is one cache line of eight 64-bit words, each read and written atomically:
//
//   0      change << 16 | size of the word << 8 | number of ids; an odd change: being written
//   1..3   the word's bytes
//   4..7   its ids, two in each
//
// A reader loads word 0, then the other words, then word 0 again: if it is unchanged, all words belong
// together (H.-J. Boehm, "Can seqlocks get along with programming language memory models?", 2012). The writer
// stores each of the other words with release, the reader loads them with acquire: a reader that sees a word
// of a change also sees the odd state of this change. A slot that was never written has size 0.
#include "engine/tokenizer/word_cache.h"

#include "schemas/base/memory_map.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOT_BITS = 14,
    N_SLOTS = 1 << SLOT_BITS,
    KEY_WORDS = WORD_CACHE_BYTES_MAX / 8,
    ID_WORDS = WORD_CACHE_IDS_MAX / 2
};

struct cache_slot {
    _Atomic uint64_t state, bytes[KEY_WORDS], ids[ID_WORDS];
};

_Static_assert(sizeof(struct cache_slot) == 64, "a slot is a cache line");

struct word_cache {
    struct cache_slot slots[N_SLOTS];
};

struct word_cache *word_cache_create(void)
{
    return memory_map(sizeof(struct word_cache)); // zeroed; pages are touched on first use
}

void word_cache_destroy(struct word_cache *cache)
{
    memory_unmap(cache, sizeof *cache);
}

static uint64_t load_word(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// The last `size` of the eight bytes before `end`, as the low bytes of a number. Little-endian, like the
// whole engine.
static uint64_t load_tail(const char *end, size_t size)
{
    return size ? load_word(end - 8) >> (64 - 8 * size) : 0;
}

// Builds a key without reading beyond the word.
static __attribute__((noinline)) struct word_key key_of(struct text word)
{
    const char *data = word.data, *end = data + word.size;
    struct word_key key = {.size = (uint32_t)word.size};
    // 4 to 7 bytes: two loads of 4 bytes, which may overlap; 1 to 3 bytes: the first, middle and last byte,
    // some of which may be the same. Overlapping bytes are equal, so | is safe.
    if (word.size < 8) {
        uint32_t first, last;
        if (word.size >= 4) {
            memcpy(&first, data, 4);
            memcpy(&last, end - 4, 4);
            key.bytes[0] = first | (uint64_t)last << 8 * (word.size - 4);
        } else {
            size_t middle = word.size / 2;
            key.bytes[0] = (unsigned char)data[0] | (uint64_t)(unsigned char)data[middle] << 8 * middle |
                           (uint64_t)(unsigned char)end[-1] << 8 * (word.size - 1);
        }
        return key;
    }
    size_t n_whole = word.size / 8;
    for (size_t i = 0; i < n_whole; i++)
        key.bytes[i] = load_word(data + 8 * i);
    if (n_whole < KEY_WORDS)
        key.bytes[n_whole] = load_tail(end, word.size % 8);
    return key;
}

// The 24 bytes from offset 24 - size on are the mask of a word: FF for each of its bytes, then 0.
static const uint64_t mask_bytes[2 * KEY_WORDS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

_Static_assert(KEY_WORDS == 3, "each word of a key is written out below: loops cost a third of a look");

// Reads WORD_CACHE_BYTES_MAX bytes of the text, without a branch on the word's size.
static inline struct word_key key_of_inner(struct text word)
{
    const char *mask = (const char *)mask_bytes + WORD_CACHE_BYTES_MAX - word.size;
    return (struct word_key){{load_word(word.data) & load_word(mask),
                              load_word(word.data + 8) & load_word(mask + 8),
                              load_word(word.data + 16) & load_word(mask + 16)},
                             (uint32_t)word.size};
}

// Odd multipliers from the digits of the golden ratio, pi and e. The three products are independent.
static inline size_t place_of(struct word_key key)
{
    uint64_t sum = key.bytes[0] * 0x9E3779B97F4A7C15u + key.bytes[1] * 0x243F6A8885A308D3u +
                   (key.bytes[2] ^ key.size) * 0xB7E151628AED2A6Bu;
    return (size_t)((sum ^ sum >> 32) * 0x9E3779B97F4A7C15u >> (64 - SLOT_BITS));
}

// The bits in which word `i` of the slot's key and the given key differ.
static inline uint64_t key_difference(const struct cache_slot *slot, struct word_key key, int i)
{
    return atomic_load_explicit(&slot->bytes[i], memory_order_acquire) ^ key.bytes[i];
}

static inline void copy_ids(const struct cache_slot *slot, int i, int32_t *ids)
{
    uint64_t pair = atomic_load_explicit(&slot->ids[i], memory_order_acquire);
    memcpy(ids + 2 * i, &pair, sizeof pair);
}

// Copies the tokens of the word with this key to `ids` and returns their number. -1: not in the cache.
static inline int find_key(const struct word_cache *cache, struct word_key key, int32_t *ids)
{
    const struct cache_slot *slot = &cache->slots[place_of(key)];
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint64_t other = (state >> 8 & 0x1FF) ^ key.size; // the lowest bit of `change` too: it must be 0
    if (other | key_difference(slot, key, 0) | key_difference(slot, key, 1) | key_difference(slot, key, 2))
        return -1;
    // Copies all ids: a branch on their number would often be mispredicted.
    copy_ids(slot, 0, ids);
    copy_ids(slot, 1, ids);
    copy_ids(slot, 2, ids);
    copy_ids(slot, 3, ids);
    return atomic_load_explicit(&slot->state, memory_order_relaxed) == state ? (int)(state & 0xFF) : -1;
}

size_t word_cache_find(const struct word_cache *cache, const char *data, const size_t *sizes, size_t n_words,
                       const char *end, int32_t *ids, size_t *n_ids, struct word_key *unknown)
{
    int32_t *next = ids;
    size_t i = 0;
    for (; i < n_words; data += sizes[i++]) {
        struct text word = {data, sizes[i]};
        if (word.size - 1 >= WORD_CACHE_BYTES_MAX) // also true for 0
            break;
        struct word_key key = end - data >= WORD_CACHE_BYTES_MAX ? key_of_inner(word) : key_of(word);
        int n = find_key(cache, key, next);
        if (n < 0) {
            *unknown = key;
            break;
        }
        next += n;
    }
    *n_ids = (size_t)(next - ids);
    return i;
}

void word_cache_put(struct word_cache *cache, const struct word_key *key, const int32_t *ids, size_t n_ids)
{
    assert(n_ids <= WORD_CACHE_IDS_MAX);
    struct cache_slot *slot = &cache->slots[place_of(*key)];
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    uint64_t change = state >> 16;
    if (change & 1 || !atomic_compare_exchange_strong_explicit(&slot->state, &state, (change + 1) << 16,
                                                               memory_order_acquire, memory_order_relaxed))
        return; // another thread is writing this slot
    for (int i = 0; i < KEY_WORDS; i++)
        atomic_store_explicit(&slot->bytes[i], key->bytes[i], memory_order_release);
    int32_t all[WORD_CACHE_IDS_MAX] = {0};
    memcpy(all, ids, n_ids * sizeof *ids);
    for (int i = 0; i < ID_WORDS; i++) {
        uint64_t pair;
        memcpy(&pair, all + 2 * i, sizeof pair);
        atomic_store_explicit(&slot->ids[i], pair, memory_order_release);
    }
    atomic_store_explicit(&slot->state, (change + 2) << 16 | key->size << 8 | n_ids, memory_order_release);
}

// Hash index of items that the caller keeps in an array: from a hash to the numbers of the items with that
// hash. Open addressing with linear probing, at most half full. Zero-initialized it is empty.
//
//   if (!hash_index_reserve(&index)) ...                          // room for one more item
//   struct hash_slot *slot = hash_index_slot(&index, hash);
//   for (; slot->number; slot = hash_index_next(&index, slot, hash))
//       if (equal(items[slot->number], key)) ...                  // found
//   hash_index_fill(&index, slot, hash, number);                  // not found: `slot` is free
//
// Items are not removed. Thread: the owner's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_slot {
    uint32_t number; // 0: free
    uint32_t hash;   // low 32 bits
};

struct hash_index {
    struct hash_slot *slots; // [n_slots]
    size_t n_slots;          // a power of two, at most 2^32; 0: none yet
    size_t n_used;
};

// Makes room for one more item. False: out of memory; the index is unchanged.
bool hash_index_reserve(struct hash_index *index);
void hash_index_finish(struct hash_index *index);

static inline struct hash_slot *hash_index_at(const struct hash_index *index, size_t at, uint32_t hash)
{
    const size_t mask = index->n_slots - 1;
    while (index->slots[at & mask].number && index->slots[at & mask].hash != hash)
        at++;
    return &index->slots[at & mask];
}

// Returns the first slot with the hash, or the free slot for it. The index must have slots.
static inline struct hash_slot *hash_index_slot(const struct hash_index *index, uint64_t hash)
{
    return hash_index_at(index, (uint32_t)hash, (uint32_t)hash);
}

// Returns the next slot with the hash after `slot`, or the free slot for it.
static inline struct hash_slot *hash_index_next(const struct hash_index *index, const struct hash_slot *slot,
                                                uint64_t hash)
{
    return hash_index_at(index, (size_t)(slot - index->slots) + 1, (uint32_t)hash);
}

// Fills the free slot that a search with `hash` returned. hash_index_reserve must not be called in between.
static inline void hash_index_fill(struct hash_index *index, struct hash_slot *slot, uint64_t hash,
                                   uint32_t number)
{
    *slot = (struct hash_slot){number, (uint32_t)hash};
    index->n_used++;
}

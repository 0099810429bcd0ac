#include "schemas/base/hash_index.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 64 };

static const size_t SLOTS_MAX = (size_t)1 << 32; // a slot stores 32 bits of the hash

bool hash_index_reserve(struct hash_index *index)
{
    if (2 * index->n_used < index->n_slots)
        return true;
    struct hash_index larger = {.n_slots = index->n_slots ? 2 * index->n_slots : SLOTS_FIRST};
    larger.slots = larger.n_slots <= SLOTS_MAX ? calloc(larger.n_slots, sizeof *larger.slots) : NULL;
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < index->n_slots; i++) {
        size_t at = index->slots[i].hash;
        if (!index->slots[i].number)
            continue;
        while (larger.slots[at & (larger.n_slots - 1)].number)
            at++;
        larger.slots[at & (larger.n_slots - 1)] = index->slots[i];
    }
    larger.n_used = index->n_used;
    free(index->slots);
    *index = larger;
    return true;
}

void hash_index_finish(struct hash_index *index)
{
    free(index->slots);
    *index = (struct hash_index){0};
}

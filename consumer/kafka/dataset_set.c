#include "consumer/kafka/dataset_set.h"

#include "schemas/hash.h"

#include <stdlib.h>

enum { CAPACITY_MIN = 64 };

static uint64_t hash_of(struct text dataset)
{
    uint64_t hash = hash_bytes(dataset.data, dataset.size, 0);
    return hash ? hash : 1;
}

// The hash's slot, or the free one where it belongs. There is a free one.
static uint64_t *find_slot(uint64_t *slots, size_t capacity, uint64_t hash)
{
    size_t at = hash & (capacity - 1);
    while (slots[at] && slots[at] != hash)
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static bool grow(struct dataset_set *set)
{
    size_t capacity = set->capacity ? set->capacity * 2 : CAPACITY_MIN;
    uint64_t *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i])
            *find_slot(slots, capacity, set->slots[i]) = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return true;
}

bool dataset_set_has(const struct dataset_set *set, struct text dataset)
{
    return set->capacity && *find_slot(set->slots, set->capacity, hash_of(dataset));
}

bool dataset_set_add(struct dataset_set *set, struct text dataset)
{
    if (set->n >= set->capacity / 2 && !grow(set)) {
        set->failed = true;
        return false;
    }
    uint64_t hash = hash_of(dataset), *slot = find_slot(set->slots, set->capacity, hash);
    if (*slot)
        return false;
    *slot = hash;
    set->n++;
    return true;
}

void dataset_set_finish(struct dataset_set *set)
{
    free(set->slots);
    *set = (struct dataset_set){0};
}

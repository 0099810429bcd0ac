// Finds a token by its text: a hash table of ids. The texts are in an array that the caller owns.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct token_map_slot {
    uint32_t hash;
    int32_t id; // -1: free slot
};

// Zeroed is valid and empty.
struct token_map {
    struct token_map_slot *slots;
    size_t mask; // number of slots - 1
    size_t n_ids;
};

// Reserves room for that many ids. Growing in steps would touch new memory at each step. False: out of
// memory.
bool token_map_reserve(struct token_map *map, size_t n_ids);
// Adds an id. If two ids have the same text, the first is found. False: out of memory.
bool token_map_add(struct token_map *map, const struct text *texts, int32_t id);
// Finds the id of a text; -1: none.
int32_t token_map_find(const struct token_map *map, const struct text *texts, struct text text);
void token_map_finish(struct token_map *map);

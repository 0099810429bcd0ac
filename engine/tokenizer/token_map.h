// Finds a token by its text: a hash table of ids over an array of texts that the caller owns.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct token_map_slot {
    uint32_t hash;
    int32_t id; // -1: free
};

// Zeroed is valid and empty.
struct token_map {
    struct token_map_slot *slots;
    size_t mask; // slots less one
    size_t n_ids;
};

// Room for that many ids: without it the table grows by steps, each of which touches new memory. False: out of
// memory.
bool token_map_reserve(struct token_map *map, size_t n_ids);
// False: out of memory. Of two ids with the same text the first is found.
bool token_map_add(struct token_map *map, const struct text *texts, int32_t id);
// -1: none.
int32_t token_map_find(const struct token_map *map, const struct text *texts, struct text text);
void token_map_finish(struct token_map *map);

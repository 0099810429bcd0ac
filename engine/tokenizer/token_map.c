#include "engine/tokenizer/token_map.h"

#include "schemas/base/hash.h"
#include "schemas/base/memory_map.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_text(struct text text)
{
    return (uint32_t)hash_bytes(text.data, text.size, 0);
}

static void insert_slot(struct token_map *map, struct token_map_slot slot)
{
    size_t i = slot.hash & map->mask;
    while (map->slots[i].id >= 0)
        i = (i + 1) & map->mask;
    map->slots[i] = slot;
}

// Keeps the table at most half full.
bool token_map_reserve(struct token_map *map, size_t n_ids)
{
    size_t n_slots = map->slots ? map->mask + 1 : 1024;
    while (n_slots / 2 < n_ids)
        n_slots *= 2;
    if (map->slots && n_slots == map->mask + 1)
        return true;
    struct token_map grown = {memory_map(n_slots * sizeof *grown.slots), n_slots - 1, map->n_ids};
    if (!grown.slots)
        return false;
    memset(grown.slots, 0xFF, n_slots * sizeof *grown.slots);
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].id >= 0)
            insert_slot(&grown, map->slots[i]);
    token_map_finish(map);
    *map = grown;
    return true;
}

bool token_map_add(struct token_map *map, const struct text *texts, int32_t id)
{
    if (token_map_find(map, texts, texts[id]) >= 0)
        return true;
    if (!token_map_reserve(map, map->n_ids + 1))
        return false;
    insert_slot(map, (struct token_map_slot){hash_text(texts[id]), id});
    map->n_ids++;
    return true;
}

int32_t token_map_find(const struct token_map *map, const struct text *texts, struct text text)
{
    if (!map->slots)
        return -1;
    uint32_t wanted = hash_text(text);
    for (size_t i = wanted & map->mask; map->slots[i].id >= 0; i = (i + 1) & map->mask)
        if (map->slots[i].hash == wanted && text_equal(texts[map->slots[i].id], text))
            return map->slots[i].id;
    return -1;
}

void token_map_finish(struct token_map *map)
{
    if (map->slots)
        memory_unmap(map->slots, (map->mask + 1) * sizeof *map->slots);
    *map = (struct token_map){0};
}

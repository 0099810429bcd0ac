#include "engine/tokenizer/token_map.h"

#include "schemas/hash.h"

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
static bool grow_map(struct token_map *map)
{
    if (map->slots && map->n_ids < (map->mask + 1) / 2)
        return true;
    size_t n_slots = map->slots ? (map->mask + 1) * 2 : 1024;
    struct token_map grown = {malloc(n_slots * sizeof *grown.slots), n_slots - 1, map->n_ids};
    if (!grown.slots)
        return false;
    memset(grown.slots, 0xFF, n_slots * sizeof *grown.slots);
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].id >= 0)
            insert_slot(&grown, map->slots[i]);
    free(map->slots);
    *map = grown;
    return true;
}

bool token_map_add(struct token_map *map, const struct text *texts, int32_t id)
{
    if (token_map_find(map, texts, texts[id]) >= 0)
        return true;
    if (!grow_map(map))
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
    free(map->slots);
    *map = (struct token_map){0};
}

#include "consumer/kafka/partition.h"

#include <stdlib.h>
#include <string.h>

struct partition *partition_find(const struct partition_table *table, int32_t id)
{
    return id >= 0 && id < table->n_items ? table->items[id] : NULL;
}

static bool grow(struct partition_table *table, int32_t n_items)
{
    struct partition **items = realloc(table->items, (size_t)n_items * sizeof(struct partition *));
    if (!items)
        return false;
    memset(items + table->n_items, 0, (size_t)(n_items - table->n_items) * sizeof(struct partition *));
    table->items = items;
    table->n_items = n_items;
    return true;
}

struct partition *partition_add(struct partition_table *table, int32_t id, int32_t n_partitions_max)
{
    if (id < 0 || id >= n_partitions_max || (id >= table->n_items && !grow(table, id + 1)))
        return NULL;
    struct partition *partition = table->items[id];
    if (!partition) {
        partition = table->items[id] = calloc(1, sizeof *partition);
        if (!partition)
            return NULL;
        partition->id = id;
        partition->end = partition->committed = -1;
        offset_map_init(&partition->map);
    }
    return partition;
}

void partition_table_finish(struct partition_table *table)
{
    for (int32_t i = 0; i < table->n_items; i++)
        free(table->items[i]);
    free(table->items);
    *table = (struct partition_table){0};
}

void partition_set_encoding(struct partition *partition, int64_t offset, enum encoding encoding)
{
    size_t bit = (size_t)((uint64_t)offset % OFFSET_MAP_WINDOW);
    partition->msgpack[bit / 64] &= ~(UINT64_C(1) << bit % 64);
    partition->msgpack[bit / 64] |= (uint64_t)(encoding == ENCODING_MSGPACK) << bit % 64;
}

enum encoding partition_encoding(const struct partition *partition, int64_t offset)
{
    size_t bit = (size_t)((uint64_t)offset % OFFSET_MAP_WINDOW);
    return partition->msgpack[bit / 64] >> bit % 64 & 1 ? ENCODING_MSGPACK : ENCODING_JSON;
}

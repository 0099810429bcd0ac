#include "consumer/queue/kafka/partition.h"

#include <stdlib.h>
#include <string.h>

struct partition *partition_find(const struct partition_table *table, int32_t id)
{
    return id >= 0 && id < table->n_items ? table->items[id] : NULL;
}

static bool grow_table(struct partition_table *table, int32_t n_items)
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
    if (id < 0 || id >= n_partitions_max || (id >= table->n_items && !grow_table(table, id + 1)))
        return NULL;
    struct partition *partition = table->items[id];
    if (!partition) {
        partition = table->items[id] = calloc(1, sizeof *partition);
        if (!partition)
            return NULL;
        partition->id = id;
        partition->fetching.end = partition->committed = partition->n_past_covered = -1;
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

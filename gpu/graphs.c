#include "gpu/graphs.h"

// Powers of 2 up to 8, then four sizes per doubling: padding is less than a quarter.
int32_t graph_rows(int32_t n_rows)
{
    int32_t unit = 1;
    while (n_rows > 8 * unit)
        unit *= 2;
    if (n_rows <= 8)
        return n_rows <= 2 ? n_rows : n_rows <= 4 ? 4 : 8;
    return (n_rows + unit - 1) / unit * unit;
}

// Powers of 2 from one attention segment up. The launch covers the longest sequence; blocks beyond a shorter
// one exit at once.
int32_t graph_positions(int32_t n_positions)
{
    int32_t padded = 256;
    while (padded < n_positions && padded < 1 << 30)
        padded *= 2;
    return padded;
}

// 0 or a power of 2: a block without a tile exits at once.
int32_t graph_shared_tiles(int32_t n_tiles)
{
    int32_t padded = 8;
    while (padded < n_tiles && padded < 1 << 30)
        padded *= 2;
    return n_tiles > 0 ? padded : 0;
}

static bool is_kind(const struct graph_kind *a, const struct graph_kind *b)
{
    return a->n_rows == b->n_rows && a->n_positions == b->n_positions &&
           a->n_shared_tiles == b->n_shared_tiles && a->events == b->events;
}

struct graph_entry *graphs_choose(struct graphs *graphs, const struct graph_kind *kind, enum step_way *way)
{
    *way = STEP_EAGER;
    int i = 0;
    while (i < graphs->n_entries && !is_kind(&graphs->entries[i].kind, kind))
        i++;
    if (i == GRAPHS_MAX)
        return NULL;
    struct graph_entry *entry = &graphs->entries[i];
    if (i == graphs->n_entries) {
        *entry = (struct graph_entry){.kind = *kind};
        graphs->n_entries++;
    }
    if (entry->graph)
        *way = STEP_REPLAYS;
    else if (entry->seen)
        *way = STEP_CAPTURES;
    entry->seen = true;
    return entry;
}

void graphs_clear(struct graphs *graphs, struct device *device)
{
    for (int i = 0; i < graphs->n_entries; i++) {
        device_graph_destroy(device, graphs->entries[i].graph);
        phases_finish(&graphs->entries[i].phases, device);
    }
    graphs->n_entries = 0;
}

#include "gpu/graphs.h"

// Up to 8 a power of 2, then four sizes to each doubling: less than a quarter more than needed.
int32_t graph_rows(int32_t n_rows)
{
    int32_t unit = 1;
    while (n_rows > 8 * unit)
        unit *= 2;
    if (n_rows <= 8)
        return n_rows <= 2 ? n_rows : n_rows <= 4 ? 4 : 8;
    return (n_rows + unit - 1) / unit * unit;
}

// Powers of 2 from one segment of attention up: a launch covers the longest sequence, shorter ones end early.
int32_t graph_positions(int32_t n_positions)
{
    int32_t padded = 256;
    while (padded < n_positions && padded < 1 << 30)
        padded *= 2;
    return padded;
}

struct graph_entry *graphs_choose(struct graphs *graphs, int32_t n_rows, int32_t n_positions, int events,
                                  enum step_way *way)
{
    *way = STEP_EAGER;
    int i = 0;
    while (i < graphs->n_entries &&
           (graphs->entries[i].n_rows != n_rows || graphs->entries[i].n_positions != n_positions ||
            graphs->entries[i].events != events))
        i++;
    if (i == GRAPHS_MAX)
        return NULL;
    struct graph_entry *entry = &graphs->entries[i];
    if (i == graphs->n_entries) {
        *entry = (struct graph_entry){.n_rows = n_rows, .n_positions = n_positions, .events = events};
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

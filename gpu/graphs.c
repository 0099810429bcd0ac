#include "gpu/graphs.h"

// Rounds up to a power of 2 up to 8, then to one of four sizes per doubling, so that padding is less than a
// quarter.
int32_t graph_rows(int32_t n_rows)
{
    int32_t unit = 1;
    while (n_rows > 8 * unit)
        unit *= 2;
    if (n_rows <= 8)
        return n_rows <= 2 ? n_rows : n_rows <= 4 ? 4 : 8;
    return (n_rows + unit - 1) / unit * unit;
}

// Rounds up to a power of 2, at least one attention segment. The launch covers the longest sequence. Blocks
// beyond the end of a shorter sequence exit at once.
int32_t graph_positions(int32_t n_positions)
{
    int32_t padded = 256;
    while (padded < n_positions && padded < 1 << 30)
        padded *= 2;
    return padded;
}

// Rounds up to 0 or 8 times a power of 4. Blocks without a tile exit at once.
int32_t graph_shared_tiles(int32_t n_tiles)
{
    int32_t padded = 8;
    while (padded < n_tiles && padded < 1 << 29)
        padded *= 4;
    return n_tiles > 0 ? padded : 0;
}

static bool is_kind(const struct graph_kind *a, const struct graph_kind *b)
{
    return a->part == b->part && a->n_rows == b->n_rows && a->n_positions == b->n_positions &&
           a->n_shared_tiles == b->n_shared_tiles && a->selects == b->selects && a->events == b->events;
}

static void release_graph(struct graph_entry *entry, struct device *device)
{
    device_graph_destroy(device, entry->graph);
    phases_finish(&entry->phases, device);
    *entry = (struct graph_entry){0};
}

enum { USES_UNDER_WAY = 4 }; // two steps with two parts each

// Returns an entry for a new kind: a free slot; else the least recently used entry without a graph; else the
// least recently used entry.
static struct graph_entry *replace_oldest(struct graphs *graphs, struct device *device)
{
    if (graphs->n_entries < GRAPHS_MAX)
        return &graphs->entries[graphs->n_entries++];
    struct graph_entry *oldest = NULL;
    for (struct graph_entry *entry = graphs->entries; entry < graphs->entries + GRAPHS_MAX; entry++) {
        if (entry->used_at + USES_UNDER_WAY >= graphs->n_uses)
            continue;
        bool better = !oldest || (oldest->graph && !entry->graph) ||
                      (!oldest->graph == !entry->graph && entry->used_at < oldest->used_at);
        oldest = better ? entry : oldest;
    }
    graphs->n_evicted += oldest->graph != NULL;
    release_graph(oldest, device);
    return oldest;
}

struct graph_entry *graphs_choose(struct graphs *graphs, struct device *device, const struct graph_kind *kind,
                                  enum step_way *way)
{
    struct graph_entry *entry = graphs->entries, *end = entry + graphs->n_entries;
    while (entry < end && !is_kind(&entry->kind, kind))
        entry++;
    if (entry == end) {
        entry = replace_oldest(graphs, device);
        entry->kind = *kind;
    }
    *way = entry->graph ? STEP_REPLAYS : entry->seen && !entry->refused ? STEP_CAPTURES : STEP_EAGER;
    entry->seen = true;
    entry->used_at = graphs->n_uses++;
    return entry;
}

void graphs_clear(struct graphs *graphs, struct device *device)
{
    for (int i = 0; i < graphs->n_entries; i++)
        release_graph(&graphs->entries[i], device);
    graphs->n_entries = 0;
}

// Which decoding steps run as graphs. A graph is for one padded number of rows, one padded length of the longest sequence and
// one padded number of shared prefixes' tiles; the first step of a kind runs eagerly (which loads its kernels), the second one captures, all others replay.
#pragma once

#include "gpu/phases.h"

#include <stdint.h>

enum step_way { STEP_EAGER, STEP_CAPTURES, STEP_REPLAYS };

enum {
    GRAPHS_MAX = 256,      // kinds remembered; beyond, steps run eagerly
    GRAPH_ROWS_MAX = 1024, // more rows take so long that launching them costs nothing
};

// Padded numbers.
struct graph_kind {
    int32_t n_rows, n_positions, n_shared_tiles;
    int events; // which of two sets it records: that of a step is read while the next one runs
};

struct graph_entry {
    struct graph_kind kind;
    bool seen;
    struct device_graph *graph; // NULL: not captured yet
    struct phases phases;       // recorded by it
};

struct graphs {
    struct graph_entry entries[GRAPHS_MAX];
    int n_entries;
};

// Rounded up so that few graphs serve all steps and little work is wasted.
int32_t graph_rows(int32_t n_rows);
int32_t graph_positions(int32_t n_positions);
int32_t graph_shared_tiles(int32_t n_tiles);
// The entry of a kind and what a step of it does now. NULL: eagerly.
struct graph_entry *graphs_choose(struct graphs *graphs, const struct graph_kind *kind, enum step_way *way);
// Forgets all graphs: memory they point to has moved.
void graphs_clear(struct graphs *graphs, struct device *device);

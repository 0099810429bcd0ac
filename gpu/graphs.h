// Which decoding steps run as graphs. A graph is for one padded number of rows and one padded length of the longest
// sequence; the first step of a kind runs eagerly (which loads its kernels), the second one captures, all others replay.
#pragma once

#include "gpu/phases.h"

#include <stdint.h>

enum step_way { STEP_EAGER, STEP_CAPTURES, STEP_REPLAYS };

enum {
    GRAPHS_MAX = 256,      // kinds remembered; beyond, steps run eagerly
    GRAPH_ROWS_MAX = 1024, // more rows take so long that launching them costs nothing
};

struct graph_entry {
    int32_t n_rows, n_positions;
    int events; // which of two sets it records: that of a step is read while the next one runs
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
// The entry of padded counts and what a step of them does now. NULL: eagerly.
struct graph_entry *graphs_choose(struct graphs *graphs, int32_t n_rows, int32_t n_positions, int events,
                                  enum step_way *way);
// Forgets all graphs: memory they point to has moved.
void graphs_clear(struct graphs *graphs, struct device *device);

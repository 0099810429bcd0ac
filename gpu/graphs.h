// CUDA graphs of decode steps. A step whose sampling is submitted apart has two graphs: forward pass and
// sampling. The key of a graph is the padded number of tokens, the padded length of the longest sequence and
// the padded number of shared tiles, and whether a row attends to selected positions; the key of a sampling graph is only the padded number of tokens. The
// first step of a kind runs eagerly, which loads its kernels; the second is captured; later ones replay the
// graph.
#pragma once

#include "gpu/phases.h"

#include <stdbool.h>
#include <stdint.h>

enum step_way { STEP_EAGER, STEP_CAPTURES, STEP_REPLAYS };

enum {
    GRAPHS_MAX = 128,      // kinds; a new one replaces the least recently used
    GRAPH_ROWS_MAX = 1024, // larger steps run without graphs: kernels hide the launch overhead
};

enum graph_part { GRAPH_WHOLE, GRAPH_FORWARD, GRAPH_SAMPLING };

// Size of a step; all counts are padded.
struct graph_kind {
    enum graph_part part;
    int32_t n_rows, n_positions, n_shared_tiles;
    bool selects;
    int events; // 0 or 1: its event set. One set is read while the next step records the other.
};

struct graph_entry {
    struct graph_kind kind;
    bool seen;
    bool refused;               // no graph could be made; steps of this kind run eagerly
    int64_t used_at;            // last use, as a count of graph uses
    struct device_graph *graph; // NULL: not captured yet
    struct phases phases;       // recorded by the graph
};

struct graphs {
    struct graph_entry entries[GRAPHS_MAX];
    int n_entries;
    int64_t n_uses, n_evicted;
};

// Padded counts: rounded up so that few graphs serve all steps and little work is wasted.
int32_t graph_rows(int32_t n_rows);
int32_t graph_positions(int32_t n_positions);
int32_t graph_shared_tiles(int32_t n_tiles);
// Finds or adds the entry of a kind and sets how the step, or its part, runs. Entries of the last two steps,
// which may be in flight, are never replaced.
struct graph_entry *graphs_choose(struct graphs *graphs, struct device *device, const struct graph_kind *kind,
                                  enum step_way *way);
// Destroys all graphs, because memory that they point to was reallocated.
void graphs_clear(struct graphs *graphs, struct device *device);

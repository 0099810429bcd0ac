// Private header of CPU attention (attention.h defines the arithmetic). It covers spans, which are divided
// into tiles; groups of sequences that share pages; and the computation of one tile.
#pragma once

#include "engine/cpu/attention.h"

#include <stdbool.h>

// Rows whose queries may share a tile, and the segments they read. The rows belong to one sequence, or to a
// group of sequences; a group's span has the leading segments that all its sequences share and see
// completely.
struct span {
    const int32_t *pages;
    const int32_t *rows; // for a group: its rows of the step
    int32_t first_row, n_rows;
    int32_t n_text;                     // as in struct step_sequence
    int32_t position;                   // position of the first row; for a group the end of its segments
    int32_t segment_begin, segment_end; // segments; for a sequence the end follows from its rows
    int32_t first_state; // index of the first row's state: a group stores states, its sequences continue from
                         // them; -1: none
    bool is_group;
};

// Groups of a step's sequences that share leading pages.
struct sharing {
    int32_t n_max;            // limit on the number of sequences and on the number of rows
    int32_t n_groups, n_rows; // n_rows: rows in all groups, numbered group by group
    struct span *groups;
    int32_t *rows;        // [n_rows]
    int32_t *group_of;    // [n_sequences] or -1
    int32_t *first_state; // [n_sequences] for a sequence in a group: index of its first row's state
    struct shared_candidate *candidates;
};

// Allocates room for n_max sequences and rows. Errors: ERROR_OUT_OF_MEMORY.
enum status sharing_reserve(struct sharing *sharing, int32_t n_max, struct error *error) WARN_UNUSED;
void sharing_finish(struct sharing *sharing);
// Finds groups of two or more sequences. A sequence that fits no existing group starts a new one.
void sharing_find(struct sharing *sharing, struct attention_sequences sequences, int32_t page_positions);

// Scratch memory of one thread.
struct attention_scratch {
    float *queries; // [ATTENTION_TILE / ATTENTION_QUERIES, packed_floats] in the kernels' layout
    float scales[ATTENTION_TILE]; // scales of the quantized queries; 1 for float32
    struct attention_row *rows;   // [ATTENTION_QUERIES]
    float *out;                   // [ATTENTION_QUERIES, width] results of one segment
    float *tile_out;              // [ATTENTION_TILE, width]
    struct attention_state states[ATTENTION_TILE];
    bool started[ATTENTION_TILE];
    const struct span *span; // of the tile
    // Head and position of each query of the tile.
    int32_t heads[ATTENTION_TILE], positions[ATTENTION_TILE];
};

// Partial result of one segment for one query, for split-KV.
struct partial {
    struct attention_state state;
    bool present;
};

// Arguments of one call of attention_run.
struct attention_call {
    const struct pages *pages;
    const struct attention_kernels *kernels;
    const struct attention_parameters *parameters;
    struct attention_rows q, out;
    const struct attention_vectors *vectors;
    int32_t n_group; // query heads per key-value head
    // Results of the shared segments: the states [key-value head][row of the groups][head in group], and
    // `out` with width floats per state.
    struct attention_state *shared_states;
    float *shared_out;
    int32_t n_shared_rows;
};

struct attention_tile {
    const struct span *span;
    int64_t query_begin; // row in the span * n_group + head in group
    int n_queries;
    int32_t kv_head;
    int32_t segment_begin, segment_end; // segments with a position that some query sees
};

// Number of floats of ATTENTION_QUERIES packed queries.
size_t packed_floats(const struct pages *pages);

// Positions [begin, end) that a row at `position` sees.
int32_t visible_begin(const struct attention_parameters *parameters, int32_t position);
int32_t visible_end(const struct attention_parameters *parameters, const struct span *span, int32_t position);

// Computes a whole tile, segment by segment. `follower` is the tile that the thread will probably compute
// next, or NULL. It is prefetched.
void tile_compute(const struct attention_call *call, const struct attention_tile *tile,
                  const struct attention_tile *follower, struct attention_scratch *scratch);
// Computes segments [begin, end) of a tile separately; writes partial results [segment - first segment of the
// tile][query].
void tile_compute_parts(const struct attention_call *call, const struct attention_tile *tile, int32_t begin,
                        int32_t end, struct attention_scratch *scratch, struct partial *partials,
                        float *partial_out);
// Merges all partial results of a tile, in order.
void tile_merge_parts(const struct attention_call *call, const struct attention_tile *tile,
                      struct attention_scratch *scratch, const struct partial *partials,
                      const float *partial_out);

// Private header of CPU attention (attention.h defines the arithmetic): spans, which are divided into tiles;
// groups of sequences that share pages; the computation of one tile.
#pragma once

#include "engine/cpu/attention.h"

#include <stdbool.h>

// Rows whose queries may be in one tile, and the segments: the rows of one sequence, or of a group of
// sequences over the segments with shared pages that all of them see completely.
struct span {
    const int32_t *pages;
    const int32_t *rows; // a group's, of the step
    int32_t first_row, n_rows;
    int32_t position;                   // of the first row; of a group: where its segments end
    int32_t segment_begin, segment_end; // bounds
    int32_t first_state; // number of the first row's state: a group's ends there, its sequences' begin there;
                         // -1: none
    bool is_group;
};

// Groups of a step's sequences that share leading pages.
struct sharing {
    int32_t n_max;            // sequences, and rows
    int32_t n_groups, n_rows; // rows in all groups, numbered group by group
    struct span *groups;
    int32_t *rows;        // [n_rows]
    int32_t *group_of;    // [n_sequences] or -1
    int32_t *first_state; // [n_sequences] number of a grouped sequence's first row
    struct shared_candidate *candidates;
};

// Room for n_max sequences and rows. Errors: ERROR_OUT_OF_MEMORY.
enum status sharing_reserve(struct sharing *sharing, int32_t n_max, struct error *error) WARN_UNUSED;
void sharing_finish(struct sharing *sharing);
// Finds groups of two or more sequences. A sequence that fits no existing group starts a new one.
void sharing_find(struct sharing *sharing, struct attention_sequences sequences, int32_t page_positions);

// One thread's memory.
struct attention_scratch {
    float *queries; // [ATTENTION_TILE / ATTENTION_QUERIES] times packed_floats: in the kernels' layout
    float scales[ATTENTION_TILE]; // of the quantized queries; in float32: 1
    struct attention_row *rows;   // [ATTENTION_QUERIES]
    float *out;                   // [ATTENTION_QUERIES, width]: one segment's
    float *tile_out;              // [ATTENTION_TILE, width]
    struct attention_state states[ATTENTION_TILE];
    bool started[ATTENTION_TILE];
    // Of the tile's queries.
    int32_t heads[ATTENTION_TILE], positions[ATTENTION_TILE];
};

// Partial result of one segment for one query, in split-KV.
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
    const float *sinks;
    int32_t n_group; // query heads of one key-value head
    // Partial results of the shared segments: [key-value head][row of the groups][head in group], and as many
    // times width.
    struct attention_state *shared_states;
    float *shared_out;
    int32_t n_shared_rows;
};

struct attention_tile {
    const struct span *span;
    int64_t query_begin; // row of the span * n_group + head in group
    int n_queries;
    int32_t kv_head;
    int32_t segment_begin, segment_end; // with a position visible to some query
};

// Of ATTENTION_QUERIES packed queries.
size_t packed_floats(const struct pages *pages);

// First position visible to a row at `position`.
int32_t visible_begin(const struct attention_parameters *parameters, int32_t position);

// Computes a whole tile, segment by segment. `follower` is the tile that the thread probably computes next,
// or NULL.
void tile_compute(const struct attention_call *call, const struct attention_tile *tile,
                  const struct attention_tile *follower, struct attention_scratch *scratch);
// Computes segments [begin, end) of a tile separately; writes partial results [segment - tile's
// first][query].
void tile_compute_parts(const struct attention_call *call, const struct attention_tile *tile, int32_t begin,
                        int32_t end, struct attention_scratch *scratch, struct partial *partials,
                        float *partial_out);
// Merges all partial results of a tile, in order.
void tile_merge_parts(const struct attention_call *call, const struct attention_tile *tile,
                      struct attention_scratch *scratch, const struct partial *partials,
                      const float *partial_out);

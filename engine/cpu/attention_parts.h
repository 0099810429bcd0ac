// Private header of CPU attention (attention.h defines the arithmetic): spans, which are divided into tiles;
// groups of sequences that share pages; computing one tile.
#pragma once

#include "engine/cpu/attention.h"

#include <stdbool.h>

// Rows whose queries may share a tile, and their segments. Either the rows of one sequence, or the rows of a
// group of sequences with the leading segments that all of them share and see completely.
struct span {
    const int32_t *pages;
    const int32_t *rows; // of the step, for a group
    int32_t first_row, n_rows;
    int32_t n_text;                     // of struct step_sequence
    int32_t position;                   // of the first row; for a group: the end of its segments
    int32_t segment_begin, segment_end; // a sequence's end follows from its rows
    int32_t first_state; // index of the first row's state: a group stores it, its sequences start from it;
                         // -1: none
    bool is_group;
};

// Groups of a step's sequences that share leading pages.
struct sharing {
    int32_t n_max;            // limits of both sequences and rows
    int32_t n_groups, n_rows; // rows in all groups, numbered group by group
    struct span *groups;
    int32_t *rows;        // [n_rows]
    int32_t *group_of;    // [n_sequences] or -1
    int32_t *first_state; // [n_sequences] index of the first row's state, for a sequence in a group
    struct shared_candidate *candidates;
};

// Room for n_max sequences and rows. Errors: ERROR_OUT_OF_MEMORY.
enum status sharing_reserve(struct sharing *sharing, int32_t n_max, struct error *error) WARN_UNUSED;
void sharing_finish(struct sharing *sharing);
// Finds groups of two or more sequences. A sequence that fits no existing group starts a new one.
void sharing_find(struct sharing *sharing, struct attention_sequences sequences, int32_t page_positions);

// One thread's memory.
struct attention_scratch {
    float *queries; // [ATTENTION_TILE / ATTENTION_QUERIES, packed_floats] in the kernels' layout
    float scales[ATTENTION_TILE]; // of the quantized queries; 1 for float32
    struct attention_row *rows;   // [ATTENTION_QUERIES]
    float *out;                   // [ATTENTION_QUERIES, width] of one segment
    float *tile_out;              // [ATTENTION_TILE, width]
    struct attention_state states[ATTENTION_TILE];
    bool started[ATTENTION_TILE];
    // By query of the tile.
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
    const struct attention_vectors *vectors;
    int32_t n_group; // query heads of one key-value head
    // Results of the shared segments: states [key-value head][row of the groups][head in group], and out,
    // width floats for each state.
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

// Positions visible to a row at `position`: [begin, end).
int32_t visible_begin(const struct attention_parameters *parameters, int32_t position);
int32_t visible_end(const struct attention_parameters *parameters, const struct span *span, int32_t position);

// Computes a whole tile, segment by segment. `follower`: the tile that the thread probably computes next, for
// prefetching; or NULL.
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

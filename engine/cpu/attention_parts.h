// What the files of attention share (attention.h says what is computed): spans, which are cut into tiles; who
// shares pages; one tile's work.
#pragma once

#include "engine/cpu/attention.h"

#include <stdbool.h>

// Rows whose queries may stand in one tile, over which segments: those of one sequence, or those of a group
// of sequences over the segments that all of them see whole and whose pages they share.
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

// Which sequences of a step share leading pages.
struct sharing {
    int32_t n_max;            // sequences, and rows
    int32_t n_groups, n_rows; // rows in all groups, numbered group by group
    struct span *groups;
    int32_t *rows;        // [n_rows]
    int32_t *group_of;    // [n_sequences] or -1
    int32_t *first_state; // [n_sequences] number of a grouped sequence's first row
    struct candidate *candidates;
};

// Room for n_max sequences and rows. Errors: ERROR_OUT_OF_MEMORY.
enum status sharing_reserve(struct sharing *sharing, int32_t n_max, struct error *error) WARN_UNUSED;
void sharing_finish(struct sharing *sharing);
// Finds groups of two sequences and more. Whoever fits no group as it stands begins one of his own.
void sharing_find(struct sharing *sharing, struct attention_sequences sequences, int32_t page_positions);

// One thread's memory.
struct scratch {
    float *queries; // [ATTENTION_TILE / ATTENTION_QUERIES] times packed_floats: as the kernels want them
    float worths[ATTENTION_TILE]; // of the queries' integers; in float32: 1
    struct attention_row *rows;   // [ATTENTION_QUERIES]
    float *out;                   // [ATTENTION_QUERIES, width]: one segment's
    float *tile_out;              // [ATTENTION_TILE, width]
    struct attention_state states[ATTENTION_TILE];
    bool started[ATTENTION_TILE];
    // Of the tile's queries.
    int32_t heads[ATTENTION_TILE], positions[ATTENTION_TILE];
};

// What one segment left for one query, when segments are dealt out.
struct kept {
    struct attention_state state;
    bool present;
};

// One call of attention_run: what its tiles read and where they write.
struct call {
    const struct pages *pages;
    const struct attention_kernels *kernels;
    const struct attention_parameters *parameters;
    struct attention_rows q, out;
    const float *sinks;
    int32_t n_group; // query heads of one key-value head
    // What the shared segments left: [key-value head][row of the groups][head in group], and as many times
    // width.
    struct attention_state *shared_states;
    float *shared_out;
    int32_t n_shared_rows;
};

struct tile {
    const struct span *span;
    int64_t query_begin; // row of the span * n_group + head in group
    int n_queries;
    int32_t kv_head;
    int32_t segment_begin, segment_end; // that hold a position some query sees
};

// Of ATTENTION_QUERIES packed queries.
size_t packed_floats(const struct pages *pages);

// First position that a row at `position` sees.
int32_t visible_begin(const struct attention_parameters *parameters, int32_t position);

// A whole tile: its states travel through the segments. `follower` is what the thread probably does next, or
// NULL.
void tile_compute(const struct call *call, const struct tile *tile, const struct tile *follower,
                  struct scratch *scratch);
// Segments [begin, end) of a tile, each for itself: kept and kept_out [segment - tile's first][query].
void tile_compute_parts(const struct call *call, const struct tile *tile, int32_t begin, int32_t end,
                        struct scratch *scratch, struct kept *kept, float *kept_out);
// All parts of a tile are there: merges them in order.
void tile_merge_parts(const struct call *call, const struct tile *tile, struct scratch *scratch,
                      const struct kept *kept, const float *kept_out);

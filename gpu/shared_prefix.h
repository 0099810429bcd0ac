// Finds, from the block tables of a step, the segments of attention that several sequences have in common,
// and cuts their queries into tiles (gpu/kernels_attention.h), so that keys and values are read once for all
// of them. Prefixes may branch: a segment's companies are parts of those of the segment before it.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/kernels_attention.h"

enum {
    SHARED_SEQUENCES_LEAST = 4, // in a company: fewer read little twice, and the device is not full
    SHARED_TILES_MAX = 4096,    // of a step: 256 segments of 1,024 queries; what is beyond is read by each for itself
};

// What decides whether sharing pays.
struct shared_rules {
    int32_t page_positions, n_heads, n_kv_heads;
    int32_t tile_queries, small_queries; // attention_shared_queries, attention_small_queries
    int32_t n_segments_most;             // that the scratch has room for
};

struct shared_prefix {
    int32_t n_sequences_max;
    struct shared_run *runs;     // of the sequences, sorted by their pages
    int32_t *first_parts, *n_shared; // [n_sequences_max], by sequence
    int32_t *members;            // rows of small sequences, by part: [n_part_rows], the sharing ones before the others
    int32_t n_rows_max, n_part_rows;
    struct attention_shared_tile *tiles; // first_page: number of the sequence whose pages they are
    int32_t n_tiles, n_segments;         // n_segments: the most that a sequence shares
    int64_t n_reads_saved;               // of a segment by a tile, for each key-value head and layer
};

enum status shared_prefix_init(struct shared_prefix *shared, int32_t n_sequences_max, int32_t n_rows_max,
                               struct error *error) WARN_UNUSED;
void shared_prefix_finish(struct shared_prefix *shared);
void shared_prefix_find(struct shared_prefix *shared, const struct step *step, const struct shared_rules *rules);

// Shared-prefix attention (cascade attention in vLLM and FlashInfer): finds in the block tables of a step the
// attention segments that several sequences share, and groups their queries into tiles
// (gpu/kernels/kernels_attention.h), so that keys and values are read once for the group. Prefixes may
// branch: the sequences of a group are a subset of a group of the previous segment.
//
//   sequences   segment 0   segment 1   segment 2
//   A B C D     P           Q           own
//   E F G H I   P           R           own           three groups: P of A to I, Q of A to D, R of E to I
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/kernels/kernels_attention.h"

enum {
    SHARED_SEQUENCES_LEAST = 4, // per group: fewer would save little, and do not fill the device
    // Maximum per step: 256 segments of 1,024 queries. Sequences beyond the limit are not grouped.
    SHARED_TILES_MAX = 4096,
};

// Numbers that decide whether grouping reads less.
struct shared_rules {
    int32_t page_positions, n_heads, n_kv_heads;
    int32_t tile_queries, small_queries; // attention_shared_queries, attention_small_queries
    int32_t n_segments_most;             // capacity of the scratch
};

struct shared_prefix {
    int32_t n_sequences_max;
    struct shared_run *runs;         // small sequences, sorted by their pages
    int32_t *first_parts, *n_shared; // [n_sequences_max], by sequence
    int32_t *members;                // [n_part_rows] rows of small sequences; rows in groups first
    int32_t n_rows_max, n_part_rows;
    struct attention_shared_tile *tiles; // first_page: index of the sequence that has the pages
    int32_t n_tiles, n_segments;         // n_segments: maximum of a sequence
    int64_t n_reads_saved;               // saved reads of a segment, per key-value head and layer
};

enum status shared_prefix_init(struct shared_prefix *shared, int32_t n_sequences_max, int32_t n_rows_max,
                               struct error *error) WARN_UNUSED;
void shared_prefix_finish(struct shared_prefix *shared);
void shared_prefix_find(struct shared_prefix *shared, const struct step *step,
                        const struct shared_rules *rules);

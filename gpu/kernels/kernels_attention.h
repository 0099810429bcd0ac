// Launches of the attention kernels: paged grouped-query attention, split-KV, with shared prefixes computed
// once (cascade attention). This header defines the layout of the pages, the arithmetic and the arguments.
// The rules of gpu/kernels/kernels.h apply.
//
// Pages: [layer][page][key-value head][block of 16 positions], for every type: keys, then values, in the
// order of the 32 lanes of a warp (g = lane / 4, t = lane % 4). Dimensions are padded with zeros: keys to a
// multiple of 32, values to a multiple of 16.
//   binary16 (for KV_F16 and KV_F32)
//     keys    [2 halves of 8 positions][key_dim / 32][32 lanes][8]
//             position g of the half, dimensions 32 j + 8 t + 0..7
//     values  [value_dim / 16][32 lanes][2][4]
//             dimensions 16 b + g and 16 b + 8 + g, positions 4 t + 0..3
//   KV_Q8_0: the same order with one byte per item: 128 + integer; item = binary16 of integer * scale
//     keys, scales    [2][key_dim / 32][8 positions] binary16: a scale per position and 32 dimensions
//     values, scales  [value_dim / 32, rounded up][16 positions] binary16
//     scale = binary16 of the largest absolute item / 127; integer = item / scale rounded to nearest even,
//     in -127 .. 127. So a stored value depends only on the 32 dimensions of its group. A group with an item
//     that is not finite is NaN.
//
// The arithmetic of a query (one head of one row), the same in every kernel, batch and prefill chunking:
//   query     q times scale, as the sum of two binary16 (22 bits)
//   scores    s[j] = q . k[j] over the visible positions j, in fragments of 16 dimensions in order, the
//             upper binary16's product before the lower's; then soft cap, linear bias, relative bias, times log2 e
//   segments  split-KV segments of ATTENTION_SEGMENT positions; in each segment with a visible position:
//             m = max s[j]
//             p[j] = binary16 of 2^(s[j] - m)
//             l = sum of p[j]: lane i of 32 adds positions i, i + 32, .. in order, then a butterfly over
//                 lanes 16, 8, 4, 2, 1 apart
//             o = sum of p[j] v[j], in fragments of 16 positions in order
//   merge     segments in order (online softmax): with M = max(m, m'), a = 2^(m - M), b = 2^(m' - M):
//             l = fma(l', b, l a), o = fma(o', b, o a)
//   sink      merged last, with l' = 1 and without o'
//   result    o / l
#pragma once

#include "engine/backend.h"
#include "gpu/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ATTENTION_DIM_MAX = MODEL_HEAD_DIM_MAX, // maximum of key_dim and of value_dim
    ATTENTION_BLOCK = 16,                   // positions in a block
    ATTENTION_GROUP = 32,                   // dimensions that share a scale
    ATTENTION_BLOCKS_RESIDENT = 2,          // decode blocks that fit the shared memory of a multiprocessor
};

struct attention_pages {
    void *memory;                                              // attention_pages_bytes
    int32_t n_layers, n_pages, n_kv_heads, key_dim, value_dim; // dims at most ATTENTION_DIM_MAX
    int32_t page_positions;                                    // a multiple of ATTENTION_BLOCK
    enum kv_type type;                                         // KV_F32 is stored as binary16
};

// Bytes of ATTENTION_BLOCK positions of one key-value head.
static inline uint64_t attention_block_bytes(const struct attention_pages *pages)
{
    uint64_t key_steps = ((uint64_t)pages->key_dim + 31) / 32,
             value_blocks = ((uint64_t)pages->value_dim + 15) / 16;
    if (pages->type == KV_Q8_0)
        return key_steps * (512 + 32) + value_blocks * 256 + (value_blocks + 1) / 2 * 32;
    return key_steps * 1024 + value_blocks * 512;
}

static inline uint64_t attention_pages_bytes(const struct attention_pages *pages)
{
    return (uint64_t)pages->n_layers * (uint64_t)pages->n_pages * (uint64_t)pages->n_kv_heads *
           (uint64_t)(pages->page_positions / ATTENTION_BLOCK) * attention_block_bytes(pages);
}

// Consecutive rows of one sequence. n_rows is 0 for padding.
struct attention_sequence {
    int32_t first_row, n_rows, position; // position: of first_row
    // Positions from i * page_positions on are in page tables[first_page + i].
    int32_t first_page;
    int32_t first_part; // small sequences: index of the first row in the scratch
    int32_t n_shared;   // number of leading segments that shared tiles compute
    int32_t n_runs;     // runs that have segments of it (attention_assign); 0 or 1: it is not cut
    int32_t n_text; // bidirectional attention: positions of the text, which all of its rows see; 0: causal
    int32_t state_in, state_out; // slots of recurrent states (gpu/kernels/kernels_recurrent.h)
};

// Queries of several sequences that share all pages of a segment. The segment ends before the positions of
// the members' rows. Query i is head i % group of row members[first_member + i / group]. Member m has part m
// of the scratch.
struct attention_shared_tile {
    int32_t segment, first_page; // first_page: in the block table of any member
    int32_t first_member;
    int32_t first_query, n_queries; // at most attention_shared_queries; 0: padding
    int32_t position_least;         // lowest position of the members' rows
};

struct attention_shared {
    const struct attention_shared_tile *tiles;
    const int32_t *members;   // rows
    const int32_t *positions; // [n_rows]
    int32_t n_tiles;          // 0: none
    // Maximum number of segments of a sequence. The scratch has this number of partial results for each of
    // n_part_rows rows.
    int32_t n_segments;
};

// Where a run begins; it ends where the next run begins. Segment 0 means the begin of the sequence, including
// its shared segments.
struct attention_run {
    int32_t sequence, segment;
};

// Runs of segments of small sequences, each for one block per tile (gpu/attention_assign.h). Not used for
// layers with a window or a chunk: both are short, and each such layer would need its own runs.
struct attention_assigned {
    const struct attention_run *runs; // [n_runs + 1]; NULL: a block computes one sequence
    int32_t n_runs;
    int32_t *arrivals; // [attention_assign_arrivals] zeros before and after the launch
};

// The step's size.
struct attention_extent {
    int32_t n_sequences, n_rows;
    int32_t n_rows_most;      // maximum rows of a sequence; sizes the launch
    int32_t n_part_rows;      // lower bound of the number of rows of small sequences
    int32_t n_positions_most; // lower bound of the number of positions visible to a row
};

// Scale, cap, window and bias of the scores.
struct attention_masking {
    float scale, softcap; // 0: none
    int32_t window;       // 0: all
    int32_t chunk;        // positions from the last multiple of it on are seen; 0: all
    float alibi_bias_max; // 0: none
    const float *sinks;   // [n_heads] or NULL
    // Added to the score of a query and a key: item [head][center + distance], the distance being the key's position
    // minus the query's. NULL: none.
    const float *relative_bias; // [n_heads, n_relative]
    int32_t n_relative, relative_center;
};

struct attention_partials {
    void *memory;
    uint64_t size_bytes; // 0: none
};

struct attention_device {
    int32_t n_multiprocessors;
    uint64_t shared_bytes_max; // shared memory per block
};

struct attention_launch {
    struct attention_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences; // [n_sequences]
    const int32_t *tables;
    struct attention_extent extent;
    const float *q;
    float *out; // [n_rows, n_heads, dim]
    struct {
        int64_t q, out;
    } strides;
    int32_t n_heads;
    struct attention_masking scoring;
    // Shared prefixes (cascade attention). A shared segment is computed for all its members with one read of
    // keys and values; then each member merges the result in the order of its segments. Only small sequences
    // (attention_is_small) are members.
    struct attention_shared shared;
    // Scratch for the partial results of split-KV decoding, with which few sequences with long contexts
    // occupy all multiprocessors.
    struct attention_partials partials;
    struct attention_assigned assigned;
    // Converts `out` to the operand of the GEMM that reads it next. Rows that belong to no sequence are not
    // converted.
    struct next_operand next;
    struct attention_device device;
};

// Rotary embeddings of the first n_dims dimensions of a head, in pairs as in launch_rope
// (gpu/kernels/kernels_rows.h).
struct attention_rotation {
    const float *cos_sin; // [n_rows, n_dims]; NULL: none
    int32_t n_dims;
    bool halves;
};

struct attention_queries {
    float *items;
    int64_t stride;
    int32_t n_heads, head_dim;
    struct attention_rotation rotation;
};

struct attention_store {
    struct attention_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences;
    // [n_rows] sequence of each row; negative: padding, or already stored
    const int32_t *row_sequences;
    const int32_t *tables;
    int32_t n_rows;
    const float *k, *v;
    int64_t k_stride, v_stride;
    struct attention_rotation rotation; // rotation of the keys
    struct attention_queries queries;   // rotated in place, also in rows without a sequence
};

// True if the decode kernel computes the sequence: its queries fit in the strips that one token needs.
static inline bool attention_is_small(int32_t n_rows, int32_t n_heads, int32_t n_kv_heads)
{
    int32_t group = n_heads / n_kv_heads;
    return (int64_t)n_rows * group <= (group + 15) / 16 * 16;
}

// Bytes of one query's partial result for one segment in the scratch.
static inline uint64_t attention_part_bytes(int32_t value_dim)
{
    return ((uint64_t)value_dim + 4) * sizeof(float);
}

// Whether the scratch has room for the partial results of all segments of all small sequences.
static inline bool attention_parts_fit(const struct attention_pages *pages, int32_t n_heads,
                                       const struct attention_extent *extent, uint64_t size_bytes)
{
    uint64_t n_segments = ((uint64_t)extent->n_positions_most + ATTENTION_SEGMENT - 1) / ATTENTION_SEGMENT,
             row_bytes = (uint64_t)n_heads * attention_part_bytes(pages->value_dim);
    return (uint64_t)extent->n_part_rows * row_bytes * n_segments <= size_bytes;
}

// Number of queries of the largest shared tile, and of the largest decode tile, that fit in a block's shared
// memory.
int32_t attention_shared_queries(const struct attention_pages *pages, uint64_t shared_bytes_max);
int32_t attention_small_queries(const struct attention_pages *pages, int32_t n_heads,
                                uint64_t shared_bytes_max);

// Bytes of scratch for steps of n_rows decode tokens that see n_positions_most positions each, up to a limit.
uint64_t attention_scratch_bytes(int32_t n_heads, int32_t value_dim, int32_t n_rows,
                                 int64_t n_positions_most);
// Rotates the queries in place, and stores the rotated keys and the values of the rows in their pages. `k` is
// unchanged.
void launch_attention_store(void *stream, const struct attention_store *store);
// Computes attention. Rows of `out` that belong to no sequence are not written.
void launch_attention(void *stream, const struct attention_launch *attention);

#ifdef __cplusplus
}
#endif

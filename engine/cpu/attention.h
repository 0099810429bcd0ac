// Paged attention (grouped-query, split-KV) for the tokens of a step, causal or bidirectional.
//
// Definition, the same for any number of rows, threads, prefill chunks, page size and instruction set:
//   s[j] = q . k[j], dimension by dimension in order, each by one fused multiply-add; in units of ln 2:
//          s * scale, soft cap, fma(slope, -|j - position|, s) with a slope, and fma(bias, log2 e, s) with
//          biases by distance; for the visible positions j. Terms of disentangled attention are such biases:
//          their sum (engine/backend.h) times scale.
//          With integers in the pages (pages.h): q is quantized to 16 bits; the integer product is exact and
//          is multiplied by the scale of k[j] and, as part of `scale`, the scale of q.
//   Segments of ATTENTION_SEGMENT positions are aligned to position 0. For each with a visible position:
//   m = max s[j]; p[j] = 2^(s[j] - m), at least 2^-125
//   l = sum of p[j], 16 partial sums by j mod 16, then 8 apart, 4, 2, 1
//   o = sum of p[j] v[j] in order of j, by fused multiply-add. With integers: for each group of 32 positions,
//          aligned to the segment, w[j] = p[j] * scale of v[j]; w is quantized to integers with the 2-norm
//          I16_WEIGHTS_NORM; their product x with v's integers is exact; o = fma(x, w.scale, o)
//   Segments are merged in order: with M = max(m, m'), a = 2^(m - M), b = 2^(m' - M):
//   l = fma(l', b, l a), o = fma(o', b, o a). A sink is merged last, with l' = 1 and no o'.
//   Result: o / l.
// (Online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867; FlashAttention, Dao et al. 2022,
// arXiv:2205.14135.)
//
// Work is divided into tiles: up to ATTENTION_TILE queries (a query is one head of one row) with the same
// key-value head and pages: of one sequence or, over shared leading segments, of all sequences that share
// them (cascade attention). A tile has the m, l, o of its queries and iterates over the segments, so a
// segment's keys and values are loaded once for all of them. Shared segments are computed first; the
// sequences' own tiles start from their m, l, o. With few tiles and long contexts, a tile's segments are
// split over tasks (split-KV): each stores partial results, and the last task merges them in order.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/pages.h"
#include "schemas/base/pool.h"

enum {
    ATTENTION_QUERIES = 8, // queries that a kernel processes at a time
    ATTENTION_TILE = 256,
    SEGMENT_BLOCKS = ATTENTION_SEGMENT / PAGE_BLOCK,
    I16_GROUP_BLOCKS = 2,
    I16_GROUPS = SEGMENT_BLOCKS / I16_GROUP_BLOCKS,
};

// Limits for a group's 32 integer weights and the 32 integer values of one dimension. By Cauchy-Schwarz their
// dot product is at most (23,150 + sqrt(32) / 2) * sqrt(32) * I16_VALUE_MAX < 2^31.
#define I16_WEIGHTS_NORM  23150.0f
#define I16_SQUARES_LEAST 0x1p-100f // least sum of squares of a group's w; with less they lose digits

#define LOG2_E 0x1.715476p0f

struct attention_scoring {
    float scale;          // factor of q . k, times log2 e if there is no cap
    float softcap;        // 0: none
    float cap_scale;      // softcap * log2 e
    float slope;          // ALiBi slope, times log2 e
    float first_distance; // first position of the segment - position of the row
    const float *biases;  // biases of the segment's positions; NULL: none
};

// Online softmax state of a query.
struct attention_state {
    float largest, sum;
};

// A segment's blocks of keys or values (pages.h). While a kernel processes items[i], it prefetches the
// `ahead_bytes` at ahead[i], which are read next. To prefetch nothing, ahead[i] is items[i].
struct attention_blocks {
    const void *const *items, *const *ahead; // [SEGMENT_BLOCKS]
    int32_t ahead_bytes;
};

// A query's scores in a segment; later its weights p. For integer values also the quantized weights.
struct attention_row {
    float items[ATTENTION_SEGMENT];
    int16_t weights[ATTENTION_SEGMENT];
    float scales[I16_GROUPS];
};

// Kernels of attention. Positions are relative to the start of the segment.
struct attention_kernels {
    // packed[d][q] = queries[q][d] for up to ATTENTION_QUERIES queries; entries of missing queries are
    // undefined.
    void (*pack)(float *packed, const float *const *queries, int n_queries, int32_t key_dim);
    // Quantizes queries to 16-bit integers: packed[d / 2][q][d % 2], and one scale per query. Pads to the
    // next multiple of 32 dimensions.
    void (*pack_i16)(int16_t *packed, float *scales, const float *const *queries, int n_queries,
                     int32_t key_dim);
    // Computes rows[q].items[j] = queries[..][q] . keys[j] for the positions of blocks [block_begin,
    // block_end). One function for each kind of page items.
    void (*scores[PAGE_ITEM_KINDS])(const void *queries, int n_queries, struct attention_blocks keys,
                                    int block_begin, int block_end, int32_t key_dim,
                                    struct attention_row *rows);
    // Converts one query's visible scores [begin, end) to weights p. Sets the other positions of their blocks
    // to 0.
    void (*soften)(struct attention_row *row, int begin, int end, const struct attention_scoring *scoring,
                   struct attention_state *state);
    // Quantizes one query's weights p in [begin, end); weights of other positions of the segment become 0.
    // `scales_offset_bytes` is the offset of the scales in a block of values.
    void (*quantize_weights)(struct attention_row *row, int begin, int end, struct attention_blocks values,
                             size_t scales_offset_bytes);
    // Adds out[q][d] += weights[q][j] values[j][d] for j in [begin, end); out is [n_queries, width]. With
    // integers, j runs over all groups that overlap [begin, end).
    void (*values[PAGE_ITEM_KINDS])(const struct attention_row *rows, int n_queries,
                                    struct attention_blocks values, int begin, int end, int32_t width,
                                    float *out);
    // Merges results of the next segment (`parts`) into the states of up to ATTENTION_QUERIES queries. `out`
    // and `parts_out` have width floats per query.
    void (*merge)(int n, struct attention_state *states, float *out, const struct attention_state *parts,
                  const float *parts_out, int32_t width);
    // Merges the attention sink, if any, then divides by l.
    void (*finish)(float *out, const struct attention_state *state, const float *state_out, int32_t value_dim,
                   const float *sink);
};

void attention_kernels_plain(struct attention_kernels *kernels);
void attention_kernels_avx2(struct attention_kernels *kernels);
void attention_kernels_avx512(struct attention_kernels *kernels);
void attention_kernels_neon(struct attention_kernels *kernels);

// Memory of attention for one set of pages: scratch of each thread, and partial results.
struct attention;

enum status attention_create(struct attention **attention, const struct pages *pages, struct pool *pool,
                             const struct attention_kernels *kernels, struct error *error) WARN_UNUSED;
void attention_destroy(struct attention *attention);
// Reserves memory for steps of up to n_rows_max tokens.
enum status attention_reserve(struct attention *attention, int32_t n_rows_max,
                              struct error *error) WARN_UNUSED;

// Rows of floats in a matrix.
struct attention_rows {
    float *items;
    int64_t stride;
};

struct attention_sequences {
    const struct step_sequence *items;
    int32_t n;
};

// Sets a step's sequences; their block tables must stay valid until its last attention_run.
void attention_begin(struct attention *attention, struct attention_sequences sequences);

// Sparse attention (selection.h): the positions that rows see. Rows at positions below n_most see all positions.
struct selected_rows {
    const int32_t *positions; // [n_rows, n_lists, n_most]; NULL: all rows see all positions
    const int32_t *counts;    // [n_rows, n_lists] positions of each list
    int32_t n_most;
    int32_t n_lists; // 1, or one for each key-value head
};

// struct disentangled_terms as floats. items NULL: no such term; buckets NULL: no terms.
struct attention_terms {
    struct attention_rows queries, keys; // [rows, n_heads * n_columns]
    int32_t n_columns;
    const int32_t *buckets; // [2 center + 1]
    int32_t center;
};

// The vectors of attention_parameters as floats. This file does not know the layout of weights.
struct attention_vectors {
    const float *sinks;         // [n_heads] or NULL
    const float *relative_bias; // [n_heads, n_relative] or NULL
    int64_t n_relative;
    struct selected_rows selected;
    struct attention_terms terms;
};

// Computes out[row][head][value_dim] for the rows of all sequences, from q[row][head][key_dim].
void attention_run(struct attention *attention, const struct attention_parameters *parameters,
                   struct attention_rows q, struct attention_rows out,
                   const struct attention_vectors *vectors);

// Returns the ALiBi slope of a head (Press et al. 2021, arXiv:2108.12409). If n_heads is a power of two, the
// slope of the first head is 2^(-bias_max / n_heads).
float attention_slope(int32_t head, int32_t n_heads, float bias_max);

// The attention kernels over vectors of 16 floats (attention.h defines what they compute). Included by
// attention_plain.c, attention_avx2.c, attention_avx512.c and attention_neon.c after their lanes_*.h. They
// define:
//   ATTENTION_KERNELS   name of the function that fills the table
//   TILE_QUERIES        queries processed at a time: 1, 4 or 8
//   TILE_VECTORS(n)     vectors per query for n queries: of the scores of 16 positions or the sums of 16 dims
// n * TILE_VECTORS(n) sums stay in registers: enough in flight to hide the latency of a multiply-add.
#pragma once

#include "engine/cpu/attention.h"
#include "engine/cpu/lanes_functions.h"

#include <math.h>
#include <stdbool.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { TILE_VECTORS_MAX = 8 };

struct scores_work {
    const void *queries; // packed by pack or pack_i16
    struct attention_blocks keys;
    int block_begin, block_end;
    int32_t key_dim;
    struct attention_row *rows;
};

struct values_work {
    const struct attention_row *rows;
    struct attention_blocks values;
    int begin, end;
    int32_t width;
    float *out;
};

// Transposes 8 x 16 items by splitting all of them into even and odd items, four times.
ALWAYS_INLINE void transpose_block(struct lanes x[ATTENTION_QUERIES])
{
    for (int round = 0; round < 4; round++) {
        struct lanes y[ATTENTION_QUERIES];
        for (int i = 0; i < ATTENTION_QUERIES / 2; i++)
            lanes_split_pairs(x[2 * i], x[2 * i + 1], &y[i], &y[ATTENTION_QUERIES / 2 + i]);
        for (int i = 0; i < ATTENTION_QUERIES; i++)
            x[i] = y[i];
    }
}

// Prefetches to the L2 cache, because half a segment fills L1.
ALWAYS_INLINE void prefetch_l2(const char *address)
{
    __builtin_prefetch(address, 0, 2);
}

// The following functions are inlined with constant n_queries, n_blocks, n_vectors and items. Then their
// arrays become registers.

ALWAYS_INLINE void scores_tile(const struct scores_work *work, int n_queries, int first_block, int n_blocks)
{
    struct lanes sums[ATTENTION_QUERIES][TILE_VECTORS_MAX];
    const float *blocks[TILE_VECTORS_MAX];
    const char *ahead[TILE_VECTORS_MAX];
    const float *queries = work->queries;
    int32_t key_dim = work->key_dim, ahead_step = (work->keys.ahead_bytes + key_dim - 1) / key_dim;
    for (int b = 0; b < n_blocks; b++) {
        blocks[b] = work->keys.items[first_block + b];
        ahead[b] = work->keys.ahead[first_block + b];
        for (int q = 0; q < n_queries; q++)
            sums[q][b] = lanes_set(0.0f);
    }
    for (int32_t d = 0; d < key_dim; d++) {
        for (int b = 0; b < n_blocks; b++) {
            struct lanes key = lanes_load(blocks[b] + (size_t)d * PAGE_BLOCK);
            prefetch_l2(ahead[b] + d * ahead_step);
            for (int q = 0; q < n_queries; q++)
                sums[q][b] = lanes_fma(lanes_set(queries[d * ATTENTION_QUERIES + q]), key, sums[q][b]);
        }
    }
    for (int q = 0; q < n_queries; q++)
        for (int b = 0; b < n_blocks; b++)
            lanes_store(work->rows[q].items + (first_block + b) * PAGE_BLOCK, sums[q][b]);
}

// Computes sums of n_vectors x 16 dimensions over the positions [begin, end).
ALWAYS_INLINE void values_tile(const struct values_work *work, int n_queries, int32_t dimension,
                               int n_vectors)
{
    struct lanes sums[ATTENTION_QUERIES][TILE_VECTORS_MAX];
    size_t width = (size_t)work->width;
    int32_t n_vectors_row = work->width / LANES;
    int32_t ahead_step = (work->values.ahead_bytes + work->width - 1) / work->width;
    float *out = work->out + dimension;
    for (int q = 0; q < n_queries; q++)
        for (int i = 0; i < n_vectors; i++)
            sums[q][i] = lanes_load(out + (size_t)q * width + i * LANES);
    for (int j = work->begin; j < work->end;) {
        const float *block = work->values.items[j / PAGE_BLOCK];
        const char *ahead = work->values.ahead[j / PAGE_BLOCK];
        ahead += (j % PAGE_BLOCK * n_vectors_row + dimension / LANES) * ahead_step;
        size_t index = (size_t)(j % PAGE_BLOCK) * width + (size_t)dimension;
        int block_end = (j / PAGE_BLOCK + 1) * PAGE_BLOCK;
        for (block_end = block_end < work->end ? block_end : work->end; j < block_end; j++, index += width) {
            for (int i = 0; i < n_vectors; i++) {
                struct lanes value = lanes_load(block + index + (size_t)i * LANES);
                prefetch_l2(ahead + i * ahead_step);
                for (int q = 0; q < n_queries; q++)
                    sums[q][i] = lanes_fma(lanes_set(work->rows[q].items[j]), value, sums[q][i]);
            }
            ahead += n_vectors_row * ahead_step;
        }
    }
    for (int q = 0; q < n_queries; q++)
        for (int i = 0; i < n_vectors; i++)
            lanes_store(out + (size_t)q * width + i * LANES, sums[q][i]);
}

#include "engine/cpu/attention_i16.h"

ALWAYS_INLINE void scores_part(const struct scores_work *work, int n_queries, int first_block, int n_blocks,
                               enum page_items items)
{
    if (items != PAGE_F32)
        scores_tile_integers(work, n_queries, first_block, n_blocks, items);
    else
        scores_tile(work, n_queries, first_block, n_blocks);
}

ALWAYS_INLINE void values_part(const struct values_work *work, int n_queries, int32_t dimension,
                               int n_vectors, enum page_items items)
{
    if (items != PAGE_F32)
        values_tile_integers(work, n_queries, dimension, n_vectors, items);
    else
        values_tile(work, n_queries, dimension, n_vectors);
}

ALWAYS_INLINE void scores_of(const struct scores_work *work, int n_queries, enum page_items items)
{
    int block = work->block_begin;
    for (; block + TILE_VECTORS(n_queries) <= work->block_end; block += TILE_VECTORS(n_queries))
        scores_part(work, n_queries, block, TILE_VECTORS(n_queries), items);
    for (; block < work->block_end; block++)
        scores_part(work, n_queries, block, 1, items);
}

ALWAYS_INLINE void values_of(const struct values_work *work, int n_queries, enum page_items items)
{
    int32_t d = 0;
    for (; d + TILE_VECTORS(n_queries) * LANES <= work->width; d += TILE_VECTORS(n_queries) * LANES)
        values_part(work, n_queries, d, TILE_VECTORS(n_queries), items);
    for (; d < work->width; d += LANES)
        values_part(work, n_queries, d, 1, items);
}

// Dispatches to a constant number of queries, one that next_count returns.
ALWAYS_INLINE void scores_count(const struct scores_work *work, int n_queries, enum page_items items)
{
    switch (n_queries) {
    case 1:
        scores_of(work, 1, items);
        break;
    case 2:
        if (TILE_QUERIES >= 2)
            scores_of(work, 2, items);
        break;
    case 3:
        if (TILE_QUERIES >= 3)
            scores_of(work, 3, items);
        break;
    case 4:
        if (TILE_QUERIES >= 4)
            scores_of(work, 4, items);
        break;
    case 8:
        if (TILE_QUERIES >= 8)
            scores_of(work, 8, items);
        break;
    }
}

ALWAYS_INLINE void values_count(const struct values_work *work, int n_queries, enum page_items items)
{
    switch (n_queries) {
    case 1:
        values_of(work, 1, items);
        break;
    case 2:
        if (TILE_QUERIES >= 2)
            values_of(work, 2, items);
        break;
    case 3:
        if (TILE_QUERIES >= 3)
            values_of(work, 3, items);
        break;
    case 4:
        if (TILE_QUERIES >= 4)
            values_of(work, 4, items);
        break;
    case 8:
        if (TILE_QUERIES >= 8)
            values_of(work, 8, items);
        break;
    }
}

// Returns the number of queries to process next: TILE_QUERIES or, for the rest, 4 or fewer, divided as evenly
// as possible.
static inline int next_count(int n_queries)
{
    if (n_queries >= TILE_QUERIES)
        return TILE_QUERIES;
    int n_parts = (n_queries + 3) / 4;
    return (n_queries + n_parts - 1) / n_parts;
}

ALWAYS_INLINE void compute_scores(struct scores_work work, int n_queries, enum page_items items)
{
    size_t query_bytes = items != PAGE_F32 ? 2 * sizeof(int16_t) : sizeof(float);
    for (int n; n_queries > 0; n_queries -= n) {
        n = next_count(n_queries);
        scores_count(&work, n, items);
        work.keys.ahead = work.keys.items; // prefetch only once
        work.queries = (const char *)work.queries + (size_t)n * query_bytes;
        work.rows += n;
    }
}

ALWAYS_INLINE void weigh_values(struct values_work work, int n_queries, enum page_items items)
{
    for (int n; n_queries > 0; n_queries -= n) {
        n = next_count(n_queries);
        values_count(&work, n, items);
        work.values.ahead = work.values.items;
        work.rows += n;
        work.out += (size_t)n * (size_t)work.width;
    }
}

#define SCORES(name, items)                                                                                  \
    static void name(const void *queries, int n_queries, struct attention_blocks keys, int block_begin,      \
                     int block_end, int32_t key_dim, struct attention_row *rows)                             \
    {                                                                                                        \
        compute_scores((struct scores_work){queries, keys, block_begin, block_end, key_dim, rows},           \
                       n_queries, items);                                                                    \
    }

#define VALUES(name, items)                                                                                  \
    static void name(const struct attention_row *rows, int n_queries, struct attention_blocks blocks,        \
                     int begin, int end, int32_t width, float *out)                                          \
    {                                                                                                        \
        weigh_values((struct values_work){rows, blocks, begin, end, width, out}, n_queries, items);          \
    }

SCORES(scores_f32, PAGE_F32)
SCORES(scores_i16, PAGE_I16)
SCORES(scores_i8, PAGE_I8)
VALUES(values_f32, PAGE_F32)
VALUES(values_i16, PAGE_I16)
VALUES(values_i8, PAGE_I8)

// Applies scale, cap and bias to the scores of positions first .. first + 15.
static inline struct lanes shaped_scores(struct lanes x, int first, const struct attention_scoring *scoring)
{
    static const float indices[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    x = lanes_multiply(x, lanes_set(scoring->scale));
    if (scoring->softcap != 0.0f)
        x = lanes_multiply(lanes_set(scoring->cap_scale),
                           lanes_tanh(lanes_divide(x, lanes_set(scoring->softcap))));
    if (scoring->slope != 0.0f) {
        const struct lanes zero = lanes_set(0.0f);
        struct lanes distance =
            lanes_add(lanes_load(indices), lanes_set((float)first + scoring->first_distance));
        distance = lanes_if_less(zero, distance, lanes_subtract(zero, distance), distance);
        x = lanes_fma(lanes_set(scoring->slope), distance, x);
    }
    if (scoring->biases)
        x = lanes_fma(lanes_load(scoring->biases + first), lanes_set(LOG2_E), x);
    return x;
}

// Shapes and stores the scores, and returns their maximum. `bare` means that shaping only multiplies by a
// positive scale. Then returns the maximum of the unshaped scores and stores nothing. The caller scales the
// maximum, because rounding keeps the order.
ALWAYS_INLINE struct lanes largest_score(float *scores, int begin, int end,
                                         const struct attention_scoring *scoring, bool bare)
{
    const struct lanes lowest = lanes_set(-INFINITY);
    struct lanes largest = lowest;
    for (int i = begin / PAGE_BLOCK * PAGE_BLOCK; i < end; i += PAGE_BLOCK) {
        struct lanes x = lanes_load(scores + i);
        if (!bare)
            x = shaped_scores(x, i, scoring);
        if (i < begin || i + PAGE_BLOCK > end)
            x = lanes_if_within(begin - i, end - i, x, lowest);
        if (!bare)
            lanes_store(scores + i, x);
        largest = lanes_larger(x, largest);
    }
    return largest;
}

ALWAYS_INLINE void soften_scores(float *scores, int begin, int end, const struct attention_scoring *scoring,
                                 struct attention_state *state, bool bare)
{
    const struct lanes zero = lanes_set(0.0f), scale = lanes_set(scoring->scale);
    struct lanes largest = largest_score(scores, begin, end, scoring, bare);
    struct lanes maximum = lanes_set(lanes_largest(largest));
    if (bare)
        maximum = lanes_multiply(maximum, scale);
    lanes_store_first(&state->largest, maximum, 1);
    struct lanes sum = zero;
    for (int i = begin / PAGE_BLOCK * PAGE_BLOCK; i < end; i += PAGE_BLOCK) {
        struct lanes x = lanes_load(scores + i);
        if (bare)
            x = lanes_multiply(x, scale);
        struct lanes weight = lanes_exp2_negative(lanes_subtract(x, maximum));
        if (i < begin || i + PAGE_BLOCK > end)
            weight = lanes_if_within(begin - i, end - i, weight, zero);
        lanes_store(scores + i, weight);
        sum = lanes_add(sum, weight);
    }
    state->sum = lanes_sum(sum);
}

static void soften_row(struct attention_row *row, int begin, int end, const struct attention_scoring *scoring,
                       struct attention_state *state)
{
    if (scoring->softcap == 0.0f && scoring->slope == 0.0f && !scoring->biases && scoring->scale > 0.0f)
        soften_scores(row->items, begin, end, scoring, state, true);
    else
        soften_scores(row->items, begin, end, scoring, state, false);
}

static void pack_queries(float *packed, const float *const *queries, int n_queries, int32_t key_dim)
{
    int32_t d = 0;
    for (; d + LANES <= key_dim; d += LANES) {
        struct lanes x[ATTENTION_QUERIES];
        for (int q = 0; q < ATTENTION_QUERIES; q++)
            x[q] = lanes_load(queries[q < n_queries ? q : 0] + d);
        transpose_block(x);
        for (int i = 0; i < ATTENTION_QUERIES; i++)
            lanes_store(packed + d * ATTENTION_QUERIES + i * LANES, x[i]);
    }
    for (; d < key_dim; d++)
        for (int q = 0; q < n_queries; q++)
            packed[d * ATTENTION_QUERIES + q] = queries[q][d];
}

// Factors of a merge, in the even lanes. The odd lanes are undefined.
struct factors {
    struct lanes larger, before, added;
};

ALWAYS_INLINE struct factors merge_factors(struct lanes before, struct lanes added)
{
    struct lanes larger = lanes_larger(added, before);
    return (struct factors){larger, lanes_exp2_negative(lanes_subtract(before, larger)),
                            lanes_exp2_negative(lanes_subtract(added, larger))};
}

// Merges states, which are loaded as pairs: largest scores in even lanes, sums in odd lanes.
static void merge_states(int n, struct attention_state *states, float *out,
                         const struct attention_state *parts, const float *parts_out, int32_t width)
{
    struct lanes before = lanes_load_first(&states->largest, 2 * n);
    struct lanes added = lanes_load_first(&parts->largest, 2 * n);
    struct factors factors = merge_factors(before, added);
    float larger[LANES], a[LANES], b[LANES], sums[LANES];
    lanes_store(larger, factors.larger);
    lanes_store(a, factors.before);
    lanes_store(b, factors.added);
    struct lanes before_scaled = lanes_multiply(before, lanes_even_twice(factors.before));
    lanes_store(sums, lanes_fma(added, lanes_even_twice(factors.added), before_scaled));
    for (int i = 0; i < n; i++, out += width, parts_out += width) {
        struct lanes scale = lanes_set(a[2 * i]), part_scale = lanes_set(b[2 * i]);
        for (int32_t d = 0; d < width; d += LANES)
            lanes_store(out + d, lanes_fma(lanes_load(parts_out + d), part_scale,
                                           lanes_multiply(lanes_load(out + d), scale)));
        states[i] = (struct attention_state){larger[2 * i], sums[2 * i + 1]};
    }
}

static void finish_output(float *out, const struct attention_state *state, const float *state_out,
                          int32_t value_dim, const float *sink)
{
    struct lanes factor = lanes_set(1.0f), sum = lanes_set(state->sum);
    if (sink) {
        struct lanes before = lanes_set(state->largest), added = lanes_set(*sink * LOG2_E);
        struct lanes larger = lanes_larger(added, before);
        factor = lanes_exp2_negative(lanes_subtract(before, larger));
        struct lanes b = lanes_exp2_negative(lanes_subtract(added, larger));
        sum = lanes_fma(lanes_set(1.0f), b, lanes_multiply(sum, factor));
    }
    for (int32_t d = 0; d < value_dim; d += LANES) {
        int count = value_dim - d < LANES ? value_dim - d : LANES;
        struct lanes x = lanes_divide(lanes_multiply(lanes_load(state_out + d), factor), sum);
        lanes_store_first(out + d, x, count);
    }
}

void ATTENTION_KERNELS(struct attention_kernels *kernels)
{
    *kernels = (struct attention_kernels){
        .pack = pack_queries,
        .pack_i16 = pack_i16,
        .scores = {[PAGE_F32] = scores_f32, [PAGE_I16] = scores_i16, [PAGE_I8] = scores_i8},
        .soften = soften_row,
        .quantize_weights = quantize_weights,
        .values = {[PAGE_F32] = values_f32, [PAGE_I16] = values_i16, [PAGE_I8] = values_i8},
        .merge = merge_states,
        .finish = finish_output,
    };
}

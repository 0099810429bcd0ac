// The attention kernels for pages of 16- and 8-bit integers: products of pairs of int16, summed exactly in 32
// bits. Part of attention_body.h, which describes how tiles stay in registers.
#pragma once

// Packs queries as packed[pair of dimensions][query], with one scale per query.
static void pack_i16(int16_t *packed, float *scales, const float *const *queries, int n_queries,
                     int32_t key_dim)
{
    struct quantization quantizations[ATTENTION_QUERIES];
    for (int q = 0; q < n_queries; q++) {
        quantizations[q] = quantization_of(queries[q], key_dim, I16_LARGEST, I16_NORM);
        scales[q] = quantizations[q].scale;
    }
    for (int32_t d = 0; d < key_dim; d += 2 * LANES, packed += 2 * LANES * ATTENTION_QUERIES) {
        struct lanes pairs[ATTENTION_QUERIES];
        int count = key_dim - d < 2 * LANES ? (int)(key_dim - d) : 2 * LANES;
        for (int q = 0; q < ATTENTION_QUERIES; q++) {
            int16_t items[2 * LANES];
            int query = q < n_queries ? q : 0;
            for (int i = 0; i < 2 * LANES; i += LANES) {
                int left = count - i < 0 ? 0 : count - i;
                struct lanes x = left < LANES ? lanes_load_first(queries[query] + d + (left ? i : 0), left)
                                              : lanes_load(queries[query] + d + i);
                lanes_store_i16(items + i, lanes_multiply(x, lanes_set(quantizations[query].factor)));
            }
            float moved[LANES]; // a copy with the same bits
            memcpy(moved, items, sizeof moved);
            pairs[q] = lanes_load(moved);
        }
        transpose_block(pairs);
        for (int i = 0; i < ATTENTION_QUERIES; i++)
            lanes_store((float *)(void *)packed + i * LANES, pairs[i]);
    }
}

// Loads a vector of pairs of integers. A vector's number is counted from the start of the block.
ALWAYS_INLINE struct integers pairs_load(const char *block, int32_t vector, enum page_items items)
{
    if (items == PAGE_I8)
        return integers_load_i8((const int8_t *)block + (size_t)vector * 2 * LANES);
    return integers_load((const int16_t *)(const void *)block + (size_t)vector * 2 * LANES);
}

ALWAYS_INLINE size_t pairs_bytes(enum page_items items)
{
    return 2 * LANES * (items == PAGE_I8 ? sizeof(int8_t) : sizeof(int16_t));
}

ALWAYS_INLINE void scores_tile_integers(const struct scores_work *work, int n_queries, int first_block,
                                        int n_blocks, enum page_items items)
{
    struct integers sums[ATTENTION_QUERIES][TILE_VECTORS_MAX];
    const int16_t *queries = work->queries;
    const char *blocks[TILE_VECTORS_MAX], *ahead[TILE_VECTORS_MAX];
    int32_t n_pairs = (work->key_dim + 1) / 2;
    int32_t ahead_scales = work->keys.ahead_bytes - PAGE_SCALES_BYTES;
    int32_t ahead_step = (ahead_scales + n_pairs - 1) / n_pairs;
    for (int b = 0; b < n_blocks; b++) {
        blocks[b] = work->keys.items[first_block + b];
        ahead[b] = work->keys.ahead[first_block + b];
        prefetch_l2(ahead[b] + ahead_scales);
        for (int q = 0; q < n_queries; q++)
            sums[q][b] = integers_zero();
    }
    for (int32_t d = 0; d < n_pairs; d++) {
        for (int b = 0; b < n_blocks; b++) {
            struct integers key = pairs_load(blocks[b], d, items);
            prefetch_l2(ahead[b] + d * ahead_step);
            for (int q = 0; q < n_queries; q++)
                sums[q][b] = integers_dot(sums[q][b], key, queries + 2 * (d * ATTENTION_QUERIES + q));
        }
    }
    for (int b = 0; b < n_blocks; b++) {
        const char *scales = blocks[b] + (size_t)n_pairs * pairs_bytes(items);
        struct lanes scale = lanes_load((const float *)(const void *)scales);
        for (int q = 0; q < n_queries; q++)
            lanes_store(work->rows[q].items + (first_block + b) * PAGE_BLOCK,
                        lanes_multiply(integers_widen(sums[q][b]), scale));
    }
}

// Computes sums of n_vectors x 16 dimensions over the blocks that contain the positions [begin, end).
ALWAYS_INLINE void values_tile_integers(const struct values_work *work, int n_queries, int32_t dimension,
                                        int n_vectors, enum page_items items)
{
    enum { PAIRS = PAGE_BLOCK / 2 };
    const struct attention_row *rows = work->rows;
    size_t width = (size_t)work->width;
    int32_t first = dimension / LANES * PAIRS; // number of the first vector in the block
    int32_t ahead_scales = work->values.ahead_bytes - PAGE_SCALES_BYTES;
    int32_t n_loads = work->width / LANES * PAIRS, ahead_step = (ahead_scales + n_loads - 1) / n_loads;
    int block = work->begin / PAGE_BLOCK, block_end = (work->end + PAGE_BLOCK - 1) / PAGE_BLOCK;
    float *out = work->out + dimension;
    while (block < block_end) {
        int group = block / I16_GROUP_BLOCKS, group_end = (group + 1) * I16_GROUP_BLOCKS;
        struct integers sums[ATTENTION_QUERIES][TILE_VECTORS_MAX];
        for (int q = 0; q < n_queries; q++)
            for (int i = 0; i < n_vectors; i++)
                sums[q][i] = integers_zero();
        for (group_end = group_end < block_end ? group_end : block_end; block < group_end; block++) {
            const char *values = work->values.items[block];
            const char *ahead = (const char *)work->values.ahead[block] + first * ahead_step;
            prefetch_l2((const char *)work->values.ahead[block] + ahead_scales);
#pragma GCC unroll 1 // if unrolled, gcc would load ahead and keep sums in memory
            for (int pair = 0; pair < PAIRS; pair++) {
                for (int i = 0; i < n_vectors; i++) {
                    struct integers value = pairs_load(values, first + i * PAIRS + pair, items);
                    prefetch_l2(ahead + (i * PAIRS + pair) * ahead_step);
                    for (int q = 0; q < n_queries; q++)
                        sums[q][i] =
                            integers_dot(sums[q][i], value, rows[q].weights + block * PAGE_BLOCK + 2 * pair);
                }
            }
        }
        for (int q = 0; q < n_queries; q++) {
            struct lanes scale = lanes_set(rows[q].scales[group]);
            for (int i = 0; i < n_vectors; i++) {
                float *sum = out + (size_t)q * width + i * LANES;
                lanes_store(sum, lanes_fma(integers_widen(sums[q][i]), scale, lanes_load(sum)));
            }
        }
    }
}

// Returns the sum of squares of each group's weights. Each sum is in the vector twice.
ALWAYS_INLINE struct lanes group_squares(const struct lanes weights[SEGMENT_BLOCKS])
{
    struct lanes sums[I16_GROUPS];
    for (int i = 0; i < I16_GROUPS; i++) {
        const struct lanes *x = &weights[i * I16_GROUP_BLOCKS];
        sums[i] = lanes_fma(x[1], x[1], lanes_multiply(x[0], x[0]));
    }
    for (int n = I16_GROUPS; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) {
            struct lanes even, odd;
            lanes_split_pairs(sums[2 * i], sums[2 * i + 1], &even, &odd);
            sums[i] = lanes_add(even, odd);
        }
    struct lanes even, odd;
    lanes_split_pairs(sums[0], sums[0], &even, &odd);
    return lanes_add(even, odd);
}

// Returns the weights p of a block, each multiplied by the scale of the value at its position.
ALWAYS_INLINE struct lanes block_weights(const float *weights, const void *values, size_t scales_offset_bytes)
{
    const void *scales = (const char *)values + scales_offset_bytes;
    return lanes_multiply(lanes_load(weights), lanes_load(scales));
}

ALWAYS_INLINE void quantize_block_weights(struct attention_row *row,
                                          const struct lanes weights[SEGMENT_BLOCKS])
{
    struct lanes squares = lanes_larger(lanes_set(I16_SQUARES_LEAST), group_squares(weights));
    struct lanes root = lanes_square_root(squares);
    struct lanes factors = lanes_divide(lanes_set(I16_WEIGHTS_NORM), root);
    float factor[LANES];
    lanes_store(factor, factors);
    for (int block = 0; block < SEGMENT_BLOCKS; block++)
        lanes_store_i16(row->weights + block * PAGE_BLOCK,
                        lanes_multiply(weights[block], lanes_set(factor[block / I16_GROUP_BLOCKS])));
    lanes_store_first(row->scales, lanes_multiply(root, lanes_set(1.0f / I16_WEIGHTS_NORM)), I16_GROUPS);
}

// Quantizes one query's weights p of positions [begin, end); other weights are 0. The loops over blocks have
// no branches, so that the weights stay in registers.
static void quantize_weights(struct attention_row *row, int begin, int end, struct attention_blocks values,
                             size_t scales_offset_bytes)
{
    struct lanes weights[SEGMENT_BLOCKS];
    if (begin == end) {
        memset(row->weights, 0, sizeof row->weights);
        memset(row->scales, 0, sizeof row->scales);
        return;
    }
    if (begin == 0 && end == ATTENTION_SEGMENT) {
        for (int block = 0; block < SEGMENT_BLOCKS; block++)
            weights[block] =
                block_weights(row->items + block * PAGE_BLOCK, values.items[block], scales_offset_bytes);
    } else {
        for (int block = 0; block < SEGMENT_BLOCKS; block++) {
            int first = block * PAGE_BLOCK;
            bool seen = first + PAGE_BLOCK > begin && first < end; // other blocks are undefined or missing
            struct lanes p =
                block_weights(row->items + first, values.items[seen ? block : begin / PAGE_BLOCK],
                              scales_offset_bytes);
            weights[block] = lanes_if_within(begin - first, end - first, p, lanes_set(0.0f));
        }
    }
    quantize_block_weights(row, weights);
}

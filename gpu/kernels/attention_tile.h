// For kernels: grouped-query attention of one tile of queries over segments (gpu/kernels/kernels_attention.h
// defines the arithmetic). A tile has `n_strips` strips of 16 queries (a query is one head of one row) with
// the same key-value head, of one sequence or of several that share the segment's pages. A block of `n_warps`
// warps computes a segment in three phases: scores (warps divide the positions), weights (warps divide the
// queries), values (warps divide the dimensions). Keys and values are loaded directly to registers, once for
// all queries of the tile.
#pragma once

#include "gpu/kernels/attention_page.h"

#include <math.h>

enum {
    STRIP = 16,
    SEGMENT = ATTENTION_SEGMENT,
    // In floats, padded against bank conflicts. The binary16 weights overwrite the scores.
    SCORE_STRIDE = SEGMENT + 8,
};

// Shape of a tile. A warp computes n_blocks blocks of 16 value dimensions, so value_dim is at most 16 n_warps
// n_blocks.
template <enum kv_type type_, int n_warps_, int n_strips_, int n_blocks_> struct tile_shape {
    static constexpr enum kv_type type = type_;
    static constexpr int n_warps = n_warps_, n_strips = n_strips_, n_blocks = n_blocks_;
    static constexpr int n_threads = 32 * n_warps, n_queries = STRIP * n_strips;
    static constexpr int n_blocks_resident = 1;
    static_assert(SEGMENT % (32 * n_warps) == 0, "a warp scores 32 positions at a time");
};

static __device__ __forceinline__ float log2_e()
{
    return 0x1.715476p0f;
}

// Running state of a query's online softmax: largest score, sum of weights.
struct query_state {
    float largest, sum;
};

// Factors by which a merge multiplies the old and the new sums. If `seen` is false, no position is visible
// and the sums do not change.
struct merge_factors {
    float old_factor, new_factor;
    bool seen;
};

// Merges the largest score and the sum of weights of the next segment, or of a sink, into `state`.
static __device__ __forceinline__ merge_factors merge_state(struct query_state &state, float largest,
                                                            float sum, bool seen)
{
    merge_factors factors = {1.0f, 0.0f, seen};
    if (!seen)
        return factors;
    float most = state.largest > largest ? state.largest : largest;
    factors.old_factor = exp2_fast(state.largest - most);
    factors.new_factor = exp2_fast(largest - most);
    state.sum = fmaf(sum, factors.new_factor, state.sum * factors.old_factor);
    state.largest = most;
    return factors;
}

static __device__ __forceinline__ float merge_item(float item, float next, const merge_factors &factors)
{
    return factors.seen ? fmaf(next, factors.new_factor, item * factors.old_factor) : item;
}

// Slope of a head's linear bias (Press et al. 2022, arXiv:2108.12409); 0: none.
static __device__ __forceinline__ float bias_slope(int32_t head, int32_t n_heads, float bias_max)
{
    if (bias_max == 0.0f)
        return 0.0f;
    int32_t n = 1;
    while (2 * n <= n_heads)
        n *= 2;
    float step = bias_max / (float)n;
    return head < n ? exp2f(-step * (float)(head + 1)) : exp2f(-0.5f * step * (float)(2 * (head - n) + 1));
}

// Computes a factor that replaces the division of n by d by a multiplication; exact for n d < 2^32.
static inline uint64_t division_magic(int32_t divisor)
{
    return (1ull << 32) / (uint64_t)divisor + 1;
}

static __device__ __forceinline__ int32_t divide_by(int32_t n, uint64_t magic)
{
    return (int32_t)((uint32_t)n * magic >> 32);
}

// One tile of the launch.
struct tile_place {
    struct attention_sequence sequence; // for a shared tile any member, for its block table
    const int32_t *members;             // the rows of a shared tile; else NULL
    int32_t kv_head, group;             // group: query heads per key-value head
    int32_t first_query;                // index in the sequence or the members: row * group + head in group
    int32_t n_queries;                  // 0: empty
    int32_t only_segment;               // if not negative: the only one; its result goes to the scratch
    int32_t position_least, position_most;
    uint64_t group_magic, page_magic; // factors of divide_by for `group` and for a page's blocks
};

static __device__ __forceinline__ int64_t query_row(const tile_place &place, int32_t query)
{
    int32_t index = divide_by(place.first_query + query, place.group_magic);
    return place.members ? place.members[index] : place.sequence.first_row + index;
}

static __device__ __forceinline__ int32_t query_position(const struct attention_launch &call,
                                                         const tile_place &place, int32_t query)
{
    return place.members ? call.shared.positions[query_row(place, query)]
                         : place.sequence.position + divide_by(place.first_query + query, place.group_magic);
}

static __device__ __forceinline__ int32_t query_head(const tile_place &place, int32_t query)
{
    int32_t index = place.first_query + query;
    return place.kv_head * place.group + index - divide_by(index, place.group_magic) * place.group;
}

// The first position that a query at `position` sees.
static __device__ __forceinline__ int32_t first_seen(const struct attention_launch &call, int32_t position)
{
    if (call.scoring.chunk > 0)
        return position - position % call.scoring.chunk;
    return call.scoring.window > 0 && position >= call.scoring.window ? position - call.scoring.window + 1
                                                                      : 0;
}

// The last position that a query at `position` sees.
static __device__ __forceinline__ int32_t last_seen(const struct attention_launch &call,
                                                    const struct attention_sequence &sequence,
                                                    int32_t position)
{
    if (sequence.n_text == 0)
        return position;
    int32_t window = call.scoring.window, last = sequence.n_text - 1;
    return window > 0 && position + window - 1 < last ? position + window - 1 : last;
}

// Address of the keys and values of 16 positions, the first of which is 16 * `block`.
static __device__ __forceinline__ const unsigned char *find_block(const struct attention_launch &call,
                                                                  const tile_place &place,
                                                                  const page_shape &pages, int32_t block)
{
    int32_t page_blocks = call.pages.page_positions / ATTENTION_BLOCK;
    int32_t index = divide_by(block, place.page_magic);
    int64_t page = call.tables[place.sequence.first_page + index];
    return page_block(call.pages, pages, call.layer, page, place.kv_head, block - index * page_blocks);
}

// Shared memory of a block: queries [strips][key_steps][2][upper, lower][32 lanes] 16 bytes; scores
// [queries][SCORE_STRIDE]; states and factors [queries].
struct tile_memory {
    uint4 *queries;
    float *scores;
    struct query_state *states;
    struct merge_factors *factors;

    static __host__ __device__ constexpr size_t size_bytes(int n_strips, int32_t key_steps)
    {
        return (size_t)(n_strips * key_steps * 4 * 32) * 16 +
               (size_t)(n_strips * STRIP) *
                   (SCORE_STRIDE * sizeof(float) + sizeof(struct query_state) + sizeof(struct merge_factors));
    }

    __device__ __forceinline__ tile_memory(int n_strips, int32_t key_steps)
    {
        queries = (uint4 *)dynamic_shared();
        scores = (float *)(queries + n_strips * key_steps * 4 * 32);
        states = (struct query_state *)(scores + n_strips * STRIP * SCORE_STRIDE);
        factors = (struct merge_factors *)(states + n_strips * STRIP);
    }
};

// A tile of one strip fits every device: the smallest shared memory of a block is 99 KiB (compute capability
// 8.6 and 8.9).
static_assert(tile_memory::size_bytes(1, ATTENTION_DIM_MAX / 32) <= 99 * 1024,
              "the smallest tile fits everywhere");

// Loads 8 dimensions of a query, from `dim` on, and multiplies them by the scale; 0 beyond the end. With
// `vectors`, rows and heads are aligned to 16 bytes.
static __device__ __forceinline__ void query_items(const struct attention_launch &call,
                                                   const tile_place &place, int32_t query, int32_t dim,
                                                   bool vectors, float items[8])
{
    bool there = query < place.n_queries && dim < call.pages.key_dim;
    const float *from = call.q;
    if (there)
        from += query_row(place, query) * call.strides.q +
                (int64_t)query_head(place, query) * call.pages.key_dim + dim;
    if (vectors) {
        float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f), first = there ? ((const float4 *)from)[0] : none,
               second = there ? ((const float4 *)from)[1] : none;
        items[0] = first.x;
        items[1] = first.y;
        items[2] = first.z;
        items[3] = first.w;
        items[4] = second.x;
        items[5] = second.y;
        items[6] = second.z;
        items[7] = second.w;
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            items[i] = there && dim + i < call.pages.key_dim ? from[i] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        items[i] = there ? items[i] * call.scoring.scale : 0.0f;
}

// Converts queries to fragments, for the upper and the lower binary16 of their items. Register i of fragment
// f of step j holds dimensions 32 j + 8 t + 4 f + i / 2 * 2 + 0, 1 of query g (i even) or g + 8 (i odd). A
// lane converts both fragments of both queries; all its loads are in flight at once.
template <class shape>
static __device__ __forceinline__ void load_queries(const struct attention_launch &call,
                                                    const tile_place &place, int32_t key_steps,
                                                    const tile_memory &memory)
{
    bool vectors = call.pages.key_dim % 8 == 0 && call.strides.q % 4 == 0 && (uintptr_t)call.q % 16 == 0;
#pragma unroll 2
    for (int32_t i = (int32_t)threadIdx.x; i < shape::n_strips * key_steps * 32; i += shape::n_threads) {
        int32_t lane = i % 32, strip = 0, step = i / 32;
        for (; strip + 1 < shape::n_strips && step >= key_steps; strip++)
            step -= key_steps;
        int32_t query = strip * STRIP + lane / 4, dim = step * 32 + lane % 4 * 8;
        float items[2][8];
        query_items(call, place, query, dim, vectors, items[0]);
        query_items(call, place, query + 8, dim, vectors, items[1]);
        uint4 *out = memory.queries + (i / 32) * 128 + lane;
#pragma unroll
        for (int f = 0; f < 2; f++) {
            uint32_t upper[4], lower[4];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                float x = items[r % 2][f * 4 + r / 2 * 2], y = items[r % 2][f * 4 + r / 2 * 2 + 1];
                upper[r] = half2_make(x, y);
                lower[r] = half2_make(x - half_float(upper[r]), y - half_float(upper[r] >> 16));
            }
            out[f * 64] = make_uint4(upper[0], upper[1], upper[2], upper[3]);
            out[f * 64 + 32] = make_uint4(lower[0], lower[1], lower[2], lower[3]);
        }
    }
}

// Adds the products of one step of 32 dimensions: queries times the keys of four groups of 8 positions.
template <class shape>
static __device__ __forceinline__ void score_step(const tile_memory &memory, int32_t key_steps, int32_t step,
                                                  const uint4 key[4], float acc[shape::n_strips][4][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int strip = 0; strip < shape::n_strips; strip++)
#pragma unroll
            for (int part = 0; part < 2; part++) {
                uint4 query = memory.queries[(((strip * key_steps + step) * 2 + f) * 2 + part) * 32 + lane];
                uint32_t a[4] = {query.x, query.y, query.z, query.w};
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    uint32_t b[2] = {f ? key[n].z : key[n].x, f ? key[n].w : key[n].y};
                    mma_half(acc[strip][n], a, b);
                }
            }
}

// Stores the scores of the tile's queries for 32 positions of the segment, from `at` on.
template <class shape>
static __device__ __forceinline__ void store_scores(const tile_memory &memory, int32_t at, int32_t n_queries,
                                                    const float acc[shape::n_strips][4][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;
#pragma unroll
    for (int strip = 0; strip < shape::n_strips; strip++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int32_t query = strip * STRIP + lane / 4 + half * 8;
                float *row = memory.scores + query * SCORE_STRIDE;
                if (query < n_queries)
                    *(float2 *)(row + at + n * 8 + lane % 4 * 2) =
                        make_float2(acc[strip][n][2 * half], acc[strip][n][2 * half + 1]);
            }
}

// Computes the scores of 32 positions from `first` (a multiple of 32) for all strips. Positions from `end` on
// are not read.
template <class shape>
static __device__ __forceinline__ void score_positions(const struct attention_launch &call,
                                                       const tile_place &place, const page_shape &pages,
                                                       const tile_memory &memory, int32_t first, int32_t end)
{
    const unsigned char *blocks[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        blocks[i] = first + 16 * i < end ? find_block(call, place, pages, first / 16 + i) : NULL;
    float acc[shape::n_strips][4][4] = {};
#pragma unroll 2
    for (int32_t step = 0; step < pages.key_steps; step++) {
        uint4 key[4];
#pragma unroll
        for (int n = 0; n < 4; n++)
            key[n] = blocks[n / 2] ? load_keys<shape::type>(blocks[n / 2], pages, n % 2, step)
                                   : make_uint4(0, 0, 0, 0);
        score_step<shape>(memory, pages.key_steps, step, key, acc);
    }
    store_scores<shape>(memory, first % SEGMENT, place.n_queries, acc);
}

// Applies the soft cap and the linear bias to scores that are 32 positions apart. `distance` is the first
// position minus the query's position.
static __device__ __forceinline__ void adjust_scores(const struct attention_launch &call, float slope,
                                                     int32_t distance, float items[SEGMENT / 32])
{
    if (call.scoring.softcap != 0.0f)
#pragma unroll
        for (int i = 0; i < SEGMENT / 32; i++)
            items[i] = call.scoring.softcap * tanhf(items[i] / call.scoring.softcap);
    if (slope != 0.0f)
#pragma unroll
        for (int i = 0; i < SEGMENT / 32; i++)
            items[i] = fmaf(slope, -fabsf((float)(distance + i * 32)), items[i]);
}

// The head's relative bias at distance 0; NULL: none.
static __device__ __forceinline__ const float *relative_biases(const struct attention_launch &call,
                                                               int32_t head)
{
    return call.scoring.relative_bias ? call.scoring.relative_bias + (int64_t)head * call.scoring.n_relative +
                                            call.scoring.relative_center
                                      : NULL;
}

// Converts the scores of n queries, `query`, `query` + `step` and so on, to weights, and merges their states.
// Lane l holds positions l, l + 32, .. Computing several queries together hides latency. Padding queries see
// no position, so their weights are 0. `first` is true for the tile's first segment.
template <int n>
static __device__ __forceinline__ void
weigh_queries_of(const struct attention_launch &call, const tile_place &place, int32_t query, int32_t step,
                 int32_t segment, const tile_memory &memory, bool first)
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    float items[n][SEGMENT / 32], largest[n], sum[n];
    bool seen[n]; // true if a position of the segment is visible
#pragma unroll
    for (int j = 0; j < n; j++) {
        int32_t index = query + j * step;
        bool there = index < place.n_queries;
        int32_t position = there ? query_position(call, place, index) : -1, from = first_seen(call, position),
                last = there ? last_seen(call, place.sequence, position) : -1;
        float slope =
            there ? bias_slope(query_head(place, index), call.n_heads, call.scoring.alibi_bias_max) : 0.0f;
        const float *scores = memory.scores + index * SCORE_STRIDE + lane;
        int32_t at = segment * SEGMENT + lane;
        largest[j] = -INFINITY;
        seen[j] = last >= segment * SEGMENT && from < (segment + 1) * SEGMENT;
#pragma unroll
        for (int i = 0; i < SEGMENT / 32; i++)
            items[j][i] = scores[i * 32]; // undefined where no position is visible; masked below
        adjust_scores(call, slope, at - position, items[j]);
        const float *biases = there ? relative_biases(call, query_head(place, index)) : NULL;
#pragma unroll
        for (int i = 0; i < SEGMENT / 32; i++) {
            bool visible = at + i * 32 >= from && at + i * 32 <= last;
            if (biases && visible)
                items[j][i] += biases[at + i * 32 - position];
            items[j][i] = visible ? items[j][i] * log2_e() : -INFINITY;
            largest[j] = items[j][i] > largest[j] ? items[j][i] : largest[j];
        }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
        for (int j = 0; j < n; j++) {
            float other = __shfl_xor_sync(0xFFFFFFFFu, largest[j], mask);
            largest[j] = other > largest[j] ? other : largest[j];
        }
    __syncwarp(); // all scores are in registers: the weights overwrite them
#pragma unroll
    for (int j = 0; j < n; j++) {
        // If all scores are NaN, `largest` is still -infinity. The weights must be NaN too.
        largest[j] = largest[j] == -INFINITY ? 0.0f : largest[j];
        sum[j] = 0.0f;
        uint16_t *weights = (uint16_t *)(memory.scores + (query + j * step) * SCORE_STRIDE) + lane;
#pragma unroll
        for (int i = 0; i < SEGMENT / 32; i++) {
            uint32_t weight = half2_make(exp2_fast(items[j][i] - largest[j]), 0.0f);
            weights[i * 32] = (uint16_t)weight;
            sum[j] = sum[j] + half_float(weight);
        }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
        for (int j = 0; j < n; j++)
            sum[j] = sum[j] + __shfl_xor_sync(0xFFFFFFFFu, sum[j], mask);
#pragma unroll
    for (int j = 0; j < n; j++) {
        struct query_state state = {-INFINITY, 0.0f};
        if (!first)
            state = memory.states[query + j * step];
        merge_factors factors = merge_state(state, largest[j], sum[j], seen[j]);
        __syncwarp();
        if (lane == 0) {
            memory.states[query + j * step] = state;
            memory.factors[query + j * step] = factors;
        }
    }
}

// Sets the values of positions that were never written to 0: they may be NaN, which a weight of 0 would not
// cancel. `n` is the number of written positions, counted from the lane's first position.
static __device__ __forceinline__ uint4 clear_values(uint4 value, int32_t n)
{
    uint32_t first = n <= 0 ? 0u : n == 1 ? 0xFFFFu : 0xFFFFFFFFu;
    uint32_t second = n <= 2 ? 0u : n == 3 ? 0xFFFFu : 0xFFFFFFFFu;
    return make_uint4(value.x & first, value.y & second, value.z & first, value.w & second);
}

// Loads a lane's weights for the 16 positions of block `block` of the segment and the queries of a strip.
static __device__ __forceinline__ void load_weights(const tile_memory &memory, int strip, int32_t block,
                                                    uint32_t a[4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    const uint32_t *weights = (const uint32_t *)(memory.scores + (strip * STRIP + lane / 4) * SCORE_STRIDE) +
                              block * 8 + lane % 4 * 2;
    uint2 upper = *(const uint2 *)weights, lower = *(const uint2 *)(weights + 8 * SCORE_STRIDE);
    a[0] = upper.x;
    a[1] = lower.x;
    a[2] = upper.y;
    a[3] = lower.y;
}

// Adds weights times values of positions [begin, end) for the warp's blocks of 16 dimensions: warp, warp +
// n_warps and so on.
template <class shape>
static __device__ __forceinline__ void add_values(const struct attention_launch &call,
                                                  const tile_place &place, const page_shape &pages,
                                                  const tile_memory &memory, int32_t begin, int32_t end,
                                                  float acc[shape::n_strips][shape::n_blocks][2][4])
{
    constexpr int n_strips = shape::n_strips, n_blocks = shape::n_blocks;
    int32_t lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32;
#pragma unroll 2
    for (int32_t block = begin / 16; block * 16 < end; block++) {
        const unsigned char *at = find_block(call, place, pages, block);
        uint4 value[n_blocks];
#pragma unroll
        for (int i = 0; i < n_blocks; i++)
            value[i] = warp + i * shape::n_warps < pages.value_blocks
                           ? load_values<shape::type>(at, pages, warp + i * shape::n_warps)
                           : make_uint4(0, 0, 0, 0);
        if (block * 16 + 16 > end)
#pragma unroll
            for (int i = 0; i < n_blocks; i++)
                value[i] = clear_values(value[i], end - block * 16 - lane % 4 * 4);
#pragma unroll
        for (int strip = 0; strip < n_strips; strip++) {
            uint32_t a[4];
            load_weights(memory, strip, block % 16, a);
#pragma unroll
            for (int i = 0; i < n_blocks; i++) {
                uint32_t b[2][2] = {{value[i].x, value[i].y}, {value[i].z, value[i].w}};
                mma_half(acc[strip][i][0], a, b[0]);
                mma_half(acc[strip][i][1], a, b[1]);
            }
        }
    }
}

// Merges the attention sink, after all segments.
static __device__ __forceinline__ merge_factors merge_sink(const struct attention_launch &call, int32_t head,
                                                           struct query_state &state)
{
    if (!call.scoring.sinks)
        return {1.0f, 0.0f, false};
    return merge_state(state, call.scoring.sinks[head] * log2_e(), 1.0f, true);
}

// For kernels: the loop of a tile over its segments (gpu/kernels/attention_tile.h computes one segment), and
// the partial results of split-KV in the scratch: [rows of small sequences][heads][n_segments], each o
// [value_dim], largest score, sum, whether a position was visible.
#pragma once

#include "gpu/kernels/attention_operand.h"
#include "gpu/kernels/attention_tile.h"

struct attention_arguments {
    struct attention_launch call;
    float *parts;
    int32_t n_segments;     // partial results per row and head
    bool split_kv;          // split-KV: each segment of a small sequence has its own block
    bool assigned;          // split-KV: runs of segments have their own blocks
    int32_t n_strips_small; // maximum number of strips of a small sequence
    uint64_t group_magic, page_magic;
};

// Sets the fields that all kinds of tiles have in common.
static __device__ __forceinline__ tile_place start_place(const struct attention_arguments &arguments)
{
    tile_place place = {};
    place.group = arguments.call.n_heads / arguments.call.pages.n_kv_heads;
    place.only_segment = -1;
    place.group_magic = arguments.group_magic;
    place.page_magic = arguments.page_magic;
    return place;
}

static __device__ __forceinline__ float *find_part(const struct attention_arguments &arguments, int64_t part,
                                                   int32_t head, int32_t segment)
{
    const struct attention_launch &call = arguments.call;
    int64_t index = (part * call.n_heads + head) * arguments.n_segments + segment;
    return arguments.parts + index * (call.pages.value_dim + 4); // the size is attention_part_bytes
}

static __device__ __forceinline__ float *query_part(const struct attention_arguments &arguments,
                                                    const tile_place &place, int32_t query, int32_t segment)
{
    int32_t part = place.sequence.first_part + divide_by(place.first_query + query, place.group_magic);
    return find_part(arguments, part, query_head(place, query), segment);
}

enum { MERGE_LOADED = 8 }; // segments whose loads a thread has in flight

// Merges the partial results of segments [first, last] for n_items dimensions from `d` on.
template <int n_items>
static __device__ __forceinline__ void merge_parts(const struct attention_arguments &arguments, int64_t row,
                                                   int32_t head, int32_t first, int32_t last, int32_t d,
                                                   struct query_state &state, float totals[n_items])
{
    int32_t dim = arguments.call.pages.value_dim;
    for (; first <= last; first += MERGE_LOADED) {
        float items[MERGE_LOADED][n_items], states[MERGE_LOADED][3];
#pragma unroll
        for (int i = 0; i < MERGE_LOADED; i++) {
            const float *part = find_part(arguments, row, head, first + i);
            bool there = first + i <= last;
#pragma unroll
            for (int j = 0; j < n_items; j++)
                items[i][j] = there && d + j < dim ? load_published(part + d + j) : 0.0f;
#pragma unroll
            for (int j = 0; j < 3; j++) // segments beyond `last` count as not seen, so the merge ignores them
                states[i][j] = there ? load_published(part + dim + j) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < MERGE_LOADED; i++) {
            merge_factors factors = merge_state(state, states[i][0], states[i][1], states[i][2] != 0.0f);
#pragma unroll
            for (int j = 0; j < n_items; j++)
                totals[j] = merge_item(totals[j], items[i][j], factors);
        }
    }
}

// The query and the dimension of accumulator i of a lane, in a tile of 16 queries x 8 dimensions.
struct item_place {
    int32_t query, dim;
};

template <class shape, class F> static __device__ __forceinline__ void for_items(F function)
{
    int32_t lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32;
#pragma unroll
    for (int strip = 0; strip < shape::n_strips; strip++)
#pragma unroll
        for (int block = 0; block < shape::n_blocks; block++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int32_t dim = (warp + block * shape::n_warps) * 16 + half * 8 + lane % 4 * 2 + i % 2;
                    function(strip, block, half, i, item_place{strip * STRIP + lane / 4 + i / 2 * 8, dim});
                }
}

// Initializes the states, and the weights of padding queries, for which no scores are stored.
template <class shape>
static __device__ __forceinline__ void clear_padding(const tile_place &place, const tile_memory &memory)
{
    for (int32_t i = (int32_t)threadIdx.x; i < shape::n_queries; i += shape::n_threads) {
        memory.states[i] = {-INFINITY, 0.0f};
        memory.factors[i] = {1.0f, 0.0f, false};
    }
    for (int32_t i = place.n_queries * SCORE_STRIDE + (int32_t)threadIdx.x;
         i < shape::n_queries * SCORE_STRIDE; i += shape::n_threads)
        memory.scores[i] = 0.0f;
}

// Converts scores to weights; each warp converts the scores of its queries. In a tile of one strip, which
// often has only a few queries, a warp converts one query at a time.
template <class shape>
static __device__ __forceinline__ void weigh_queries(const struct attention_launch &call,
                                                     const tile_place &place, int32_t segment,
                                                     const tile_memory &memory, bool first)
{
    constexpr int n = shape::n_strips == 1 ? 1 : 4;
    static_assert(shape::n_queries % (shape::n_warps * n) == 0, "warps have as many queries");
    for (int32_t query = (int32_t)threadIdx.x / 32; query < shape::n_queries; query += shape::n_warps * n)
        if (n > 1 || query < place.n_queries)
            weigh_queries_of<n>(call, place, query, shape::n_warps, segment, memory, first);
}

// Computes positions [from, to) of a segment: sums, merged states and merge factors.
template <class shape>
static __device__ __forceinline__ void
compute_segment(const struct attention_launch &call, const tile_place &place, const page_shape &pages,
                const tile_memory &memory, int32_t segment, int32_t from, int32_t to,
                float sums[shape::n_strips][shape::n_blocks][2][4])
{
    constexpr int32_t positions = SEGMENT / shape::n_warps;
    int32_t first = segment * SEGMENT + (int32_t)threadIdx.x / 32 * positions;
    __syncthreads(); // queries are stored; the previous segment's weights and factors are no longer read
    for (int32_t at = first; at < first + positions; at += 32)
        if (at < to && at + 32 > from)
            score_positions<shape>(call, place, pages, memory, at, to);
    __syncthreads();
    weigh_queries<shape>(call, place, segment, memory, false);
    __syncthreads();
    for_items<shape>(
        [&](int strip, int block, int half, int i, item_place) { sums[strip][block][half][i] = 0.0f; });
    add_values<shape>(call, place, pages, memory, from, to, sums);
}

// Like compute_segment, but uses the partial result of a shared tile.
template <class shape>
static __device__ __forceinline__ void
take_part(const struct attention_arguments &arguments, const tile_place &place, const tile_memory &memory,
          int32_t segment, float sums[shape::n_strips][shape::n_blocks][2][4])
{
    int32_t dim = arguments.call.pages.value_dim;
    for_items<shape>([&](int strip, int block, int half, int i, item_place item) {
        bool there = item.query < place.n_queries && item.dim < dim;
        sums[strip][block][half][i] =
            there ? query_part(arguments, place, item.query, segment)[item.dim] : 0.0f;
    });
    __syncthreads();
    for (int32_t query = (int32_t)threadIdx.x; query < shape::n_queries; query += shape::n_threads) {
        memory.factors[query] = {1.0f, 0.0f, false};
        if (query < place.n_queries) {
            const float *part = query_part(arguments, place, query, segment);
            struct query_state state = memory.states[query];
            memory.factors[query] = merge_state(state, part[dim], part[dim + 1], part[dim + 2] != 0.0f);
            memory.states[query] = state;
        }
    }
    __syncthreads();
}

template <class shape>
static __device__ __forceinline__ void
leave_part(const struct attention_arguments &arguments, const tile_place &place, const tile_memory &memory,
           int32_t segment, float sums[shape::n_strips][shape::n_blocks][2][4])
{
    int32_t dim = arguments.call.pages.value_dim;
    for_items<shape>([&](int strip, int block, int half, int i, item_place item) {
        if (item.query < place.n_queries && item.dim < dim)
            query_part(arguments, place, item.query, segment)[item.dim] = sums[strip][block][half][i];
    });
    for (int32_t query = (int32_t)threadIdx.x; query < place.n_queries; query += shape::n_threads) {
        float *part = query_part(arguments, place, query, segment);
        part[dim] = memory.states[query].largest;
        part[dim + 1] = memory.states[query].sum;
        part[dim + 2] = memory.factors[query].seen ? 1.0f : 0.0f;
    }
}

template <class shape>
static __device__ __forceinline__ void finish_tile(const struct attention_arguments &arguments,
                                                   const tile_place &place, const tile_memory &memory,
                                                   float totals[shape::n_strips][shape::n_blocks][2][4])
{
    const struct attention_launch &call = arguments.call;
    __syncthreads();
    for (int32_t query = (int32_t)threadIdx.x; query < place.n_queries; query += shape::n_threads)
        memory.factors[query] = merge_sink(call, query_head(place, query), memory.states[query]);
    __syncthreads();
    for_items<shape>([&](int strip, int block, int half, int i, item_place item) {
        if (item.query >= place.n_queries || item.dim >= call.pages.value_dim)
            return;
        float total = merge_item(totals[strip][block][half][i], 0.0f, memory.factors[item.query]);
        call.out[query_row(place, item.query) * call.strides.out +
                 (int64_t)query_head(place, item.query) * call.pages.value_dim + item.dim] =
            total / memory.states[item.query].sum;
    });
}

// True if a shared tile computed the segment. A shared tile does so only if all its queries see the whole
// segment, so that a result never depends on positions that only other sequences see.
static __device__ __forceinline__ bool is_shared(const struct attention_launch &call,
                                                 const struct attention_sequence &sequence,
                                                 int32_t position_most, int32_t segment)
{
    return call.shared.n_tiles > 0 && segment < sequence.n_shared &&
           first_seen(call, position_most) <= segment * SEGMENT;
}

template <class shape>
static __device__ __forceinline__ void attend_tile(const struct attention_arguments &arguments,
                                                   const tile_place &place)
{
    const struct attention_launch &call = arguments.call;
    const page_shape pages = page_shape_of<shape::type>(call.pages);
    const tile_memory memory(shape::n_strips, pages.key_steps);
    int32_t begin = first_seen(call, place.position_least),
            end = last_seen(call, place.sequence, place.position_most) + 1;
    int32_t first = begin / SEGMENT, last = (end - 1) / SEGMENT;
    bool alone = place.only_segment >= 0;
    if (alone) {
        if (place.only_segment < first || place.only_segment > last)
            return;
        first = last = place.only_segment;
    }
    load_queries<shape>(call, place, pages.key_steps, memory);
    clear_padding<shape>(place, memory);
    float totals[shape::n_strips][shape::n_blocks][2][4] = {};
    for (int32_t segment = first; segment <= last; segment++) {
        float sums[shape::n_strips][shape::n_blocks][2][4];
        if (!alone && is_shared(call, place.sequence, place.position_most, segment)) {
            take_part<shape>(arguments, place, memory, segment, sums);
        } else {
            int32_t start = segment * SEGMENT, from = begin > start ? begin : start;
            int32_t to = end < start + SEGMENT ? end : start + SEGMENT;
            compute_segment<shape>(call, place, pages, memory, segment, from, to, sums);
        }
        for_items<shape>([&](int strip, int block, int half, int i, item_place item) {
            float sum = sums[strip][block][half][i], &total = totals[strip][block][half][i];
            total = alone ? sum : merge_item(total, sum, memory.factors[item.query]);
        });
    }
    if (alone) {
        leave_part<shape>(arguments, place, memory, place.only_segment, totals);
        return;
    }
    finish_tile<shape>(arguments, place, memory, totals);
    finish_rows(call, place);
}

// Attention's kernels (gpu/kernels.h, gpu/attention_tile.h). Tiles of 64 queries walk over their segments; so do tiles of 16, for
// sequences of a row or few, and where those are too few to keep the device busy, their segments are dealt out to blocks and
// merged by a second kernel. All compute the same.
#include "gpu/attention_tile.h"

// What a dealt-out segment leaves of a query: [n_rows][n_heads][n_segments] of a state, whether it saw any, and o.
struct split_memory {
    float *items;
    int32_t n_segments; // 0: not dealt out
};

struct attention_arguments {
    struct attention_launch call;
    struct split_memory split;
    int32_t n_strips_small; // strips of 16 queries that a small sequence has at most
};

static __host__ __device__ int64_t split_floats(int32_t value_dim)
{
    return value_dim + 4; // o, largest, sum, seen, and one to keep 16 bytes' alignment where value_dim does
}

static __device__ __forceinline__ float *split_part(const struct attention_arguments &arguments, int64_t row, int32_t head,
                                    int32_t segment)
{
    const struct attention_launch &call = arguments.call;
    int64_t part = (row * call.n_heads + head) * arguments.split.n_segments + segment;
    return arguments.split.items + part * split_floats(call.pages.value_dim);
}

// Where a query's dimension stands among a lane's sums: i of a tile of 16 queries x 8 dimensions.
struct item_place {
    int32_t query, dim;
};

static __device__ __forceinline__ item_place item_at(int strip, int block, int half, int i)
{
    int32_t lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32;
    return {strip * STRIP + lane / 4 + i / 2 * 8, (warp + block * TILE_WARPS) * 16 + half * 8 + lane % 4 * 2 + i % 2};
}

template <int n_strips, int n_blocks, class F> static __device__ __forceinline__ void for_items(F function)
{
#pragma unroll
    for (int strip = 0; strip < n_strips; strip++)
#pragma unroll
        for (int block = 0; block < n_blocks; block++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    function(strip, block, half, i, item_at(strip, block, half, i));
}

// Each warp turns scores into weights, a query at a time; rows without a query weigh nothing.
template <int n_strips>
static __device__ __forceinline__ void weigh_queries(const struct attention_launch &call, const tile_place &place,
                                                     int32_t segment, const tile_memory<n_strips> &memory)
{
    for (int32_t query = (int32_t)threadIdx.x / 32; query < n_strips * STRIP; query += TILE_WARPS) {
        float *scores = memory.scores + query * SCORE_STRIDE;
        if (query < place.n_queries) {
            struct query_state state = memory.states[query];
            merge_factors factors = weigh_query(call, place, query, segment, scores, state);
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                memory.states[query] = state;
                memory.factors[query] = factors;
            }
        } else {
            for (int32_t i = (int32_t)threadIdx.x % 32; i < SEGMENT / 2; i += 32)
                scores[i] = 0.0f;
            if (threadIdx.x % 32 == 0)
                memory.factors[query] = {1.0f, 0.0f, false};
        }
    }
}

template <int n_strips, int n_blocks>
static __device__ __forceinline__ void attend_tile(const struct attention_arguments &arguments, const tile_place &place,
                                   int32_t only_segment)
{
    const struct attention_launch &call = arguments.call;
    const page_shape shape = shape_of(call.pages);
    const tile_memory<n_strips> memory(shape.key_steps);
    int32_t warp = (int32_t)threadIdx.x / 32;
    int32_t begin = first_seen(call, query_position(place, 0));
    int32_t end = query_position(place, place.n_queries - 1) + 1;
    int32_t first = begin / SEGMENT, last = (end - 1) / SEGMENT;
    bool dealt = arguments.split.n_segments > 0;
    if (dealt && (only_segment < first || only_segment > last))
        return;
    load_queries<n_strips>(call, place, shape.key_steps, memory);
    for (int32_t i = (int32_t)threadIdx.x; i < n_strips * STRIP; i += TILE_THREADS)
        memory.states[i] = {-INFINITY, 0.0f};
    float totals[n_strips][n_blocks][2][4] = {};
    for (int32_t segment = dealt ? only_segment : first; segment <= (dealt ? only_segment : last); segment++) {
        int32_t start = segment * SEGMENT, from = begin > start ? begin : start;
        int32_t to = end < start + SEGMENT ? end : start + SEGMENT;
        __syncthreads(); // queries stand; the last segment's weights and factors were used
        for (int32_t at = start + warp * 64; at < start + warp * 64 + 64; at += 32)
            if (at < to && at + 32 > from)
                score_positions<n_strips>(call, place, shape, memory, at, to);
        __syncthreads();
        weigh_queries<n_strips>(call, place, segment, memory);
        __syncthreads();
        float sums[n_strips][n_blocks][2][4] = {};
        add_values<n_strips, n_blocks>(call, place, shape, memory, from, to, sums);
        for_items<n_strips, n_blocks>([&](int strip, int block, int half, int i, item_place item) {
            float &total = totals[strip][block][half][i];
            total = dealt ? sums[strip][block][half][i]
                          : merge_item(total, sums[strip][block][half][i], memory.factors[item.query]);
        });
    }
    __syncthreads();
    if (!dealt) {
        for (int32_t query = (int32_t)threadIdx.x; query < place.n_queries; query += TILE_THREADS)
            memory.factors[query] = merge_sink(call, query_head(place, query), memory.states[query]);
        __syncthreads();
    }
    for_items<n_strips, n_blocks>([&](int strip, int block, int half, int i, item_place item) {
        if (item.query >= place.n_queries || item.dim >= call.pages.value_dim)
            return;
        int64_t row = query_row(place, item.query);
        int32_t head = query_head(place, item.query);
        float total = totals[strip][block][half][i];
        if (dealt) {
            split_part(arguments, row, head, only_segment)[item.dim] = total;
            return;
        }
        total = merge_item(total, 0.0f, memory.factors[item.query]) / memory.states[item.query].sum;
        call.out[row * call.out_stride + (int64_t)head * call.pages.value_dim + item.dim] = total;
    });
    if (!dealt)
        return;
    for (int32_t query = (int32_t)threadIdx.x; query < place.n_queries; query += TILE_THREADS) {
        float *part = split_part(arguments, query_row(place, query), query_head(place, query), only_segment);
        part[call.pages.value_dim] = memory.states[query].largest;
        part[call.pages.value_dim + 1] = memory.states[query].sum;
        part[call.pages.value_dim + 2] = memory.factors[query].seen ? 1.0f : 0.0f;
    }
}

static __device__ __forceinline__ int32_t queries_of(const struct attention_arguments &arguments,
                                     const struct attention_sequence &sequence)
{
    return sequence.n_rows * (arguments.call.n_heads / arguments.call.pages.n_kv_heads);
}

// Sequences of few rows: blocks are [sequences, key-value heads x strips, segments or 1].
template <int n_blocks> static __global__ void __launch_bounds__(TILE_THREADS) attend_small(const struct attention_arguments arguments)
{
    const struct attention_launch &call = arguments.call;
    tile_place place;
    place.sequence = call.sequences[blockIdx.x];
    place.group = call.n_heads / call.pages.n_kv_heads;
    place.kv_head = (int32_t)blockIdx.y / arguments.n_strips_small;
    place.first_query = (int32_t)blockIdx.y % arguments.n_strips_small * STRIP;
    int32_t n = queries_of(arguments, place.sequence), left = n - place.first_query;
    if (left <= 0 || n > arguments.n_strips_small * STRIP)
        return;
    place.n_queries = left < STRIP ? left : (int32_t)STRIP;
    attend_tile<1, n_blocks>(arguments, place, (int32_t)blockIdx.z);
}

// The other sequences: blocks are [tiles, key-value heads]. Tiles are counted through the sequences.
template <int n_strips, int n_blocks>
static __global__ void __launch_bounds__(TILE_THREADS) attend_large(const struct attention_arguments arguments)
{
    const struct attention_launch &call = arguments.call;
    int32_t lane = (int32_t)threadIdx.x % 32, index = (int32_t)blockIdx.x;
    tile_place place = {};
    place.group = call.n_heads / call.pages.n_kv_heads;
    place.kv_head = (int32_t)blockIdx.y;
    for (int32_t base = 0; base < call.n_sequences && place.n_queries == 0; base += 32) {
        int32_t n = base + lane < call.n_sequences ? queries_of(arguments, call.sequences[base + lane]) : 0;
        int32_t n_tiles = n > arguments.n_strips_small * STRIP ? (n + n_strips * STRIP - 1) / (n_strips * STRIP) : 0;
        int32_t sum = n_tiles; // of this lane's and the lower ones' sequences
        for (int distance = 1; distance < 32; distance *= 2) {
            int32_t other = __shfl_sync(0xFFFFFFFFu, sum, lane >= distance ? lane - distance : lane);
            sum += lane >= distance ? other : 0;
        }
        unsigned beyond = __ballot_sync(0xFFFFFFFFu, sum > index);
        if (!beyond) {
            index -= __shfl_sync(0xFFFFFFFFu, sum, 31);
            continue;
        }
        int found = __ffs((int)beyond) - 1;
        place.first_query = (index - __shfl_sync(0xFFFFFFFFu, sum - n_tiles, found)) * n_strips * STRIP;
        int32_t left = __shfl_sync(0xFFFFFFFFu, n, found) - place.first_query;
        place.n_queries = left < n_strips * STRIP ? left : n_strips * STRIP;
        place.sequence = call.sequences[base + found];
    }
    if (place.n_queries > 0)
        attend_tile<n_strips, n_blocks>(arguments, place, 0);
}

// Merges dealt-out segments in order: blocks are [sequences, heads], threads the dimensions.
static __global__ void __launch_bounds__(TILE_THREADS) merge_segments(const struct attention_arguments arguments)
{
    const struct attention_launch &call = arguments.call;
    struct attention_sequence sequence = call.sequences[blockIdx.x];
    int32_t head = (int32_t)blockIdx.y, dim = call.pages.value_dim;
    if (queries_of(arguments, sequence) > arguments.n_strips_small * STRIP)
        return;
    for (int32_t i = 0; i < sequence.n_rows; i++) {
        int64_t row = sequence.first_row + i;
        int32_t position = sequence.position + i, last = position / SEGMENT;
        for (int32_t d = (int32_t)threadIdx.x; d < dim; d += TILE_THREADS) {
            struct query_state state = {-INFINITY, 0.0f};
            float total = 0.0f;
            for (int32_t segment = first_seen(call, position) / SEGMENT; segment <= last; segment++) {
                const float *part = split_part(arguments, row, head, segment);
                merge_factors factors = merge_state(state, part[dim], part[dim + 1], part[dim + 2] != 0.0f);
                total = merge_item(total, part[d], factors);
            }
            merge_factors factors = merge_sink(call, head, state);
            call.out[row * call.out_stride + (int64_t)head * dim + d] = merge_item(total, 0.0f, factors) / state.sum;
        }
    }
}

enum { BLOCKS_WANTED = 2 }; // blocks of small tiles for each multiprocessor; fewer: segments are dealt out

uint64_t attention_scratch_bytes(int32_t n_heads, int32_t n_kv_heads, int32_t value_dim, int32_t n_positions_most,
                                 int32_t n_multiprocessors)
{
    // Fewer sequences than this are dealt out; each has up to STRIP rows' worth of queries a key-value head.
    uint64_t n_sequences = (uint64_t)(BLOCKS_WANTED * n_multiprocessors / n_kv_heads + 1);
    uint64_t n_segments = ((uint64_t)n_positions_most + SEGMENT - 1) / SEGMENT;
    return n_sequences * (uint64_t)n_heads * n_segments * (uint64_t)split_floats(value_dim) * sizeof(float);
}

template <int n_blocks> static void launch_small(void *stream, const struct attention_arguments &arguments)
{
    const struct attention_launch &call = arguments.call;
    struct launch_shape shape = {(unsigned)call.n_sequences,
                                 (unsigned)(call.pages.n_kv_heads * arguments.n_strips_small),
                                 (unsigned)(arguments.split.n_segments > 0 ? arguments.split.n_segments : 1), TILE_THREADS,
                                 tile_memory<1>::bytes((call.pages.key_dim + 31) / 32)};
    launch(attend_small<n_blocks>, shape, stream, arguments);
    if (arguments.split.n_segments > 0)
        launch(merge_segments, {(unsigned)call.n_sequences, (unsigned)call.n_heads, 1, TILE_THREADS, 0}, stream, arguments);
}

template <int n_strips, int n_blocks> static void launch_large(void *stream, const struct attention_arguments &arguments)
{
    const struct attention_launch &call = arguments.call;
    int32_t group = call.n_heads / call.pages.n_kv_heads;
    int64_t n_tiles = call.n_sequences + (int64_t)call.n_rows * group / (n_strips * STRIP);
    launch(attend_large<n_strips, n_blocks>,
           {(unsigned)n_tiles, (unsigned)call.pages.n_kv_heads, 1, TILE_THREADS,
            tile_memory<n_strips>::bytes((call.pages.key_dim + 31) / 32)},
           stream, arguments);
}

void launch_attention(void *stream, const struct attention_launch *attention)
{
    if (attention->n_sequences == 0)
        return;
    struct attention_arguments arguments = {};
    arguments.call = *attention;
    int32_t n_kv_heads = attention->pages.n_kv_heads, group = attention->n_heads / n_kv_heads;
    arguments.n_strips_small = (group + STRIP - 1) / STRIP;
    int32_t n_segments = (attention->n_positions_most + SEGMENT - 1) / SEGMENT;
    uint64_t split_bytes = (uint64_t)attention->n_rows * (uint64_t)attention->n_heads * (uint64_t)n_segments *
                           (uint64_t)split_floats(attention->pages.value_dim) * sizeof(float);
    if (n_segments > 1 && split_bytes <= attention->scratch_bytes &&
        (int64_t)attention->n_sequences * n_kv_heads * arguments.n_strips_small <
            (int64_t)BLOCKS_WANTED * attention->n_multiprocessors)
        arguments.split = {(float *)attention->scratch, n_segments};
    int32_t n_value_blocks = (attention->pages.value_dim + 15) / 16;
    if (n_value_blocks <= 4)
        launch_small<1>(stream, arguments);
    else if (n_value_blocks <= 8)
        launch_small<2>(stream, arguments);
    else
        launch_small<4>(stream, arguments);
    if ((int64_t)attention->n_rows_most * group <= arguments.n_strips_small * STRIP)
        return;
    arguments.split = {};
    if (n_value_blocks <= 4)
        launch_large<4, 1>(stream, arguments);
    else if (n_value_blocks <= 8)
        launch_large<4, 2>(stream, arguments);
    else
        launch_large<2, 4>(stream, arguments);
}

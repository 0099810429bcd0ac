// Sparse attention (gpu/kernels/kernels_selection.h). Each block reads its row's position on the device and exits if
// the row selects nothing, so one graph fits steps with any positions.
#include "gpu/kernels/kernels_selection.h"

#include "gpu/kernels/attention_page.h"

#include <assert.h>

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    SCORED_HEADS = 8, // heads whose dot products a thread computes together
    BUCKETS = 1 << 11,
    THREAD_BUCKETS = BUCKETS / THREADS,
    DIGITS = 3,
};

// Finds the sequence of a row, with all threads of a block. `found` is shared.
static __device__ struct attention_sequence sequence_of(const struct selection_rows &rows, int32_t row,
                                                        int32_t *found)
{
    for (int32_t i = (int32_t)threadIdx.x; i < rows.n_sequences; i += (int32_t)blockDim.x) {
        const struct attention_sequence &sequence = rows.sequences[i];
        if (row >= sequence.first_row && row < sequence.first_row + sequence.n_rows)
            *found = i;
    }
    __syncthreads();
    return rows.sequences[*found];
}

static __device__ float *key_of(const struct selection_pages &pages, int32_t layer, int64_t page, int32_t at)
{
    return pages.memory +
           (((int64_t)layer * pages.n_pages + page) * pages.page_positions + at) * pages.key_dim;
}

static __global__ void __launch_bounds__(THREADS) selection_store_rows(const struct selection_store store)
{
    launch_next();
    launch_wait();
    int32_t row = (int32_t)blockIdx.x, index = store.row_sequences[row];
    if (index < 0)
        return;
    const struct attention_sequence &sequence = store.sequences[index];
    int32_t position = sequence.position + row - sequence.first_row, n = store.pages.page_positions;
    float *key =
        key_of(store.pages, store.layer, store.tables[sequence.first_page + position / n], position % n);
    for (int32_t d = (int32_t)threadIdx.x; d < store.pages.key_dim; d += THREADS)
        key[d] = store.keys.items[row * store.keys.stride + d];
}

// ---- scores ----

// A thread has a position. The grid is [blocks of positions, rows]. Shared: keys [SELECTION_POSITIONS][key_dim + 1], so
// that threads read different banks; queries [key_dim][SCORED_HEADS].
static __global__ void __launch_bounds__(SELECTION_POSITIONS)
    selection_score(const struct selection_launch call)
{
    launch_next();
    launch_wait();
    __shared__ int32_t found;
    const struct selection_rows &rows = call.rows;
    int32_t index = (int32_t)blockIdx.y, row = rows.first + index, position = rows.positions[row];
    int32_t first = (int32_t)blockIdx.x * SELECTION_POSITIONS, thread = (int32_t)threadIdx.x;
    if (position < rows.n_selected || first > position)
        return;
    const struct attention_sequence sequence = sequence_of(rows, row, &found);
    int32_t dim = call.pages.key_dim, n_page = call.pages.page_positions;
    float *queries = (float *)dynamic_shared(), *keys = queries + dim * SCORED_HEADS;
    for (int32_t i = thread; i < SELECTION_POSITIONS * dim; i += SELECTION_POSITIONS) {
        int32_t at = i / dim, d = i % dim, j = first + at;
        keys[at * (dim + 1) + d] =
            j <= position
                ? key_of(call.pages, call.layer, rows.tables[sequence.first_page + j / n_page], j % n_page)[d]
                : 0.0f;
    }
    const float *key = keys + thread * (dim + 1), *weights = call.weights.items + row * call.weights.stride;
    float score = 0.0f;
    for (int32_t head = 0; head < call.n_heads; head += SCORED_HEADS) {
        __syncthreads(); // the queries before these were read
        for (int32_t i = thread; i < dim * SCORED_HEADS; i += SELECTION_POSITIONS) {
            int32_t h = head + i / dim, d = i % dim;
            queries[d * SCORED_HEADS + i / dim] =
                h < call.n_heads ? call.queries.items[row * call.queries.stride + h * dim + d] : 0.0f;
        }
        __syncthreads();
        float dots[SCORED_HEADS] = {};
        for (int32_t d = 0; d < dim; d++)
#pragma unroll
            for (int h = 0; h < SCORED_HEADS; h++)
                dots[h] = fmaf(queries[d * SCORED_HEADS + h], key[d], dots[h]);
#pragma unroll
        for (int h = 0; h < SCORED_HEADS; h++)
            if (head + h < call.n_heads)
                score = score + weights[head + h] * (dots[h] > 0.0f ? dots[h] : 0.0f);
    }
    if (first + thread <= position)
        call.scores[(int64_t)index * call.n_scores + first + thread] = score;
}

// ---- selection ----

// Maps a float to an unsigned integer; the integers have the order of the floats.
static __device__ uint32_t order_of(float x)
{
    uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct pick_memory {
    int32_t counts[BUCKETS], sums[THREADS];
    int32_t bucket, n_left;
    int32_t above[WARPS], equal[WARPS];
};

// The order of the n_wanted-th largest score, found digit by digit from the upper one. Afterwards n_wanted is the number
// of scores of that order among the n_wanted largest.
static __device__ uint32_t find_threshold(const float *scores, int32_t n, int32_t &n_wanted,
                                          struct pick_memory *memory)
{
    int32_t thread = (int32_t)threadIdx.x;
    uint32_t prefix = 0, mask = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
        int shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
        uint32_t digit_mask = digit == DIGITS - 1 ? BUCKETS / 2 - 1 : BUCKETS - 1;
        for (int32_t i = thread; i < BUCKETS; i += THREADS)
            memory->counts[i] = 0;
        __syncthreads();
        for (int32_t j = thread; j < n; j += THREADS) {
            uint32_t order = order_of(scores[j]);
            if ((order & mask) == prefix)
                atomicAdd(&memory->counts[order >> shift & digit_mask], 1);
        }
        __syncthreads();
        int32_t sum = 0;
        for (int i = 0; i < THREAD_BUCKETS; i++)
            sum += memory->counts[thread * THREAD_BUCKETS + i];
        memory->sums[thread] = sum;
        __syncthreads();
        if (thread == 0) {
            int32_t at = THREADS - 1, left = n_wanted;
            for (; memory->sums[at] < left; at--)
                left -= memory->sums[at];
            int32_t bucket = at * THREAD_BUCKETS + THREAD_BUCKETS - 1;
            for (; memory->counts[bucket] < left; bucket--)
                left -= memory->counts[bucket];
            memory->bucket = bucket;
            memory->n_left = left;
        }
        __syncthreads();
        prefix |= (uint32_t)memory->bucket << shift;
        mask |= digit_mask << shift;
        n_wanted = memory->n_left;
    }
    return prefix;
}

// The grid is [rows].
static __global__ void __launch_bounds__(THREADS) selection_pick(const struct selection_launch call)
{
    launch_next();
    launch_wait();
    __shared__ struct pick_memory memory;
    const struct selection_rows &rows = call.rows;
    int32_t index = (int32_t)blockIdx.x, row = rows.first + index, n = rows.positions[row] + 1;
    if (n <= rows.n_selected)
        return;
    int32_t thread = (int32_t)threadIdx.x, warp = thread / 32, n_equal_wanted = rows.n_selected;
    const float *scores = call.scores + (int64_t)index * call.n_scores;
    uint32_t threshold = find_threshold(scores, n, n_equal_wanted, &memory), lower = (1u << thread % 32) - 1;
    int32_t *out = rows.selected + (int64_t)row * rows.n_selected, n_above = 0, n_equal = 0;
    for (int32_t first = 0; first < n; first += THREADS) {
        int32_t j = first + thread;
        uint32_t order = j < n ? order_of(scores[j]) : 0;
        bool is_above = j < n && order > threshold, is_equal = j < n && order == threshold;
        unsigned above = __ballot_sync(0xFFFFFFFFu, is_above), equal = __ballot_sync(0xFFFFFFFFu, is_equal);
        __syncthreads(); // the counts before these were read
        if (thread % 32 == 0) {
            memory.above[warp] = __popc(above);
            memory.equal[warp] = __popc(equal);
        }
        __syncthreads();
        int32_t above_before = n_above + __popc(above & lower),
                equal_before = n_equal + __popc(equal & lower);
        for (int32_t i = 0; i < WARPS; i++) {
            above_before += i < warp ? memory.above[i] : 0;
            equal_before += i < warp ? memory.equal[i] : 0;
            n_above += memory.above[i];
            n_equal += memory.equal[i];
        }
        int32_t equal_taken = equal_before < n_equal_wanted ? equal_before : n_equal_wanted;
        if (is_above || (is_equal && equal_before < n_equal_wanted))
            out[above_before + equal_taken] = j;
    }
}

// ---- selected keys and values ----

// Copies one item of a group of 32 dimensions, one per lane, and the group's scale.
template <enum kv_type type>
static __device__ void copy_item(const unsigned char *from, int32_t from_at, unsigned char *to, int32_t to_at,
                                 const page_shape &shape, int32_t group, bool key)
{
    int32_t lane = (int32_t)threadIdx.x % 32, d = group * ATTENTION_GROUP + lane;
    if (type == KV_Q8_0 && lane == 0) {
        int64_t offset = key ? shape.key_scales : shape.value_scales;
        ((uint16_t *)(to +
                      offset))[key ? key_scale_place(shape, to_at, group) : value_scale_place(to_at, group)] =
            ((const uint16_t *)(from + offset))[key ? key_scale_place(shape, from_at, group)
                                                    : value_scale_place(from_at, group)];
    }
    if (!key && d >= shape.value_blocks * 16)
        return;
    int64_t offset = key ? 0 : shape.values;
    int32_t from_place = key ? key_place(shape, from_at, d) : value_place(from_at, d),
            to_place = key ? key_place(shape, to_at, d) : value_place(to_at, d);
    if (type == KV_Q8_0)
        to[offset + to_place] = from[offset + from_place];
    else
        ((uint16_t *)(to + offset))[to_place] = ((const uint16_t *)(from + offset))[from_place];
}

static __device__ void make_sequence(const struct selection_gather &call, int32_t index, bool selects)
{
    struct attention_sequence sequence = {};
    sequence.first_row = call.rows.first + index;
    sequence.n_rows = selects ? 1 : 0;
    sequence.position = call.rows.n_selected - 1;
    sequence.first_page = index * call.n_pages_each;
    sequence.first_part = index;
    call.sequences[index] = sequence;
    for (int32_t i = 0; i < call.n_pages_each; i++)
        call.tables[sequence.first_page + i] = sequence.first_page + i;
}

// A warp copies a group of 32 dimensions of one position. The grid is [rows, blocks of groups].
template <enum kv_type type>
static __global__ void __launch_bounds__(THREADS) selection_copy(const struct selection_gather call)
{
    launch_next();
    launch_wait();
    __shared__ int32_t found;
    const struct selection_rows &rows = call.rows;
    int32_t index = (int32_t)blockIdx.x, row = rows.first + index;
    bool selects = rows.positions[row] >= rows.n_selected;
    if (blockIdx.y == 0 && threadIdx.x == 0)
        make_sequence(call, index, selects);
    if (!selects)
        return;
    const struct attention_sequence sequence = sequence_of(rows, row, &found);
    const page_shape shape = page_shape_of<type>(call.from);
    int32_t n_groups = shape.key_steps + (shape.value_blocks + 1) / 2, n_page = call.from.page_positions;
    int64_t n = (int64_t)rows.n_selected * call.from.n_kv_heads * n_groups;
    for (int64_t i = (int64_t)blockIdx.y * WARPS + threadIdx.x / 32; i < n; i += (int64_t)gridDim.y * WARPS) {
        int32_t group = (int32_t)(i % n_groups), head = (int32_t)(i / n_groups % call.from.n_kv_heads),
                at = (int32_t)(i / n_groups / call.from.n_kv_heads),
                j = rows.selected[(int64_t)row * rows.n_selected + at];
        bool key = group < shape.key_steps;
        const unsigned char *from =
            page_block(call.from, shape, call.layer, rows.tables[sequence.first_page + j / n_page], head,
                       j % n_page / ATTENTION_BLOCK);
        unsigned char *to = page_block(call.to, shape, 0, index * call.n_pages_each + at / n_page, head,
                                       at % n_page / ATTENTION_BLOCK);
        copy_item<type>(from, j % ATTENTION_BLOCK, to, at % ATTENTION_BLOCK, shape,
                        key ? group : group - shape.key_steps, key);
    }
}

static __global__ void __launch_bounds__(THREADS)
    selection_rest(struct attention_sequence *out, const struct attention_sequence *in, int32_t n_sequences,
                   int32_t n_selected)
{
    launch_next();
    launch_wait();
    int32_t i = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= n_sequences)
        return;
    struct attention_sequence sequence = in[i];
    int32_t n = n_selected - sequence.position;
    sequence.n_rows = n < 0 ? 0 : n < sequence.n_rows ? n : sequence.n_rows;
    sequence.n_shared = sequence.n_runs = 0;
    out[i] = sequence;
}

// ---- launches ----

enum { COPY_BLOCKS_MAX = 1024 }; // of a row

void launch_selection_store(void *stream, const struct selection_store *store)
{
    if (store->n_rows > 0)
        launch_overlapped<selection_store_rows>({(unsigned)store->n_rows, 1, 1, THREADS, 0}, stream, *store);
}

void launch_selection(void *stream, const struct selection_launch *selection)
{
    int32_t dim = selection->pages.key_dim;
    size_t shared_bytes = (size_t)(dim * SCORED_HEADS + SELECTION_POSITIONS * (dim + 1)) * sizeof(float);
    assert(dim <= SELECTION_DIM_MAX && selection->n_scores % SELECTION_POSITIONS == 0);
    assert(selection->rows.n <= LAUNCH_BLOCKS_YZ_MAX);
    launch_overlapped<selection_score>({(unsigned)(selection->n_scores / SELECTION_POSITIONS),
                                        (unsigned)selection->rows.n, 1, SELECTION_POSITIONS, shared_bytes},
                                       stream, *selection);
    launch_overlapped<selection_pick>({(unsigned)selection->rows.n, 1, 1, THREADS, 0}, stream, *selection);
}

void launch_selection_gather(void *stream, const struct selection_gather *gather)
{
    int64_t n_groups = (gather->from.key_dim + 31) / 32 + (gather->from.value_dim + 31) / 32,
            n = (gather->rows.n_selected * n_groups * gather->from.n_kv_heads + WARPS - 1) / WARPS;
    n = n < COPY_BLOCKS_MAX ? n : (int64_t)COPY_BLOCKS_MAX;
    struct launch_shape shape = {(unsigned)gather->rows.n, (unsigned)n, 1, THREADS, 0};
    if (gather->from.type == KV_Q8_0)
        launch_overlapped<selection_copy<KV_Q8_0>>(shape, stream, *gather);
    else
        launch_overlapped<selection_copy<KV_F16>>(shape, stream, *gather);
}

void launch_selection_rest(void *stream, struct attention_sequence *out, const struct attention_sequence *in,
                           int32_t n_sequences, int32_t n_selected)
{
    launch_overlapped<selection_rest>({(unsigned)(n_sequences + THREADS - 1) / THREADS, 1, 1, THREADS, 0},
                                      stream, out, in, n_sequences, n_selected);
}

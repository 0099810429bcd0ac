// Rotates queries; rotates keys and stores them and the values in their pages
// (gpu/kernels/kernels_attention.h draws the layout). The grid is [rows, units of work]: first the queries,
// then groups of 32 dimensions of keys and values. A thread computes a few pairs of queries, or one item, so
// its only latency is the chain of loads that finds its address.
#include "gpu/kernels/attention_page.h"

enum { THREADS = 256, WARPS = THREADS / 32 };

// Page, block within the page and position within the block of a row.
struct row_place {
    int64_t page; // negative: padding
    int32_t block, at;
};

static __device__ row_place find_row(const struct attention_store &store, int32_t row)
{
    int32_t index = store.row_sequences[row];
    if (index < 0)
        return {-1, 0, 0};
    struct attention_sequence sequence = store.sequences[index];
    int32_t position = sequence.position + row - sequence.first_row,
            page_positions = store.pages.page_positions;
    return {store.tables[sequence.first_page + position / page_positions],
            position % page_positions / ATTENTION_BLOCK, position % ATTENTION_BLOCK};
}

// Rotates a pair: (a, b) becomes (a cos - b sin, a sin + b cos).
static __device__ float2 rotate_pair(float a, float b, float2 angle)
{
    return make_float2(a * angle.x - b * angle.y, a * angle.y + b * angle.x);
}

static __device__ float2 pair_angle(const struct attention_rotation &rotation, int64_t row, int32_t pair)
{
    return ((const float2 *)rotation.cos_sin)[(row * rotation.n_dims) / 2 + pair];
}

// Returns item `d` of a head's keys, rotated. Rotation mixes the two items of a pair, so both threads of a
// pair read both items.
static __device__ float key_item(const struct attention_store &store, int64_t row, int32_t head, int32_t d)
{
    const struct attention_rotation &rotation = store.rotation;
    const float *items = store.k + row * store.k_stride + head * store.pages.key_dim;
    if (d >= store.pages.key_dim)
        return 0.0f;
    if (!rotation.cos_sin || d >= rotation.n_dims)
        return items[d];
    int32_t pairs = rotation.n_dims / 2, pair = rotation.halves ? d % pairs : d / 2;
    bool first = rotation.halves ? d < pairs : d % 2 == 0;
    const float *at = items + (rotation.halves ? pair : 2 * pair);
    float2 rotated = rotate_pair(at[0], at[rotation.halves ? pairs : 1], pair_angle(rotation, row, pair));
    return first ? rotated.x : rotated.y;
}

static __device__ float value_item(const struct attention_store &store, int64_t row, int32_t head, int32_t d)
{
    int32_t dim = store.pages.value_dim;
    return d < dim ? store.v[row * store.v_stride + head * dim + d] : 0.0f;
}

// Rotates pairs `pair` to `pair` + 3 of one head of a row, with vector loads.
static __device__ void rotate_four(float *head, int32_t pair, const struct attention_rotation &rotation,
                                   int64_t row)
{
    int32_t pairs = rotation.n_dims / 2;
    float4 *first = (float4 *)(head + (rotation.halves ? pair : 2 * pair)),
           *second = rotation.halves ? (float4 *)(head + pairs + pair) : first + 1;
    const float4 *angles = (const float4 *)(rotation.cos_sin + row * rotation.n_dims + 2 * pair);
    float4 a = *first, b = *second, low = angles[0], high = angles[1];
    float2 angle[4] = {{low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
    if (rotation.halves) {
        float2 r[4] = {rotate_pair(a.x, b.x, angle[0]), rotate_pair(a.y, b.y, angle[1]),
                       rotate_pair(a.z, b.z, angle[2]), rotate_pair(a.w, b.w, angle[3])};
        *first = make_float4(r[0].x, r[1].x, r[2].x, r[3].x);
        *second = make_float4(r[0].y, r[1].y, r[2].y, r[3].y);
    } else {
        float2 r[4] = {rotate_pair(a.x, a.y, angle[0]), rotate_pair(a.z, a.w, angle[1]),
                       rotate_pair(b.x, b.y, angle[2]), rotate_pair(b.z, b.w, angle[3])};
        *first = make_float4(r[0].x, r[0].y, r[1].x, r[1].y);
        *second = make_float4(r[2].x, r[2].y, r[3].x, r[3].y);
    }
}

// Number of pairs per thread: four if heads and rows are aligned for vector loads, else one.
static __host__ __device__ int32_t thread_pairs(const struct attention_queries &queries)
{
    bool aligned = queries.rotation.n_dims % 8 == 0 && queries.head_dim % 4 == 0 && queries.stride % 4 == 0 &&
                   ((uintptr_t)queries.items | (uintptr_t)queries.rotation.cos_sin) % 16 == 0;
    return aligned ? 4 : 1;
}

static __device__ void rotate_queries(const struct attention_queries &queries, int64_t row, int32_t thread)
{
    const struct attention_rotation &rotation = queries.rotation;
    int32_t n = thread_pairs(queries), at = thread * n, pairs = rotation.n_dims / 2, pair = at % pairs,
            head = at / pairs;
    if (head >= queries.n_heads)
        return;
    float *items = queries.items + row * queries.stride + (int64_t)head * queries.head_dim;
    if (n == 4) {
        rotate_four(items, pair, rotation, row);
        return;
    }
    float *first = items + (rotation.halves ? pair : 2 * pair),
          *second = first + (rotation.halves ? pairs : 1);
    float2 rotated = rotate_pair(*first, *second, pair_angle(rotation, row, pair));
    *first = rotated.x;
    *second = rotated.y;
}

// Computes the scale of a group of 32 items, one per lane. Absolute values compare like their bits; NaN is
// the largest.
static __device__ uint16_t group_scale(float item)
{
    uint32_t largest = __float_as_uint(item) & 0x7FFFFFFFu;
    for (int mask = 16; mask > 0; mask /= 2) {
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, largest, mask);
        largest = other > largest ? other : largest;
    }
    if (largest >= 0x7F800000u)
        return 0x7E00u; // the whole group becomes NaN
    return (uint16_t)half2_make(__uint_as_float(largest) / 127.0f, 0.0f);
}

// Returns 128 + item / scale, rounded to the nearest integer.
static __device__ unsigned char quantize_item(float item, uint16_t scale)
{
    float unit = half_float(scale);
    if (!(unit > 0.0f)) // all items are zero or underflow, or one is NaN
        return 128;
    float integer = rintf(item / unit);
    integer = integer > 127.0f ? 127.0f : integer < -127.0f ? -127.0f : integer;
    return (unsigned char)((int)integer + 128);
}

// Stores one item of a key or a value. The warp holds the 32 dimensions of the group, one per lane.
template <enum kv_type type>
static __device__ __forceinline__ void store_item(unsigned char *block, const page_shape &shape, int32_t at,
                                                  int32_t group, bool key, float item)
{
    int32_t lane = (int32_t)threadIdx.x % 32, d = group * ATTENTION_GROUP + lane;
    bool wanted = key || d < shape.value_blocks * 16;
    int32_t place = key ? key_place(shape, at, d) : value_place(at, d);
    unsigned char *items = block + (key ? 0 : shape.values);
    if (type == KV_Q8_0) {
        uint16_t scale = group_scale(item);
        uint16_t *scales = (uint16_t *)(block + (key ? shape.key_scales : shape.value_scales));
        if (lane == 0)
            scales[key ? key_scale_place(shape, at, group) : value_scale_place(at, group)] = scale;
        if (wanted)
            items[place] = quantize_item(item, scale);
    } else if (wanted) {
        ((uint16_t *)items)[place] = (uint16_t)half2_make(item, 0.0f);
    }
}

template <enum kv_type type>
static __global__ void __launch_bounds__(THREADS)
    store_rows(const struct attention_store store, int32_t n_query_blocks)
{
    launch_next();
    launch_wait();
    int32_t row = (int32_t)blockIdx.x, block_index = (int32_t)blockIdx.y;
    if (block_index < n_query_blocks) {
        rotate_queries(store.queries, row, block_index * THREADS + (int32_t)threadIdx.x);
        return;
    }
    const page_shape shape = page_shape_of<type>(store.pages);
    int32_t n_groups = shape.key_steps + (shape.value_blocks + 1) / 2,
            index = (block_index - n_query_blocks) * WARPS + (int32_t)threadIdx.x / 32,
            head = index / n_groups, group = index % n_groups;
    if (head >= store.pages.n_kv_heads)
        return;
    bool key = group < shape.key_steps;
    group -= key ? 0 : shape.key_steps;
    int32_t d = group * ATTENTION_GROUP + (int32_t)threadIdx.x % 32;
    float item = key ? key_item(store, row, head, d) : value_item(store, row, head, d);
    row_place place = find_row(store, row);
    if (place.page >= 0)
        store_item<type>(page_block(store.pages, shape, store.layer, place.page, head, place.block), shape,
                         place.at, group, key, item);
}

template <enum kv_type type> static void launch_store(void *stream, const struct attention_store &store)
{
    const page_shape shape = page_shape_of<type>(store.pages);
    int64_t pairs = store.queries.rotation.cos_sin
                        ? (int64_t)store.queries.n_heads * (store.queries.rotation.n_dims / 2)
                        : 0,
            groups = (int64_t)store.pages.n_kv_heads * (shape.key_steps + (shape.value_blocks + 1) / 2);
    int64_t block_pairs = (int64_t)THREADS * thread_pairs(store.queries);
    unsigned n_query_blocks = (unsigned)((pairs + block_pairs - 1) / block_pairs),
             n_blocks = n_query_blocks + (unsigned)((groups + WARPS - 1) / WARPS);
    launch_overlapped<store_rows<type>>({(unsigned)store.n_rows, n_blocks, 1, THREADS, 0}, stream, store,
                                        (int32_t)n_query_blocks);
}

void launch_attention_store(void *stream, const struct attention_store *store)
{
    if (store->n_rows == 0)
        return;
    if (store->pages.type == KV_Q8_0)
        launch_store<KV_Q8_0>(stream, *store);
    else
        launch_store<KV_F16>(stream, *store);
}

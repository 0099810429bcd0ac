// Stores keys and values in their pages (gpu/kernels_attention.h draws the layout): one block per row.
#include "gpu/attention_page.h"

enum { THREADS = 128, WARPS = THREADS / 32 };

struct store_arguments {
    struct attention_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences;
    const int32_t *row_sequences, *tables;
    const float *k, *v;
    int64_t k_stride, v_stride;
};

// Page, block within the page and position within the block of a row.
struct row_place {
    int64_t page; // negative: padding
    int32_t block, at;
};

static __device__ row_place find_row(const struct store_arguments &arguments, int32_t row)
{
    int32_t index = arguments.row_sequences[row];
    if (index < 0)
        return {-1, 0, 0};
    struct attention_sequence sequence = arguments.sequences[index];
    int32_t position = sequence.position + row - sequence.first_row,
            page_positions = arguments.pages.page_positions;
    return {arguments.tables[sequence.first_page + position / page_positions],
            position % page_positions / ATTENTION_BLOCK, position % ATTENTION_BLOCK};
}

// Index of an item among a block's keys, the same for both types.
static __device__ int32_t key_place(const page_shape &shape, int32_t at, int32_t d)
{
    return ((at / 8 * shape.key_steps + d / 32) * 32 + at % 8 * 4 + d % 32 / 8) * 8 + d % 8;
}

static __device__ int32_t value_place(int32_t at, int32_t d)
{
    return ((d / 16 * 32 + d % 8 * 4 + at / 4) * 2 + d % 16 / 8) * 4 + at % 4;
}

static __device__ float key_item(const struct store_arguments &arguments, int64_t row, int32_t head,
                                 int32_t d)
{
    int32_t dim = arguments.pages.key_dim;
    return d < dim ? arguments.k[row * arguments.k_stride + head * dim + d] : 0.0f;
}

static __device__ float value_item(const struct store_arguments &arguments, int64_t row, int32_t head,
                                   int32_t d)
{
    int32_t dim = arguments.pages.value_dim;
    return d < dim ? arguments.v[row * arguments.v_stride + head * dim + d] : 0.0f;
}

static __global__ void __launch_bounds__(THREADS) store_halves(const struct store_arguments arguments)
{
    const struct attention_pages &pages = arguments.pages;
    const page_shape shape = page_shape_of<KV_F16>(pages);
    int32_t row = (int32_t)blockIdx.x;
    row_place place = find_row(arguments, row);
    if (place.page < 0)
        return;
    int32_t key_width = shape.key_steps * 32, width = key_width + shape.value_blocks * 16;
    for (int32_t i = (int32_t)threadIdx.x; i < pages.n_kv_heads * width; i += THREADS) {
        int32_t head = i / width, d = i % width;
        unsigned char *block = page_block(pages, shape, arguments.layer, place.page, head, place.block);
        bool key = d < key_width;
        float item =
            key ? key_item(arguments, row, head, d) : value_item(arguments, row, head, d - key_width);
        uint16_t *items = (uint16_t *)(block + (key ? 0 : shape.values));
        items[key ? key_place(shape, place.at, d) : value_place(place.at, d - key_width)] =
            (uint16_t)half2_make(item, 0.0f);
    }
}

// The scale of a group of 32 items, one per lane. Absolute values compare like their bits; NaN is the
// largest.
static __device__ uint16_t group_scale(float item)
{
    uint32_t largest = __float_as_uint(item) & 0x7FFFFFFFu;
    for (int mask = 16; mask > 0; mask /= 2) {
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, largest, mask);
        largest = other > largest ? other : largest;
    }
    if (largest >= 0x7F800000u)
        return 0x7E00u; // NaN for the whole group
    return (uint16_t)half2_make(__uint_as_float(largest) / 127.0f, 0.0f);
}

// 128 + item / scale, rounded to the nearest integer.
static __device__ unsigned char quantize_item(float item, uint16_t scale)
{
    float unit = half_float(scale);
    if (!(unit > 0.0f)) // all items are zero or underflow, or one is NaN
        return 128;
    float integer = rintf(item / unit);
    integer = integer > 127.0f ? 127.0f : integer < -127.0f ? -127.0f : integer;
    return (unsigned char)((int)integer + 128);
}

// A warp processes groups of 32 dimensions: keys of all heads, then values.
static __global__ void __launch_bounds__(THREADS) store_bytes(const struct store_arguments arguments)
{
    const struct attention_pages &pages = arguments.pages;
    const page_shape shape = page_shape_of<KV_Q8_0>(pages);
    int32_t row = (int32_t)blockIdx.x, lane = (int32_t)threadIdx.x % 32;
    row_place place = find_row(arguments, row);
    if (place.page < 0)
        return;
    int32_t value_groups = (shape.value_blocks + 1) / 2, n_groups = shape.key_steps + value_groups;
    for (int32_t i = (int32_t)threadIdx.x / 32; i < pages.n_kv_heads * n_groups; i += WARPS) {
        int32_t head = i / n_groups, group = i % n_groups;
        bool key = group < shape.key_steps;
        group -= key ? 0 : shape.key_steps;
        int32_t d = group * ATTENTION_GROUP + lane;
        unsigned char *block = page_block(pages, shape, arguments.layer, place.page, head, place.block);
        float item = key ? key_item(arguments, row, head, d) : value_item(arguments, row, head, d);
        uint16_t scale = group_scale(item);
        uint16_t *scales = (uint16_t *)(block + (key ? shape.key_scales : shape.value_scales));
        if (lane == 0)
            scales[key ? (place.at / 8 * shape.key_steps + group) * 8 + place.at % 8
                       : group * ATTENTION_BLOCK + place.at] = scale;
        if (key)
            block[key_place(shape, place.at, d)] = quantize_item(item, scale);
        else if (d < shape.value_blocks * 16)
            block[shape.values + value_place(place.at, d)] = quantize_item(item, scale);
    }
}

void launch_attention_store(void *stream, const struct attention_pages *pages, int32_t layer,
                            const struct attention_sequence *sequences, const int32_t *row_sequences,
                            const int32_t *tables, int32_t n_rows, const float *k, int64_t k_stride,
                            const float *v, int64_t v_stride)
{
    if (n_rows == 0)
        return;
    struct store_arguments arguments = {*pages, layer, sequences, row_sequences, tables,
                                        k,      v,     k_stride,  v_stride};
    struct launch_shape shape = {(unsigned)n_rows, 1, 1, THREADS, 0};
    if (pages->type == KV_Q8_0)
        launch<store_bytes>(shape, stream, arguments);
    else
        launch<store_halves>(shape, stream, arguments);
}

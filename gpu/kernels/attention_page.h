// For kernels: addresses of keys and values in the pages (gpu/kernels/kernels_attention.h draws the layout),
// and their conversion to mma fragments. binary16 needs no conversion. 8-bit integers are converted in pairs,
// by an addition and a multiplication.
#pragma once

#include "gpu/kernels/kernel.h"
#include "gpu/kernels/kernels_attention.h"

// Sizes and byte offsets within a head's block of 16 positions.
struct page_shape {
    int32_t key_steps, value_blocks; // numbers of units of 32 key dimensions and of 16 value dimensions
    int64_t key_scales, values, value_scales, block_bytes;
};

template <enum kv_type type>
static __host__ __device__ __forceinline__ page_shape page_shape_of(const struct attention_pages &pages)
{
    page_shape shape;
    shape.key_steps = (pages.key_dim + 31) / 32;
    shape.value_blocks = (pages.value_dim + 15) / 16;
    shape.key_scales = shape.key_steps * (type == KV_Q8_0 ? 512 : 1024);
    shape.values = shape.key_scales + (type == KV_Q8_0 ? shape.key_steps * 32 : 0);
    shape.value_scales = shape.values + shape.value_blocks * (type == KV_Q8_0 ? 256 : 512);
    shape.block_bytes = shape.value_scales + (type == KV_Q8_0 ? (shape.value_blocks + 1) / 2 * 32 : 0);
    return shape;
}

// Index of an item of position `at` within a block's keys, or values. It is the same for both types of pages.
static __device__ __forceinline__ int32_t key_place(const page_shape &shape, int32_t at, int32_t d)
{
    return ((at / 8 * shape.key_steps + d / 32) * 32 + at % 8 * 4 + d % 32 / 8) * 8 + d % 8;
}

static __device__ __forceinline__ int32_t value_place(int32_t at, int32_t d)
{
    return ((d / 16 * 32 + d % 8 * 4 + at / 4) * 2 + d % 16 / 8) * 4 + at % 4;
}

// Index of the scale of a group of 32 dimensions.
static __device__ __forceinline__ int32_t key_scale_place(const page_shape &shape, int32_t at, int32_t group)
{
    return (at / 8 * shape.key_steps + group) * 8 + at % 8;
}

static __device__ __forceinline__ int32_t value_scale_place(int32_t at, int32_t group)
{
    return group * ATTENTION_BLOCK + at;
}

// Address of block number `block` of a head, within a page.
static __device__ __forceinline__ unsigned char *page_block(const struct attention_pages &pages,
                                                            const page_shape &shape, int32_t layer,
                                                            int64_t page, int32_t kv_head, int32_t block)
{
    int64_t head = ((int64_t)layer * pages.n_pages + page) * pages.n_kv_heads + kv_head;
    return (unsigned char *)pages.memory +
           (head * (pages.page_positions / ATTENTION_BLOCK) + block) * shape.block_bytes;
}

// Converts bytes 0 and 1 (or 2 and 3), stored with an offset of 128, to a pair of binary16 by computing 1024
// + byte - 1152. Both operations are exact.
template <int pair> static __device__ __forceinline__ uint32_t widen_bytes(uint32_t bytes)
{
    return half2_add(bytes_pick(bytes, 0x64646464u, pair ? 0x4342u : 0x4140u), 0xE480E480u);
}

// Converts 8 keys of one byte each and multiplies them by the scale of their position.
static __device__ __forceinline__ uint4 widen_keys(uint2 bytes, uint32_t scale)
{
    return make_uint4(half2_multiply(widen_bytes<0>(bytes.x), scale),
                      half2_multiply(widen_bytes<1>(bytes.x), scale),
                      half2_multiply(widen_bytes<0>(bytes.y), scale),
                      half2_multiply(widen_bytes<1>(bytes.y), scale));
}

// Converts values of 2 dimensions x 4 positions and multiplies them by the scales of the positions.
static __device__ __forceinline__ uint4 widen_values(uint2 bytes, uint2 scales)
{
    return make_uint4(half2_multiply(widen_bytes<0>(bytes.x), scales.x),
                      half2_multiply(widen_bytes<1>(bytes.x), scales.y),
                      half2_multiply(widen_bytes<0>(bytes.y), scales.x),
                      half2_multiply(widen_bytes<1>(bytes.y), scales.y));
}

// Loads a lane's part of the keys of 8 positions x 32 dimensions: 8 dimensions of position g.
template <enum kv_type type>
static __device__ __forceinline__ uint4 load_keys(const unsigned char *block, const page_shape &shape,
                                                  int half, int32_t step)
{
    int32_t lane = (int32_t)threadIdx.x % 32, place = half * shape.key_steps + step;
    if (type != KV_Q8_0)
        return ((const uint4 *)block)[place * 32 + lane];
    uint2 bytes = ((const uint2 *)block)[place * 32 + lane];
    return widen_keys(bytes, half2_low(((const uint16_t *)(block + shape.key_scales))[place * 8 + lane / 4]));
}

// Loads a lane's part of the values of 16 positions x 16 dimensions: positions 4 t + 0..3 of dimension g,
// then of dimension g + 8.
template <enum kv_type type>
static __device__ __forceinline__ uint4 load_values(const unsigned char *block, const page_shape &shape,
                                                    int32_t value_block)
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    if (type != KV_Q8_0)
        return ((const uint4 *)(block + shape.values))[value_block * 32 + lane];
    uint2 bytes = ((const uint2 *)(block + shape.values))[value_block * 32 + lane];
    return widen_values(bytes, ((const uint2 *)(block + shape.value_scales))[value_block / 2 * 4 + lane % 4]);
}

// For kernels: dequantizes one lane's part of a group of 128 inputs x 16 outputs (gpu/kernels/tiles.h) to mma
// fragments of binary16 (bfloat16 for BF16). The values of weights in a GEMM are defined as:
//   one scale per block   half(q) * d                                  Q4_0 Q8_0
//   scales and minima     fma(q, half(d scale), -half(dmin minimum))   Q4_K Q5_K
//   one scale per 16      (q - 32) * half(d scale)                     Q6_K
//                         E2M1[q] * E4M3[scale], exactly               NVFP4
// with each operation rounded to binary16; d times a scale of at most 7 bits is exact except for binary16's
// range.
#pragma once

#include "gpu/kernels/kernel.h"
#include "gpu/kernels/tiles.h"

// The binary16 of 1024 + q is 0x6400 | q, so a quant is converted by a mask and a subtraction. Quants in bits
// 4.. give 1024 + 16 q.
enum : uint32_t {
    HALF2_1024 = 0x64006400u,
    HALF2_MINUS_1024 = 0xE400E400u,
    HALF2_MINUS_1152 = 0xE480E480u, // 1024 + 128
    HALF2_SIXTEENTH = 0x2C002C00u,
    HALF2_256 = 0x5C005C00u,
    HALF2_16384 = 0x74007400u,
};

// The memory from which weights are loaded. Weights in device memory are read once, with streaming loads.
struct device_memory {
    static __device__ __forceinline__ uint4 load_16(const unsigned char *at)
    {
        return load_streaming(at);
    }
};

struct shared_memory {
    static __device__ __forceinline__ uint4 load_16(const unsigned char *at)
    {
        return *(const uint4 *)at;
    }
};

// Converts a word of nibbles to four registers of binary16 pairs, minus `above`. `high` holds the upper bits
// of each quant in place: from bit 4 on in even registers (1024 + q), from bit 8 on in odd ones (1024 + 16
// q).
template <int above>
static __device__ __forceinline__ void nibbles_to_halves(uint32_t word, const uint32_t high[4], uint32_t q[4])
{
    // From 1024 to 2048 the steps of binary16 are 1.
    const uint32_t minus_even = HALF2_MINUS_1024 + above * 0x00010001u;
    const uint32_t minus_odd = 0xD400D400u + above * 0x00100010u; // -64; steps of 1/16
    uint32_t upper = word >> 8;
    q[0] = half2_add(bits_merge(word, 0x000F000Fu, HALF2_1024) | high[0], minus_even);
    q[1] = half2_fma(bits_merge(word, 0x00F000F0u, HALF2_1024) | high[1], HALF2_SIXTEENTH, minus_odd);
    q[2] = half2_add(bits_merge(upper, 0x000F000Fu, HALF2_1024) | high[2], minus_even);
    q[3] = half2_fma(bits_merge(upper, 0x00F000F0u, HALF2_1024) | high[3], HALF2_SIXTEENTH, minus_odd);
}

// Bits [n, n + width) of both halves of a word, moved to bit `to`. All three are compile-time constants.
static __device__ __forceinline__ uint32_t bits_moved(uint32_t word, int n, int width, int to)
{
    uint32_t mask = ((1u << width) - 1) << to;
    return (n > to ? word >> (n - to) : word << (to - n)) & (mask | mask << 16);
}

static __device__ __forceinline__ uint32_t word_of(const uint4 &words, int index) // compile-time index
{
    return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

// A lane's registers of one group. Call load (addresses of the group's planes and of the tile's scales, and
// the index of the group in the tile), then prepare once, then fragment for f = 0..7.
template <enum tensor_type type> struct tile_group;

template <> struct tile_group<TENSOR_Q4_0> {
    uint4 quants[2];
    uint32_t d[2]; // d of outputs g and g + 8, each in both halves of a word

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *scales, int, int lane)
    {
        quants[0] = Memory::load_16(plane + lane * 16);
        quants[1] = Memory::load_16(plane + 512 + lane * 16);
        d[0] = *(const uint32_t *)(scales + lane * 4);
    }

    __device__ __forceinline__ void prepare()
    {
        d[1] = half2_high(d[0]);
        d[0] = half2_low(d[0]);
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        const uint32_t none[4] = {0, 0, 0, 0};
        nibbles_to_halves<8>(word_of(quants[f / 4], f % 4), none, a);
        for (int i = 0; i < 4; i++)
            a[i] = half2_multiply(a[i], d[i % 2]);
    }
};

template <> struct tile_group<TENSOR_Q8_0> {
    uint4 quants[4];
    uint32_t d[2];

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *scales, int, int lane)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            quants[i] = Memory::load_16(plane + i * 512 + lane * 16);
        d[0] = *(const uint32_t *)(scales + lane * 4);
    }

    __device__ __forceinline__ void prepare()
    {
        d[1] = half2_high(d[0]);
        d[0] = half2_low(d[0]);
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        for (int i = 0; i < 4; i++) {
            uint32_t word = word_of(quants[f / 2], f % 2 * 2 + i / 2);
            uint32_t raised = bytes_pick(word, HALF2_1024, i % 2 ? 0x5352u : 0x5150u); // 0x64 above bytes
            a[i] = half2_multiply(half2_add(raised, HALF2_MINUS_1152), d[i % 2]);
        }
    }
};

// Scales and negated minima of Q4_K and Q5_K for the lane's two outputs, duplicated in both halves.
struct k_scales {
    uint32_t low, upper, scale[2], minus_minimum[2];
    uint2 d;

    __device__ __forceinline__ void load(const unsigned char *scales, int group, int lane)
    {
        low = *(const uint32_t *)(scales + lane * 4);
        upper = *(const uint16_t *)(scales + 128 + lane * 2);
        d = *(const uint2 *)(scales + 192 + lane / 4 * 8);
        low = group == 0 ? low : low >> 24 | upper << 8; // 24 bits of this group
    }

    __device__ __forceinline__ void prepare()
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t bits = low >> (6 * i);
            uint32_t pair = half2_add((bits & 63u) | (bits << 4 & 0x3F0000u) | HALF2_1024, HALF2_MINUS_1024);
            pair = half2_multiply(pair, i == 0 ? d.x : d.y);
            scale[i] = half2_low(pair);
            minus_minimum[i] = half2_high(pair) ^ 0x80008000u;
        }
    }
};

template <> struct tile_group<TENSOR_Q4_K> {
    uint4 quants[2];
    struct k_scales scales;

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *tile_scales, int group, int lane)
    {
        quants[0] = Memory::load_16(plane + lane * 16);
        quants[1] = Memory::load_16(plane + 512 + lane * 16);
        scales.load(tile_scales, group, lane);
    }

    __device__ __forceinline__ void prepare()
    {
        scales.prepare();
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        const uint32_t none[4] = {0, 0, 0, 0};
        nibbles_to_halves<0>(word_of(quants[f / 4], f % 4), none, a);
        for (int i = 0; i < 4; i++)
            a[i] = half2_fma(a[i], scales.scale[i % 2], scales.minus_minimum[i % 2]);
    }
};

template <> struct tile_group<TENSOR_Q5_K> {
    uint4 quants[2];
    uint2 bits;
    struct k_scales scales;

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *high,
                                         const unsigned char *tile_scales, int group, int lane)
    {
        quants[0] = Memory::load_16(plane + lane * 16);
        quants[1] = Memory::load_16(plane + 512 + lane * 16);
        bits = *(const uint2 *)(high + lane * 8);
        scales.load(tile_scales, group, lane);
    }

    __device__ __forceinline__ void prepare()
    {
        scales.prepare();
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        uint32_t word = f < 4 ? bits.x : bits.y, high[4];
        for (int i = 0; i < 4; i++)
            high[i] = bits_moved(word, f % 4 * 4 + i, 1, i % 2 ? 8 : 4);
        nibbles_to_halves<0>(word_of(quants[f / 4], f % 4), high, a);
        for (int i = 0; i < 4; i++)
            a[i] = half2_fma(a[i], scales.scale[i % 2], scales.minus_minimum[i % 2]);
    }
};

template <> struct tile_group<TENSOR_Q6_K> {
    uint4 quants[2], pairs;
    // After load, scales[0] has four scales of 8 bits. After prepare, scales[0] has the two scales of output
    // g and scales[1] those for g + 8, each multiplied by d: the first 16 inputs in the lower half, the last
    // 16 in the upper half.
    uint32_t scales[2], d;

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *high,
                                         const unsigned char *tile_scales, int group, int lane)
    {
        quants[0] = Memory::load_16(plane + lane * 16);
        quants[1] = Memory::load_16(plane + 512 + lane * 16);
        pairs = Memory::load_16(high + lane * 16);
        scales[0] = *(const uint32_t *)(tile_scales + 128 * group + lane * 4);
        d = *(const uint32_t *)(tile_scales + 256 + lane / 4 * 4);
    }

    __device__ __forceinline__ void prepare()
    {
        uint32_t bytes = scales[0];
        scales[0] =
            half2_multiply(half2_add(bytes_pick(bytes, HALF2_1024, 0x5150u), HALF2_MINUS_1152), half2_low(d));
        scales[1] = half2_multiply(half2_add(bytes_pick(bytes, HALF2_1024, 0x5352u), HALF2_MINUS_1152),
                                   half2_high(d));
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        uint32_t word = word_of(pairs, f / 2), high[4];
        for (int i = 0; i < 4; i++)
            high[i] = bits_moved(word, 2 * (f % 2 * 4 + i), 2, i % 2 ? 8 : 4);
        nibbles_to_halves<32>(word_of(quants[f / 4], f % 4), high, a);
        for (int i = 0; i < 4; i++)
            a[i] = half2_multiply(a[i], f < 4 ? half2_low(scales[i % 2]) : half2_high(scales[i % 2]));
    }
};

template <> struct tile_group<TENSOR_NVFP4> {
    uint4 quants[2];
    uint32_t scales[2]; // as in Q6_K, without d

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *tile_scales, int, int lane)
    {
        quants[0] = Memory::load_16(plane + lane * 16);
        quants[1] = Memory::load_16(plane + 512 + lane * 16);
        scales[0] = *(const uint32_t *)(tile_scales + lane * 4);
    }

    // An E4M3 number shifted left by 7 bits is the binary16 of 2^-8 times the number. E2M1 shifted by 9 bits (and its
    // sign by 12) is the binary16 of 2^-14 times the number.
    __device__ __forceinline__ void prepare()
    {
        uint32_t bytes = scales[0];
        scales[0] = half2_multiply(bytes_pick(bytes, 0, 0x1404u) >> 1, HALF2_256);
        scales[1] = half2_multiply(bytes_pick(bytes, 0, 0x3424u) >> 1, HALF2_256);
    }

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        uint32_t word = word_of(quants[f / 4], f % 4);
        for (int i = 0; i < 4; i++) {
            uint32_t items = bits_moved(word, 4 * i + 3, 1, 15) | bits_moved(word, 4 * i, 3, 9);
            a[i] = half2_multiply(half2_multiply(items, HALF2_16384),
                                  f < 4 ? half2_low(scales[i % 2]) : half2_high(scales[i % 2]));
        }
    }
};

template <> struct tile_group<TENSOR_F16> {
    uint4 fragments[8];

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *, int, int lane)
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            fragments[i] = Memory::load_16(plane + i * 512 + lane * 16);
    }

    __device__ __forceinline__ void prepare() {}

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        for (int i = 0; i < 4; i++)
            a[i] = word_of(fragments[f], i);
    }
};

template <> struct tile_group<TENSOR_BF16> : tile_group<TENSOR_F16> {
};

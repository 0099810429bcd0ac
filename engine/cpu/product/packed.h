// The packed layout, for the files that write it (pack*.c) and read it (product*.c).
//
// A weight is n_panels panels of `panel_bytes`, contiguous from a page boundary. A panel has 16 outputs; the
// last one is padded with zeros. It consists of a scales region and a quants region, each a multiple of 64
// bytes.
//
// Quants: each block of 32 inputs has planes of 64-byte registers. In a register, bytes 4 * o .. 4 * o + 3
// belong to output o, and byte i of these to inputs 4 * j + i:
//   nibbles  256 bytes  register j (0..3): low half-bytes inputs 4j.., high half-bytes inputs 16 + 4j..
//   bit       64 bytes  bit j (0..7): inputs 4j..
//   pairs    128 bytes  register h (0, 1), bits 2s..2s + 1 (s 0..3): inputs 16h + 4s..
//   bytes    512 bytes  register j (0..7): inputs 4j..
// A bit or a pair holds the upper bits of quants whose lower bits are in the preceding plane.
//
// A scale d is finite or NaN, and an MXFP4 scale is at most 2^103, so that 2^24 times the scale is finite: an
// infinite d is packed as a NaN, a larger exponent as the largest one. No quantizer writes such values. The d
// of an F8_E4M3 block with a NaN is a NaN, and so is one whose 256 d is infinite.
//
//            planes          quants are   scales region
//   Q8_0     bytes           q + 128      a block: h16 d[16]
//   Q4_0     nibbles         q + 8        a block: h16 d[16]
//   Q4_1     nibbles         q            a block: h16 d[16], h16 m[16]
//   Q5_0     nibbles, bit    q + 16       a block: h16 d[16]
//   Q5_1     nibbles, bit    q            a block: h16 d[16], h16 m[16]
//   IQ4_NL   nibbles         index        a block: h16 d[16]
//   MXFP4    nibbles         index        a block: u8 e[16]
//   NVFP4    nibbles         index        a block: 2 halves x u8 e[16]
//   U4_32    nibbles         q            a block: h16 d[16], u8 z[16]
//   U4_64    nibbles         q            two blocks: h16 d[16], u8 z[16]
//   Q2_K     pairs           q            h16 d[16], dmin[16], 8 x 2 halves x u8 (scale | minimum << 4)[16]
//   Q3_K     pairs, bit      q + 4        h16 d[16], 8 x 2 halves x i8 scale[16]
//   Q4_K     nibbles         q            h16 d[16], dmin[16], 8 x (u8 scale[16], u8 minimum[16])
//   Q5_K     nibbles, bit    q            as Q4_K
//   Q6_K     nibbles, pairs  q + 32       as Q3_K
//   IQ4_XS   nibbles         index        h16 d[16], 8 x i8 scale[16]
//   TQ2_0    pairs           q + 1        h16 d[16]
//   IQ1, IQ2, IQ3, TQ1_0: codebook.h
//   F32, F16 no scales; 16 outputs an input
//   F8_E4M3  16 outputs an input          a block: f32 256 d[16]
//   BF16     no scales; 16 32-bit words for two inputs: input 2k in the upper half, 2k + 1 in the lower
#pragma once

#include "engine/cpu/product/product.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// Kernels keep arrays in registers, so every loop over them must be unrolled. gcc unrolls large loops only if
// a pragma asks for it. clang unrolls them by itself; with a pragma it unrolls too late.
#ifdef __clang__
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// How the blocks of a type enter the sum (product.h).
enum packed_kind {
    PACKED_NONE, // no kernel exists
    PACKED_FLOAT,
    PACKED_SCALE,
    PACKED_MINIMUM,        // scale and minimum
    PACKED_HALVES,         // two scales
    PACKED_HALVES_MINIMUM, // two scales and two minima
    PACKED_CODEBOOK        // expanded before the product (codebook.h)
};

// Values of 4-bit indices, as ggml's IQ4_NL and the OCP's E2M1 (doubled) define them.
extern const int8_t packed_iq4_values[16];
extern const int8_t packed_e2m1_values[16];

struct packed_format {
    enum packed_kind kind;
    enum product_form form;
    int group_blocks; // number of blocks whose scales are stored together
    int group_scale_bytes;
    int block_quant_bytes; // bytes of the quants of 32 inputs
    int offset;            // offset by which quants exceed their values; a power of 2, or 0
    const int8_t *values;  // [16] values, if quants are indices into them
};

// Inlined into kernels that are compiled for one type, so that the switch is resolved at compile time.
ALWAYS_INLINE struct packed_format packed_format(const enum tensor_type type)
{
    switch (type) {
    case TENSOR_F32:
        return (struct packed_format){PACKED_FLOAT, PRODUCT_FLOATS, 1, 0, 2048, 0, NULL};
    case TENSOR_F16:
        return (struct packed_format){PACKED_FLOAT, PRODUCT_FLOATS, 1, 0, 1024, 0, NULL};
    case TENSOR_BF16:
        return (struct packed_format){PACKED_FLOAT, PRODUCT_BFLOATS, 1, 0, 1024, 0, NULL};
    case TENSOR_Q8_0:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 1, 32, 512, 128, NULL};
    case TENSOR_Q4_0:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 1, 32, 256, 8, NULL};
    case TENSOR_Q4_1:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 1, 64, 256, 0, NULL};
    case TENSOR_Q5_0:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 1, 32, 320, 16, NULL};
    case TENSOR_Q5_1:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 1, 64, 320, 0, NULL};
    case TENSOR_IQ4_NL:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 1, 32, 256, 0, packed_iq4_values};
    case TENSOR_MXFP4:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 1, 16, 256, 0, packed_e2m1_values};
    case TENSOR_NVFP4:
        return (struct packed_format){PACKED_HALVES, PRODUCT_QUANTS, 1, 32, 256, 0, packed_e2m1_values};
    case TENSOR_U4_32:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 1, 48, 256, 0, NULL};
    case TENSOR_U4_64:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 2, 48, 256, 0, NULL};
    case TENSOR_F8_E4M3:
        return (struct packed_format){PACKED_FLOAT, PRODUCT_FLOATS, 1, 64, 512, 0, NULL};
    case TENSOR_Q2_K:
        return (struct packed_format){PACKED_HALVES_MINIMUM, PRODUCT_QUANTS, 8, 320, 128, 0, NULL};
    case TENSOR_Q3_K:
        return (struct packed_format){PACKED_HALVES, PRODUCT_QUANTS, 8, 288, 192, 4, NULL};
    case TENSOR_Q4_K:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 8, 320, 256, 0, NULL};
    case TENSOR_Q5_K:
        return (struct packed_format){PACKED_MINIMUM, PRODUCT_QUANTS, 8, 320, 320, 0, NULL};
    case TENSOR_Q6_K:
        return (struct packed_format){PACKED_HALVES, PRODUCT_QUANTS, 8, 288, 384, 32, NULL};
    case TENSOR_IQ4_XS:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 8, 160, 256, 0, packed_iq4_values};
    case TENSOR_IQ2_XXS:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 96, 128, 0, NULL};
    case TENSOR_IQ2_XS:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 224, 128, 0, NULL};
    case TENSOR_IQ2_S:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 288, 128, 0, NULL};
    case TENSOR_IQ3_XXS:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 96, 192, 0, NULL};
    case TENSOR_IQ3_S:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 224, 192, 0, NULL};
    case TENSOR_IQ1_S:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 288, 64, 0, NULL};
    case TENSOR_IQ1_M:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 416, 64, 0, NULL};
    case TENSOR_TQ1_0:
        return (struct packed_format){PACKED_CODEBOOK, PRODUCT_QUANTS, 8, 32, 104, 0, NULL};
    case TENSOR_TQ2_0:
        return (struct packed_format){PACKED_SCALE, PRODUCT_QUANTS, 8, 32, 128, 1, NULL};
    default:
        return (struct packed_format){PACKED_NONE, PRODUCT_FLOATS, 1, 0, 0, 0, NULL};
    }
}

struct packed {
    struct packed_shape shape;
    float scale;          // scale of the whole weight: product_piece multiplies by it
    const int32_t *order; // the order of packed_order
    int32_t n_panels;
    int32_t n_blocks;      // blocks of 32 inputs; the last one of a float type may be partly filled
    uint64_t scales_bytes; // bytes of the scales of one panel
    uint64_t panel_bytes;
    uint8_t *data;
    uint64_t data_bytes;
};

static inline const uint8_t *packed_scales(const struct packed *packed, int32_t panel)
{
    return packed->data + (uint64_t)panel * packed->panel_bytes;
}

static inline const uint8_t *packed_quants(const struct packed *packed, int32_t panel)
{
    return packed_scales(packed, panel) + packed->scales_bytes;
}

// Scale of MXFP4 for doubled values: 2^(e - 128). It is subnormal for e = 0 and 1.
static inline float packed_e8m0_half(uint8_t exponent)
{
    uint32_t bits = exponent < 2 ? 0x200000u << exponent : (uint32_t)(exponent - 1) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, 4);
    return scale;
}

// Bits of the binary16 number that is 2^-7 times the NVFP4 scale for doubled values.
static inline uint16_t packed_ue4m3_half(uint8_t bits)
{
    return (uint16_t)(bits << 7);
}

// Bits of the binary16 number that is 2^-8 times the E4M3 number. Not for NaNs.
static inline uint16_t packed_e4m3_half(uint8_t bits)
{
    return (uint16_t)((bits & 0x80) << 8 | (bits & 0x7F) << 7);
}

// Computes the outputs of panels [panel_begin, panel_end) for some rows: the kernel's result (or the sum of
// the results of a row's parts), times the weight's scale, plus the bias. row_begin is a multiple of
// PREPARED_ROWS. `thread` is the index of the pool's thread, which owns a part of x->sums.
void product_piece(const struct product_kernels *kernels, const struct product_task *task,
                   int32_t panel_begin, int32_t panel_end, const struct prepared *x, int32_t row_begin,
                   int32_t row_end, int thread);

// Packers of the K-quants (in pack_k.c).
void pack_q2_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_q3_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_q4_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_q5_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_q6_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_iq4_xs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                 uint8_t *quants);

// Packers of the codebook and ternary types (in pack_codebook.c).
void pack_iq2_xxs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                  uint8_t *quants);
void pack_iq2_xs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                 uint8_t *quants);
void pack_iq2_s(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_iq3_xxs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                  uint8_t *quants);
void pack_iq3_s(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_iq1_s(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_iq1_m(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_tq1_0(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);
void pack_tq2_0(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants);

enum { PACKED_E8M0_MAX = 231 };

// Writes the scale d of one output. An infinity becomes a NaN.
static inline void packed_put_scale(uint8_t *scales, int output, const uint8_t half[2])
{
    uint16_t bits;
    __builtin_memcpy(&bits, half, 2);
    if ((bits & 0x7FFFu) == 0x7C00u)
        bits |= 0x200u;
    __builtin_memcpy(scales + 2 * output, &bits, 2);
}

// The functions below write the 32 quants of one output's block to a plane. The planes are zero at first.
static inline uint32_t packed_word(const uint8_t *quants)
{
    uint32_t word;
    __builtin_memcpy(&word, quants, 4);
    return word;
}

static inline void packed_put_word(uint8_t *plane, int reg, int output, uint32_t word)
{
    __builtin_memcpy(plane + reg * 64 + output * 4, &word, 4);
}

static inline void packed_put_bytes(uint8_t *plane, int output, const uint8_t quants[PRODUCT_BLOCK])
{
    for (int j = 0; j < 8; j++)
        packed_put_word(plane, j, output, packed_word(quants + 4 * j));
}

static inline void packed_put_nibbles(uint8_t *plane, int output, const uint8_t quants[PRODUCT_BLOCK])
{
    for (int j = 0; j < 4; j++) {
        uint32_t low = packed_word(quants + 4 * j) & 0x0F0F0F0Fu;
        uint32_t high = packed_word(quants + 16 + 4 * j) & 0x0F0F0F0Fu;
        packed_put_word(plane, j, output, low | high << 4);
    }
}

// Copies 16 file bytes to a plane "nibbles". Their low half-bytes are the first 16 quants, in the same order
// as in the plane.
static inline void packed_copy_nibbles(uint8_t *plane, int output, const uint8_t bytes[PRODUCT_BLOCK / 2])
{
    for (int j = 0; j < 4; j++)
        packed_put_word(plane, j, output, packed_word(bytes + 4 * j));
}

// Writes bit `shift` of each quant.
static inline void packed_put_bit(uint8_t *plane, int output, const uint8_t quants[PRODUCT_BLOCK], int shift)
{
    uint32_t word = 0;
    for (int j = 0; j < 8; j++)
        word |= (packed_word(quants + 4 * j) >> shift & 0x01010101u) << j;
    packed_put_word(plane, 0, output, word);
}

// Writes bits `shift` and `shift` + 1 of each quant.
static inline void packed_put_pairs(uint8_t *plane, int output, const uint8_t quants[PRODUCT_BLOCK],
                                    int shift)
{
    for (int h = 0; h < 2; h++) {
        uint32_t word = 0;
        for (int s = 0; s < 4; s++)
            word |= (packed_word(quants + 16 * h + 4 * s) >> shift & 0x03030303u) << (2 * s);
        packed_put_word(plane, h, output, word);
    }
}

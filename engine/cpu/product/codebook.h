// Products of types that store indices into a codebook (IQ1, IQ2, IQ3) or several ternary digits per byte
// (TQ1_0). A kernel expands a group, 256 inputs of a panel, to bytes in scratch memory that stays in L1, once
// for many rows. Then it multiplies as for Q8_0: integer block products times the block's scale (product.h).
//
// Values are integers; their common factor is part of the scale, which is exact in float32:
//            value of an item        scale w              of
//   IQ2_*    +-8, 25, 43             d (2 s + 1) / 8      32 inputs; IQ2_XS, IQ2_S: 16
//   IQ3_XXS  +-4, 12, .. 52, 62      d (2 s + 1) / 4      32
//   IQ3_S    +-1, 3, .. 15           d (2 s + 1)          32
//   IQ1_*    -8, 0, 8, and +-1       d (2 s + 1) / 8      32; IQ1_M: 16
//   TQ1_0    -1, 0, 1                d                    256
//
// Packed layout of a group (packed.h). "Half-bytes" are 8 bytes, of which half-byte o belongs to output o.
//            scales region, after h16 d[16]                        quants region, a block of 32 inputs
//   IQ2_XXS  8 x half-bytes s                                      index u8[16][4], 8 x half-bytes sign
//   IQ2_XS   8 x 2 x half-bytes s, 8 x half-bytes index bit 8      the same
//   IQ2_S    8 x 2 x half-bytes s, 8 x 2 x half-bytes index bit    the same
//   IQ3_XXS  8 x half-bytes s                                      index u8[2][16][4], 8 x half-bytes sign
//   IQ3_S    8 x half-bytes s, 8 x 2 x half-bytes index bit 8      the same
//   IQ1_S    8 x u16[16], as in the file                           index u8[16][4]
//   IQ1_M    8 x 2 x half-bytes s, 8 x u16[16] (4 x (3 index bits, shift))  the same
//   TQ1_0    none                                                  (a group:) 13 planes of 64 bytes
// Sign half-bytes of register j: bit i belongs to input 4j + i. Index half-bytes: bit r belongs to run r of 8
// inputs; for IQ3_S, bit e of half h belongs to entry 4h + e of 4 inputs. Plane p of TQ1_0 holds the digits
// of registers 5p .. 5p + 4 as a fraction of 256, the first digit most significant; the last plane has four
// registers.
#pragma once

#include "engine/cpu/product/packed.h"

enum { CODEBOOK_GROUP = 256, CODEBOOK_BLOCKS = CODEBOOK_GROUP / PRODUCT_BLOCK };

// An expanded group. quants[b][j] is laid out like plane "bytes" (packed.h) and holds values plus the offset
// of the type.
struct codebook_group {
    _Alignas(64) uint8_t quants[CODEBOOK_BLOCKS][8][64];
    float scales[CODEBOOK_BLOCKS][2][PANEL_OUTPUTS]; // [1]: only for types with two scales a block
};

// Offset that makes the expanded quants unsigned. It is a power of 2, small enough that AVX2's int16 sums of
// several registers do not saturate (product_avx2.h).
enum {
    CODEBOOK_OFFSET_WIDE = 64,   // |value| <= 62: IQ2, IQ3_XXS; span 1, 2 * 126 * 127 = 32004
    CODEBOOK_OFFSET_NARROW = 16, // |value| <= 15: IQ3_S, IQ1; span 4, 4 * 2 * 31 * 127 = 31496
    CODEBOOK_OFFSET_TERNARY = 1, // TQ1_0; span 8
    CODEBOOK_OFFSET_BYTES =
        128, // IQ with AVX512-VBMI: vpdpbusd does not saturate, and prepared rows have the starts for 128
};

// Look-up tables of an expansion. They are built once per product.
struct codebook_tables {
    union {
        _Alignas(64) uint8_t bytes[2][1024];
        uint64_t runs[1024];  // an entry's codes of 8 inputs, a byte each
        uint32_t fours[1024]; // of 4 inputs
    };
};

// Expands a group from its packed scales and quants.
typedef void codebook_expand(const struct codebook_tables *tables, const uint8_t *scales,
                             const uint8_t *quants, struct codebook_group *group);

// Adds to acc[r] the products of n_groups groups with a fixed number of rows. x is the first block of the
// first row; the next group of rows is x_stride blocks further.
typedef void codebook_tile(const struct codebook_group *groups, int n_groups, const struct prepared_block *x,
                           int64_t x_stride, float (*acc)[PANEL_OUTPUTS]);

// Expands and multiplies at once, for all groups of a panel and a few rows. The expanded group is not stored.
typedef void codebook_few(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                          int32_t n_groups, const struct prepared_block *x, float (*acc)[PANEL_OUTPUTS]);

enum { CODEBOOK_ROWS_MAX = 12, CODEBOOK_FEW_ROWS = PREPARED_ROWS };

// Prefetch distance in the quants (product_avx512.h).
enum { CODEBOOK_PREFETCH_BYTES = 4096 };

struct codebook_kernel {
    void (*make_tables)(struct codebook_tables *tables); // NULL: expand needs no tables
    codebook_expand *expand;
    codebook_tile *tiles[CODEBOOK_ROWS_MAX + 1]; // indexed by number of rows: 1 to 8, and n_rows_max
    int32_t n_rows_max;
    codebook_few *const *few; // indexed by number of rows, 1 to CODEBOOK_FEW_ROWS; NULL: none
};

// Computes a product (struct product_kernels) of one of these types: expands groups and runs the tiles of
// `kernel`.
void codebook_product(const struct codebook_kernel *kernel, const struct packed *weight, int32_t panel_begin,
                      int32_t panel_end, const struct prepared *x, int32_t row_begin, int32_t row_end,
                      float *y, int64_t y_stride, const float *bias);

// Set the products of the codebook types, for each instruction set.
void codebook_kernels_plain(struct product_kernels *kernels);
void codebook_kernels_avx2(struct product_kernels *kernels);
void codebook_kernels_avx512(struct product_kernels *kernels);
void codebook_kernels_avx512_vbmi(struct product_kernels *kernels);

// Kernels for AVX512-VBMI (product_avx512_codebook_vbmi.c).
void codebook_tables_iq2_xxs(struct codebook_tables *tables);
void codebook_tables_iq2_xs(struct codebook_tables *tables);
void codebook_tables_iq2_s(struct codebook_tables *tables);
void codebook_tables_iq3_xxs(struct codebook_tables *tables);
void codebook_tables_iq3_s(struct codebook_tables *tables);
void codebook_tables_tq1_0(struct codebook_tables *tables);
codebook_expand codebook_expand_iq2_xxs, codebook_expand_iq2_xs, codebook_expand_iq2_s,
    codebook_expand_iq3_xxs, codebook_expand_iq3_s, codebook_expand_iq1_s, codebook_expand_iq1_m,
    codebook_expand_tq1_0;
extern codebook_few *const codebook_few_iq2_xxs[],
    *const codebook_few_iq2_xs[], *const codebook_few_iq2_s[], *const codebook_few_iq3_xxs[],
                                                                   *const codebook_few_iq3_s[],
                                                                       *const codebook_few_iq1_s[],
                                                                           *const codebook_few_iq1_m[];

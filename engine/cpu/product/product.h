// GEMM of packed weights with the tokens of a step:
//     y[r][o] = sum over k of weight[o][k] * x[r][k] (+ bias[o])
//
// Packed layout: panels of 16 outputs. For each block of 32 inputs, a panel interleaves the quants of its 16
// outputs, so that one vector register holds 4 consecutive inputs of 16 outputs; the blocks' scales are in a
// separate region. Quants have the bits of the file. Float types are stored with 16 outputs per input.
// packed.h draws each type.
//
// The arithmetic is the same in every version of a kernel, for any number of rows and any division of the
// work. For quantized weights x is quantized to int8 in blocks of 32 with a float32 scale (absolute maximum /
// 127, quants rounded to nearest even). For block b in order, with dot the exact integer dot product of the
// quants and w, m the block's scale and minimum, each rounded once to float32 (for a K-quant: d * sub-scale
// and -(d_minimum * sub-minimum)):
//     t = dot * w                                      types with one scale a block
//     t = fma(m, sum of x's quants, dot * w)           with a minimum; U4's is -(d * z)
//     t = fma(dot_1, w_1, dot_0 * w_0)                 with a scale for each half of the block
//     t = fma(m_1, sum_1, fma(m_0, sum_0, previous))   and minima (Q2_K)
//   acc = fma(t, x's scale, acc)
// With activations of 16 bits, a row of x is two such rows: its quants, and the quants of what they leave, x[k] -
// quant * scale, in float32. acc is the sum of the two rows' sums.
//
// For F32, F16 and F8_E4M3 weights x is float32: acc = fma(weight, x, acc), input by input, where a weight of
// F8_E4M3 is its number times the block's scale, rounded once. For BF16 weights x is
// rounded to bfloat16 (nearest even), and subnormal inputs and results are flushed to zero, as in the
// processors' instruction (Intel SDM, VDPBF16PS). At the end y = acc, or acc + bias. If the weight has a
// further scale (struct tensor), acc is multiplied by it first.
#pragma once

#include "engine/file/tensor.h"
#include "schemas/base/pool.h"

#include <stdbool.h>
#include <stdint.h>

enum { PANEL_OUTPUTS = 16, PRODUCT_BLOCK = 32 };

// Blocks of x with a smaller absolute maximum are set to zero: 127 / maximum must be finite.
#define PRODUCT_SMALLEST 0x1p-100f

struct memory_stack;
struct packed; // a weight, or the weight of one expert

struct packed_shape {
    enum tensor_type type; // packed type; it selects the kernel
    int32_t n_outputs, n_inputs;
};

// Forms of x. The weight type determines which form a GEMM reads.
enum product_form {
    PRODUCT_QUANTS = 1,
    PRODUCT_FLOATS = 2,
    PRODUCT_BFLOATS = 4,
};

// x is stored in groups of 4 rows, which kernels process together. Padding rows of the last group are
// undefined.
enum { PREPARED_ROWS = 4 };

// Maximum number of int8 rows per row of x: one for activations of 8 bits, two for 16.
enum { PREPARED_PARTS_MAX = 2 };

// A block of 32 inputs of 4 rows. If a row's block has an infinity or a NaN, its scale is NaN and its quants
// are 0. float_sums, starts and half_starts repeat the sums in other formats. AVX2 and AVX-512 set float_sums,
// only AVX-512 sets the others.
struct prepared_block {
    int8_t quants[PREPARED_ROWS][PRODUCT_BLOCK];
    float scales[PREPARED_ROWS];
    int32_t minus_sums[PREPARED_ROWS];         // minus the sum of the quants: corrects a weight offset of 1
    float float_sums[PREPARED_ROWS];           // minus_sums
    int32_t starts[PREPARED_ROWS];             // 128 * minus_sums, in the sum format of product_avx512_fold.h
    int32_t minus_half_sums[2][PREPARED_ROWS]; // minus the sums of the first and of the last 16 quants
    int32_t half_starts[2][PREPARED_ROWS];     // 128 * minus_half_sums, in the same format
};

// A block of 32 inputs of 16 rows, for kernels that multiply tiles. Rows that do not exist are zeros.
enum { TILE_ROWS = 16 };
struct prepared_tile {
    int8_t quants[TILE_ROWS][PRODUCT_BLOCK];
    float scales[TILE_ROWS];
    float minus_sums[TILE_ROWS];
};

// x converted for GEMMs (the activation operand). Memory is reserved once, for n_rows_max x n_inputs_max.
// Only memory of the forms in use is touched.
struct prepared {
    int32_t n_rows, n_inputs;
    int n_parts;                   // int8 parts per row: part p of row r is row n_parts * r + p of `blocks`
    int32_t n_blocks;              // blocks of PRODUCT_BLOCK inputs; the last one is padded with zeros
    unsigned forms;                // bits of enum product_form: the forms that are set
    struct prepared_block *blocks; // [groups, n_blocks], aligned to 64 bytes
    float *floats;                 // [groups, n_blocks * 32, 4]
    uint32_t *bfloats; // [groups, n_blocks * 16, 4]: pairs, the first in the upper half; or, for kernels with
                       // bfloats_apart, [groups, n_blocks * 32, 4]: each as a float
    struct prepared_tile *tiles; // [tiles of rows, n_blocks]: the rows of `blocks` again; set if has_tiles
    bool has_tiles;
    int32_t n_rows_max, n_inputs_max;
    void *memory;
    float *sums; // [n_threads, PART_SUMS] sums of the parts' rows; NULL: one part
};

struct product_kernels {
    // Quantizes n_rows rows of n inputs, which form a group.
    void (*quantize)(const float *x, int64_t stride, int32_t n_rows, int32_t n,
                     struct prepared_block *blocks);
    // Rounds one row and stores it as row `lane` of its group.
    void (*round_bfloats)(const float *x, int32_t n, int lane, uint32_t *bfloats);
    int32_t tile_rows_least; // from this number of rows on products read x's tiles; 0: never
    bool bfloats_apart; // the format of bfloats (struct prepared) that round_bfloats and the BF16 product use
    // Kernels by type. Each computes outputs [panel_begin, panel_end) x 16 for rows [row_begin, row_end);
    // row_begin is a multiple of PREPARED_ROWS. NULL: no kernel exists.
    void (*product[TENSOR_TYPE_COUNT])(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                                       const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                                       int64_t y_stride, const float *bias);
};

// Each function fills in the kernels of one level. The processor must have these features: for avx2 avx2,
// fma, f16c; for avxvnni also avxvnni; for avx512 avx512f, bw, dq, vl, vnni (bfloat16 instructions are
// detected); for amx these, amx_tile and amx_int8, permitted by the kernel; for neon asimddp; for i8mm asimddp, i8mm. Plain C exists everywhere, the others on their
// architecture.
void product_kernels_plain(struct product_kernels *kernels);
void product_kernels_avx2(struct product_kernels *kernels);
void product_kernels_avxvnni(struct product_kernels *kernels);
void product_kernels_avx512(struct product_kernels *kernels);
void product_kernels_amx(struct product_kernels *kernels);
void product_kernels_neon(struct product_kernels *kernels);
void product_kernels_i8mm(struct product_kernels *kernels);

// Tiles of the AVX-512 kernels for many rows, by kind of processor. They were chosen by measurement
// (product_avx512.c has the table, ops/bench the figures). The result does not depend on them.
enum product_tiles {
    PRODUCT_TILES_OTHER, // measured on AMD Zen 4 and on Intel processors with two VNNI ports
    PRODUCT_TILES_ZEN5,  // AMD processors with 512-bit vector paths
    PRODUCT_TILES_COUNT
};

// For tests on processors with other features: the AVX-512 kernels without bfloat16 instructions and VBMI,
// with the tiles of PRODUCT_TILES_OTHER; the BF16 kernel that uses bfloat16 instructions; the kernels with
// the tiles of one kind.
void product_kernels_avxvnni_as_avx512(
    struct product_kernels *kernels); // of avxvnni, with avx512vl, avx512vnni
void product_kernels_avx512_least(struct product_kernels *kernels);
void product_kernels_avx512_bf16(struct product_kernels *kernels);
void product_kernels_avx512_tiles(struct product_kernels *kernels, enum product_tiles tiles);

// Packs a [n_rows outputs, n_cols inputs] matrix on the pool. The tensor's bytes are not needed afterwards.
// The packed bytes belong to the stack and stay allocated when the weight is destroyed. Errors:
// ERROR_OUT_OF_MEMORY, ERROR_UNKNOWN_TYPE.
enum status packed_create(struct packed **packed, const struct tensor *tensor, struct memory_stack *memory,
                          struct pool *pool, struct error *error) WARN_UNUSED;
void packed_destroy(struct packed *packed);
struct packed_shape packed_shape(const struct packed *packed);
uint64_t packed_bytes(const struct packed *packed);
// Returns the order of the tensor's columns, which must outlive the weight: item i of x must come from column
// order[i]. NULL: item i comes from column i.
const int32_t *packed_order(const struct packed *packed);
unsigned packed_form(const struct packed *packed); // the enum product_form that its products read

// n_parts is 1 for activations of 8 bits, 2 for 16. n_threads is the number of threads of the pool that
// computes with x.
enum status prepared_create(struct prepared *prepared, int32_t n_rows_max, int32_t n_inputs_max, int n_parts,
                            int n_threads, struct error *error) WARN_UNUSED;
void prepared_finish(struct prepared *prepared);
// Converts x [n_rows, stride] to `forms`, the forms of all GEMMs ored together. The pool's threads divide the
// rows.
void prepared_set(struct prepared *prepared, const struct product_kernels *kernels, struct pool *pool,
                  const float *x, int64_t stride, int32_t n_rows, int32_t n_inputs, unsigned forms);

// One GEMM of a group that shares x.
struct product_task {
    const struct packed *weight;
    const float *bias; // [n_outputs] or NULL
    float *y;
    int64_t y_stride;
};

enum { PRODUCT_TASKS_MAX = 4 };

// Runs the group on the pool: work is divided into pieces of panels and rows, sized to the caches.
void product_run(const struct product_kernels *kernels, struct pool *pool, const struct product_task *tasks,
                 int n, const struct prepared *x);

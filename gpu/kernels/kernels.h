// Launches of the GEMM kernels (others: gpu/kernels/kernels_*.h). Plain C, no CUDA header: `stream` is
// device_stream's, pointers are device memory. A launch is asynchronous; a failure is reported when the
// host waits for the device. Structs are read before the call returns.
//
// Matrices are float32 [n_rows, stride], row-major; addresses and strides are multiples of 16 bytes (4
// floats).
//
// The kernels are batch-invariant (engine/backend.h): a row's result is the same whether n_rows selects the
// skinny GEMM or the tiled one.
#pragma once

#include "engine/model/model.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define KERNEL_INLINE __host__ __device__ inline
#else
#define KERNEL_INLINE inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- Activation operand: x in the layout of the GEMMs ---
//
// 16-bit items [n_steps of 32 inputs][n_rows][4 lanes][8 items]: lane t of step s holds inputs 128 (s / 4) +
// 32 t + 8 (s % 4) + 0..7, one load of 16 bytes per lane; inputs are padded with zeros to a multiple of 128.
// `scales` [n_rows] multiply the row's sums:
//   OPERAND_HALF    binary16 of x / scale; scale is the power of 2 that moves the row's largest item to
//                   [2^14, 2^15): nothing overflows, and items down to 2^-28 of the largest have all 11 bits
//   OPERAND_BFLOAT  bfloat16 of x, scale 1
//
// A row with an infinity or NaN has scale NaN and zeros. If `scale` is set, it is the scale of all rows, and
// is known before their items are. Then an item is clamped to the form's largest number; an infinity or NaN
// becomes NaN, and so do the row's sums.
//
// Swizzled, for wgmma: [halves of a group: 64 inputs][swizzled_rows(n_rows)][8 pieces of 16 bytes].
//   place    piece p of row r is stored at piece p ^ (r % 8). So 8 rows are the 1024 bytes that wgmma reads
//            with the 128-byte swizzle.
//   content  piece p = 2 (f % 4) + h has inputs 32 t + 4 f + 2 h and the next one, for t = 0..3. Fragment f
//            is 0..3 in the first half, 4..7 in the second. Register a[2 h] of lane t multiplies these two
//            inputs (gpu/kernels/tiles.h). They are items 2 t + 8 h and the next one of the fragment.

enum activation_operand_form { OPERAND_HALF, OPERAND_BFLOAT };

enum {
    OPERAND_ALIGNMENT = 128, // inputs
    SWIZZLED_ROWS = 8,
    SWIZZLED_ROW_BYTES = 128,
};

struct activation_operand {
    enum activation_operand_form form;
    int32_t n_rows, n_inputs;
    void *items;   // activation_operand_bytes
    float *scales; // [n_rows]; not used if `scale` is set
    bool swizzled;
    float scale; // scale of all rows, a power of 2; 0: each row has its own
};

// Number of rows of a swizzled operand, including padding to a multiple of 8. Padding rows are never written.
static KERNEL_INLINE int32_t swizzled_rows(int32_t n_rows)
{
    return (n_rows + SWIZZLED_ROWS - 1) / SWIZZLED_ROWS * SWIZZLED_ROWS;
}

// Size of the operand in the larger one of both layouts.
static inline uint64_t activation_operand_bytes(int32_t n_rows, int32_t n_inputs)
{
    uint64_t filled = ((uint64_t)n_inputs + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * OPERAND_ALIGNMENT;
    return (uint64_t)swizzled_rows(n_rows) * filled * 2;
}

// Size of the operand in its own layout.
static inline uint64_t activation_operand_size(const struct activation_operand *operand)
{
    uint64_t all = activation_operand_bytes(operand->n_rows, operand->n_inputs);
    return operand->swizzled ? all
                             : all / (uint64_t)swizzled_rows(operand->n_rows) * (uint64_t)operand->n_rows;
}

struct activation_operand_launch {
    struct activation_operand out;
    const float *x;
    int64_t x_stride;
    // Gather: row i of the operand is row rows[i] / rows_divisor of x. The rows are pairs of row and expert,
    // sorted by expert. NULL: row i.
    const int32_t *rows;
    int32_t rows_divisor;
    const float *weights; // by number of the pair, rows[i]: multiply its row; NULL: none
    // For one GEMM per head; otherwise 0. Row h * head_rows + r of the operand is read x_head_step * h floats
    // after row r of x.
    int32_t head_rows, x_head_step;
};

void launch_activation_operand(void *stream, const struct activation_operand_launch *operand);

// The operand of the next GEMM, written by the launch that computes the x of that GEMM. If all rows have one
// scale (product_next_scale), each block writes its items to the operand instead of x. Otherwise the scale of
// a row depends on all its items, so the block that stores the last item converts the row.
struct next_operand {
    struct activation_operand out; // .items NULL: none
    int32_t *arrivals;             // [rows] zeros before and after the launch; unused with out.scale
};

// --- GEMM ---
//
// y[r][o] = sum over k of weight[o][k] x[r][k] (+ bias[o]), on the tensor cores in binary16 (bfloat16 for
// BF16 weights, plain float32 for F32), accumulated in float32. The order of summation is the same in every
// kernel and for every n_rows:
//   weights    are dequantized to binary16 as in gpu/kernels/tile_group.h; x is the activation operand above
//   fragments  of 16 inputs (gpu/kernels/tiles.h), in order: acc = acc + the exact products of 16 inputs,
//              added by one tensor core instruction, which is independent of other outputs and rows
//   split-K    chunks of SPLIT_K_INPUTS inputs: each starts with acc 0; the partial sums are added in order,
//              starting from 0
//   epilogue   result = total * the row's scale * the matrix's factor + bias
//              default  y = result
//              `add`    y = fma(factor, result, y)
//              `gated`  y = activation(result) * the other part's result at the same output, with the same
//                       bits as two GEMMs and launch_activate
//
// F32: see gpu/kernels/product_float.cu.

enum {
    SPLIT_K_INPUTS = 512,
    PRODUCT_PARTS_MAX = 4,
    // The smallest shared memory of compute capabilities from 8.0 on: 8.6, 8.9 and 12.0 have it.
    PRODUCT_SHARED_BYTES_LEAST = 99 << 10,
    PRODUCT_SHARED_BYTES_WGMMA = 227 << 10,   // compute capability 9.0
    WGMMA_ROWS_LEAST = 17,                    // for fewer rows the skinny GEMM is used
    PRODUCT_PARTIAL_TILE_BYTES = 64 * 64 * 4, // 64 outputs x 64 rows: the largest divided tile
    SKINNY_ROWS_ONE_COLUMN = 8,               // skinny GEMM with one column of mma fragments
    SKINNY_ROWS_MAX = 16,                     // two columns; wgmma or the tiled GEMM for more rows
    // Limit of the float32 bytes that one block converts to the next operand: at 64 bytes per cycle and
    // multiprocessor 1,024 cycles, about the time of a launch.
    PRODUCT_NEXT_BYTES = 64 << 10,
    // Bytes of x in a group of row tiles: a third of the 50 MB of second-level cache of compute capability
    // 9.0, because both halves of the cache may hold the same line.
    PRODUCT_GROUP_BYTES = 16 << 20,
};

struct product_part {
    const void *tiles; // gpu/kernels/tiles.h; experts are contiguous
    const float *bias; // [n_outputs] (experts: [n_experts, n_outputs]) or NULL
    float *y;
    int64_t y_stride;
    int32_t n_outputs;
    const float *factors; // [n_experts or 1] multiply the products of each matrix; NULL: 1
};

// One GEMM per head; n_rows is 0 otherwise. Matrix h of n_experts multiplies rows [h * n_rows, (h + 1) *
// n_rows) of the operand. Its result for row r is stored y_step * h floats after row r of y. F32 weights read
// x_step * h floats after row r of `floats`.
struct product_heads {
    int32_t n_rows, x_step, y_step;
};

// x for F32 weights, which need no conversion. Rows are gathered as in activation_operand_launch.
struct product_floats {
    const float *items;
    int64_t stride;
    const int32_t *rows;
    int32_t rows_divisor;
    const float *weights;
};

// Memory for the sums of the two blocks that compute one wgmma tile (gpu/kernels/gemm_wgmma.h).
struct product_partials {
    float *sums;       // product_partial_bytes; NULL: none
    int32_t *arrivals; // [product_partial_tiles] zeros before and after the launch
    uint64_t size_bytes;
};

struct product_device {
    uint64_t shared_bytes_max; // shared memory per block, at least PRODUCT_SHARED_BYTES_LEAST
    int32_t n_multiprocessors; // to distribute the work; 0: unknown
    struct product_partials partials;
};

// Tiles of wgmma, named outputs x rows. Every tile gives the same bytes (above). Which is fastest depends on the device,
// the matrix and the number of rows; gpu/tile_choice.h measures it.
enum wgmma_tile {
    WGMMA_BY_ROWS, // not measured: 64 outputs, of more than 128 rows 128
    WGMMA_64X32,
    WGMMA_256X32,
    WGMMA_64X64,
    WGMMA_256X64,
    WGMMA_256X96,
    WGMMA_64X128,
    WGMMA_128X128,
    WGMMA_192X128,
    WGMMA_TILE_COUNT
};

// How a GEMM's outputs and rows are divided among blocks. Only wgmma has a choice.
struct product_tiling {
    enum wgmma_tile tile;
    bool divided; // two blocks compute a tile
};

enum { PRODUCT_TILINGS_MAX = 8 };

// GEMMs of the same x with weights of one type.
struct product_launch {
    enum tensor_type type; // the type of all tiles
    int32_t n_parts;
    struct product_part parts[PRODUCT_PARTS_MAX];
    // The form of x: OPERAND_BFLOAT for BF16 weights, OPERAND_HALF for others. F32 uses only its sizes.
    struct activation_operand x;
    struct product_floats floats; // used by F32 weights
    bool add;                     // y += factor * result, else y = result
    float factor;
    // Two parts with the same n_outputs. The result of the first part is y = activation(gate) * up; y of the
    // second part is not written. Not allowed for F32.
    bool gated;
    enum activation_kind activation;
    float gated_scale; // power of 2: |gated results| < 2^15 times it (gpu/output_bound.h); 0: unknown
    // Grouped GEMM over experts; otherwise n_experts is 0. Rows [expert_first[e], expert_first[e + 1]) of x
    // are multiplied by matrix e. The result of row i is row expert_order[i] of y (NULL: i).
    int32_t n_experts;
    const int32_t *expert_first, *expert_order;
    struct product_heads heads;
    // The operand made of the gated results. Row i is the result of row i of x.
    struct next_operand next;
    struct product_tiling tiling;
    struct product_device device;
};

// True if a GEMM uses wgmma: its operand must then be swizzled, and must not be otherwise.
static inline bool product_is_wgmma(bool has_wgmma, uint64_t shared_bytes_max, int32_t n_rows,
                                    int32_t n_experts)
{
    return has_wgmma && shared_bytes_max >= PRODUCT_SHARED_BYTES_WGMMA && n_rows >= WGMMA_ROWS_LEAST &&
           n_experts == 0;
}

// Mean number of rows per matrix, rounded up.
static inline int32_t product_rows_each(const struct product_launch *product)
{
    int32_t n = product->n_experts > 0 ? product->n_experts : 1;
    return (product->x.n_rows + n - 1) / n;
}

// Scale of all rows of the operand that a gated GEMM writes for the next GEMM. It depends on the weights
// alone, so it is the same for any number of rows. 0: no such scale exists, or the outputs are not whole
// groups of inputs.
static inline float product_next_scale(const struct product_launch *product,
                                       enum activation_operand_form form)
{
    if (!product->gated || product->parts[0].n_outputs % OPERAND_ALIGNMENT != 0)
        return 0.0f;
    return form == OPERAND_BFLOAT ? 1.0f : product->gated_scale;
}

// True if a gated GEMM without such a scale converts its rows to the next operand. The last block of a row
// tile converts the whole tile, so this pays only for few rows. Many rows are converted faster by a separate
// launch with one block per row.
static inline bool product_converts_next(const struct product_launch *product)
{
    if (product->x.swizzled)
        return false;
    int32_t n_each = product_rows_each(product), tokens = product->x.n_rows / product->floats.rows_divisor,
            n_tile = n_each <= SKINNY_ROWS_ONE_COLUMN ? SKINNY_ROWS_ONE_COLUMN : SKINNY_ROWS_MAX,
            n_most = tokens < n_tile ? tokens : n_tile;
    return product->gated && n_each <= SKINNY_ROWS_MAX &&
           (int64_t)n_most * product->parts[0].n_outputs * 4 <= PRODUCT_NEXT_BYTES;
}

// Order of the blocks of a wgmma GEMM. Row tiles form groups whose x fits in the second-level cache. Within a
// group the order is by tile of outputs, then by row tile. So weights are read from device memory once per
// group, and x once.
//
//   groups of 2 row tiles, 3 tiles of outputs (o), 4 row tiles (r):
//   o0r0 o0r1 o1r0 o1r1 o2r0 o2r1 | o0r2 o0r3 o1r2 o1r3 o2r2 o2r3
struct product_place {
    int32_t outputs, rows; // indices of tiles; outputs < 0: no tile
};

static KERNEL_INLINE struct product_place product_place_of(int64_t block, int32_t n_output_tiles,
                                                           int32_t n_row_tiles, int32_t n_group_tiles)
{
    struct product_place place = {-1, 0};
    if (block >= (int64_t)n_output_tiles * n_row_tiles)
        return place;
    int32_t at = (int32_t)block, before = at / (n_group_tiles * n_output_tiles) * n_group_tiles;
    int32_t left = n_row_tiles - before, n = left < n_group_tiles ? left : n_group_tiles;
    at -= before * n_output_tiles;
    place.outputs = at / n;
    place.rows = before + at % n;
    return place;
}

// Number of row tiles per group.
static KERNEL_INLINE int32_t product_group_tiles(int32_t tile_rows, int32_t n_inputs, int32_t n_row_tiles)
{
    int32_t n = PRODUCT_GROUP_BYTES / 2 / tile_rows / n_inputs;
    return n < 1 ? 1 : n < n_row_tiles ? n : n_row_tiles;
}

// The largest number of tiles for which a launch leaves half of the multiprocessors without a block.
static inline int32_t product_partial_tiles(int32_t n_multiprocessors)
{
    return n_multiprocessors / 2;
}

// Bytes for the sums of that many tiles: the totals of the first block, and the partial sums of each chunk of
// the second block, which has at most half of the chunks.
static inline uint64_t product_partial_bytes(int32_t n_multiprocessors, int32_t n_inputs)
{
    uint64_t n_chunks = ((uint64_t)n_inputs + SPLIT_K_INPUTS - 1) / SPLIT_K_INPUTS;
    return (uint64_t)product_partial_tiles(n_multiprocessors) * (1 + n_chunks / 2) *
           PRODUCT_PARTIAL_TILE_BYTES;
}

// Lists the tilings that the GEMM may be launched with, the first of which WGMMA_BY_ROWS means. Returns their number; 0:
// there is no choice. A pair of types (launch_products) ignores the tiling.
int32_t product_tilings(const struct product_launch *product, struct product_tiling out[PRODUCT_TILINGS_MAX]);
void launch_product(void *stream, const struct product_launch *product);
// GEMMs of the same x that differ only in type, parts and form of the operand. Two of them become one launch
// if there is a kernel for both types: Q6_K with Q4_K or Q5_K, for up to 16 rows or by wgmma.
void launch_products(void *stream, const struct product_launch *products, int32_t n);

#ifdef __cplusplus
}
#endif

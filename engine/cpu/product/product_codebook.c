// Codebook types: divides a product into groups of inputs and tiles of rows, for every instruction set. Also
// contains the kernels in plain C.
#include "engine/cpu/product/codebook.h"

#include "engine/file/dequantize.h"

#include <math.h>
#include <string.h>

// Number of groups expanded at a time (5 KiB each), and number of rows that share an expansion. The groups
// and x of these rows stay in L1.
enum { CHUNK_GROUPS = 2, CHUNK_ROWS = 192 };

struct codebook_chunk {
    struct codebook_group groups[CHUNK_GROUPS];
    float acc[CHUNK_ROWS][PANEL_OUTPUTS];
};

// Returns the number of rows of the next tile, when n rows are left (tile_rows in product_avx512_fold.h).
static int32_t rows_of_tile(int32_t n, int32_t n_max)
{
    if (n <= 8)
        return n < n_max ? n : n_max;
    if (n >= n_max + 4 || n == n_max)
        return n_max;
    return n > 12 ? 8 : 4;
}

static void add_groups(const struct codebook_kernel *kernel, struct codebook_chunk *chunk, int n_groups,
                       const struct prepared_block *x, int64_t x_stride, int32_t n_rows)
{
    for (int32_t row = 0, n; row < n_rows; row += n) {
        n = rows_of_tile(n_rows - row, kernel->n_rows_max);
        kernel->tiles[n](chunk->groups, n_groups, x + row / PREPARED_ROWS * x_stride, x_stride,
                         chunk->acc + row);
    }
}

static void prefetch(const uint8_t *bytes, int n)
{
    for (int line = 0; line < n; line += 64)
        __builtin_prefetch(bytes + line);
}

static void store_rows(const struct packed *weight, int32_t panel, const struct codebook_chunk *chunk,
                       int32_t n_rows, float *y, int64_t y_stride, const float *bias)
{
    int32_t first = panel * PANEL_OUTPUTS, n = weight->shape.n_outputs - first;
    n = n < PANEL_OUTPUTS ? n : PANEL_OUTPUTS;
    for (int32_t r = 0; r < n_rows; r++)
        for (int32_t o = 0; o < n; o++)
            y[r * y_stride + first + o] = bias ? chunk->acc[r][o] + bias[first + o] : chunk->acc[r][o];
}

void codebook_product(const struct codebook_kernel *kernel, const struct packed *weight, int32_t panel_begin,
                      int32_t panel_end, const struct prepared *x, int32_t row_begin, int32_t row_end,
                      float *y, int64_t y_stride, const float *bias)
{
    const struct packed_format format = packed_format(weight->shape.type);
    const int quant_bytes = format.block_quant_bytes * CODEBOOK_BLOCKS;
    const int32_t n_groups = weight->n_blocks / CODEBOOK_BLOCKS;
    struct codebook_chunk chunk;
    struct codebook_tables tables;
    if (kernel->make_tables)
        kernel->make_tables(&tables);
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        for (int32_t row = row_begin, n_rows; row < row_end; row += n_rows) {
            n_rows = row_end - row < CHUNK_ROWS ? row_end - row : CHUNK_ROWS;
            const struct prepared_block *blocks = x->blocks + (int64_t)(row / PREPARED_ROWS) * x->n_blocks;
            const uint8_t *scales = packed_scales(weight, panel), *quants = packed_quants(weight, panel);
            memset(chunk.acc, 0, (size_t)n_rows * sizeof *chunk.acc);
            const bool few = kernel->few && n_rows <= CODEBOOK_FEW_ROWS;
            if (few)
                kernel->few[n_rows](&tables, scales, quants, n_groups, blocks, chunk.acc);
            for (int32_t group = 0; group < n_groups && !few; group += CHUNK_GROUPS) {
                int n = n_groups - group < CHUNK_GROUPS ? n_groups - group : CHUNK_GROUPS;
                for (int g = 0; g < n; g++, scales += format.group_scale_bytes, quants += quant_bytes) {
                    prefetch(quants + CODEBOOK_PREFETCH_BYTES, quant_bytes + format.group_scale_bytes);
                    kernel->expand(&tables, scales, quants, &chunk.groups[g]);
                }
                add_groups(kernel, &chunk, n, blocks + (int64_t)group * CODEBOOK_BLOCKS, x->n_blocks, n_rows);
            }
            store_rows(weight, panel, &chunk, n_rows, y + (int64_t)row * y_stride, y_stride, bias);
        }
    }
}

// ---- plain C ----

struct words {
    uint32_t at[PANEL_OUTPUTS];
};

#define LANES(expression)                                                                                    \
    struct words result;                                                                                     \
    for (int o = 0; o < PANEL_OUTPUTS; o++)                                                                  \
        result.at[o] = expression;                                                                           \
    return result

static inline struct words words_load(const uint8_t *bytes)
{
    struct words result;
    memcpy(&result, bytes, sizeof result);
    return result;
}

static inline struct words words_load_u16(const uint8_t *bytes)
{
    LANES((uint32_t)bytes[2 * o] | (uint32_t)bytes[2 * o + 1] << 8);
}

static inline void words_store(uint8_t *bytes, struct words x)
{
    memcpy(bytes, &x, sizeof x);
}

static inline struct words words_nibbles(const uint8_t *bytes)
{
    LANES((uint32_t)(bytes[o / 2] >> (o % 2 * 4) & 15));
}

static inline struct words words_set(uint32_t x)
{
    LANES(x);
}

static inline struct words words_and(struct words a, struct words b)
{
    LANES(a.at[o] & b.at[o]);
}

static inline struct words words_or(struct words a, struct words b)
{
    LANES(a.at[o] | b.at[o]);
}

static inline struct words words_add(struct words a, struct words b)
{
    LANES(a.at[o] + b.at[o]);
}

static inline struct words words_left(struct words x, int n)
{
    LANES(x.at[o] << n);
}

static inline struct words words_right(struct words x, int n)
{
    LANES(x.at[o] >> n);
}

static inline struct words words_repeat(struct words x)
{
    LANES((x.at[o] & 0xFF) * 0x01010101u);
}

static inline struct words words_bits(const uint8_t *bytes, int shift)
{
    struct words x = words_nibbles(bytes);
    LANES(((x.at[o] * 0x00204081u) & 0x01010101u) << shift);
}

static inline struct words words_map(const uint8_t table[16], struct words x)
{
    LANES(table[x.at[o] & 15] | (uint32_t)table[x.at[o] >> 8 & 15] << 8 |
          (uint32_t)table[x.at[o] >> 16 & 15] << 16 | (uint32_t)table[x.at[o] >> 24 & 15] << 24);
}

static inline struct words words_look_up(const uint16_t *codebook, struct words x)
{
    LANES(codebook[x.at[o]]);
}

static inline void words_scales(const uint8_t *halves, struct words x, float unit, float out[PANEL_OUTPUTS])
{
    for (int o = 0; o < PANEL_OUTPUTS; o++) {
        uint16_t half;
        memcpy(&half, halves + 2 * o, 2);
        out[o] = half_to_float(half) * (float)x.at[o] * unit;
    }
}

#include "engine/cpu/product/codebook_body.h"

static int32_t dot_half(const struct codebook_group *group, int b, int h, int o, int offset,
                        const int8_t quants[PRODUCT_BLOCK])
{
    int32_t sum = 0;
    for (int i = h * PRODUCT_BLOCK / 2; i < (h + 1) * PRODUCT_BLOCK / 2; i++)
        sum += (group->quants[b][i / 4][4 * o + i % 4] - offset) * quants[i];
    return sum;
}

static void block_add(int offset, bool halves, const struct codebook_group *group, int b,
                      const struct prepared_block *x, int lane, float acc[PANEL_OUTPUTS])
{
    for (int o = 0; o < PANEL_OUTPUTS; o++) {
        int32_t dot_0 = dot_half(group, b, 0, o, offset, x->quants[lane]);
        int32_t dot_1 = dot_half(group, b, 1, o, offset, x->quants[lane]);
        float w_0 = group->scales[b][0][o];
        float t = halves ? fmaf((float)dot_1, group->scales[b][1][o], (float)dot_0 * w_0)
                         : (float)(dot_0 + dot_1) * w_0;
        acc[o] = fmaf(t, x->scales[lane], acc[o]);
    }
}

static void tile_run(int offset, bool halves, int n_rows, const struct codebook_group *groups, int n_groups,
                     const struct prepared_block *x, float (*acc)[PANEL_OUTPUTS])
{
    for (int g = 0; g < n_groups; g++)
        for (int b = 0; b < CODEBOOK_BLOCKS; b++, x++)
            for (int r = 0; r < n_rows; r++)
                block_add(offset, halves, &groups[g], b, x, r, acc[r]);
}

#define CODE_TABLES(type) NULL
#include "engine/cpu/product/codebook_kernels.h"

void codebook_kernels_plain(struct product_kernels *kernels)
{
    codebook_kernels_set(kernels);
}

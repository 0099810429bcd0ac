// AVX-512 products of BF16 weights without bfloat16 instructions. x is rounded to bfloat16 and stored with
// each item as a float (struct prepared, bfloats_apart), so that only the weights are widened, once for up to
// 12 rows.
#include "engine/cpu/product/product_avx512.h"

enum { ROWS_MAX = 12 };

struct operands {
    const uint8_t *weights;
    const float *x; // group of the first row
    int64_t x_group_items;
    int32_t n_pairs;
};

ALWAYS_INLINE void tile_add(const int n_rows, const struct operands *operands, __m512 out[ROWS_MAX])
{
    const uint8_t *weights = operands->weights;
    const float *x[3] = {NULL};
    __m512 acc[ROWS_MAX];
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = operands->x + g * operands->x_group_items;
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (int32_t k = 0; k < operands->n_pairs; k++, weights += 64) {
        _mm_prefetch((const char *)weights + PREFETCH_BYTES, _MM_HINT_T0);
        __m512i pairs = _mm512_load_si512(weights);
        const __m512 w[2] = {_mm512_castsi512_ps(
                                 _mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xFFFF0000u))),
                             _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))};
        UNROLL
        for (int i = 0; i < 2; i++) {
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                const float *item = x[r / PREPARED_ROWS] + i * PREPARED_ROWS + r % PREPARED_ROWS;
                acc[r] = _mm512_fmadd_ps(w[i], _mm512_set1_ps(*item), acc[r]);
            }
        }
        UNROLL
        for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
            x[g] += 2 * PREPARED_ROWS;
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        out[r] = acc[r];
}

typedef void tile_add_function(const struct operands *operands, __m512 out[ROWS_MAX]);

#define ROWS(n)                                                                                              \
    static void add_##n(const struct operands *operands, __m512 out[ROWS_MAX])                               \
    {                                                                                                        \
        tile_add(n, operands, out);                                                                          \
    }
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)
ROWS(7)
ROWS(8)
ROWS(12)

static void product_panel(const struct packed *weight, int32_t panel, const struct prepared *x,
                          int32_t row_begin, int32_t row_end, float *y, int64_t y_stride, const float *bias)
{
    static tile_add_function *const tiles[ROWS_MAX + 1] = {[1] = add_1, add_2, add_3, add_4,        add_5,
                                                           add_6,       add_7, add_8, [12] = add_12};
    struct operands operands = {.weights = packed_quants(weight, panel),
                                .x_group_items = (int64_t)x->n_blocks * PRODUCT_BLOCK * PREPARED_ROWS,
                                .n_pairs = (x->n_inputs + 1) / 2};
    int32_t first = panel * PANEL_OUTPUTS, n_outputs = weight->shape.n_outputs - first;
    __mmask16 outputs = (__mmask16)(n_outputs < PANEL_OUTPUTS ? (1u << n_outputs) - 1 : 0xFFFFu);
    __m512 added = bias ? _mm512_maskz_loadu_ps(outputs, bias + first) : _mm512_setzero_ps();
    for (int32_t row = row_begin, n; row < row_end; row += n) {
        __m512 acc[ROWS_MAX];
        n = tile_rows(row_end - row, ROWS_MAX);
        operands.x = (const float *)(const void *)x->bfloats + row / PREPARED_ROWS * operands.x_group_items;
        tiles[n](&operands, acc);
        for (int32_t r = 0; r < n; r++)
            _mm512_mask_storeu_ps(y + (row + r) * y_stride + first, outputs,
                                  bias ? _mm512_add_ps(acc[r], added) : acc[r]);
    }
}

// BF16 products treat subnormals as zero (product.h), so this sets the MXCSR modes that bfloat16 instructions
// imply.
void product_avx512_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias)
{
    enum { FLUSH_TO_ZERO = 0x8000, SUBNORMALS_ARE_ZERO = 0x0040 };
    unsigned modes = _mm_getcsr();
    _mm_setcsr(modes | FLUSH_TO_ZERO | SUBNORMALS_ARE_ZERO);
    for (int32_t panel = panel_begin; panel < panel_end; panel++)
        product_panel(weight, panel, x, row_begin, row_end, y, y_stride, bias);
    _mm_setcsr(modes);
}

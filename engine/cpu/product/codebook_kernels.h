// The codebook kernels for instruction sets with tiles of up to 4 rows. The includer defines tile_run, the
// expansions (codebook_body.h) and CODE_TABLES(type), the function that makes a type's tables of codes, or NULL.
#pragma once

#include "engine/cpu/product/codebook.h"

#define TILE(name, offset, halves, rows)                                                                     \
    static void name##_##rows(const struct codebook_group *groups, int n_groups,                             \
                              const struct prepared_block *x, int64_t x_stride, float(*acc)[PANEL_OUTPUTS])  \
    {                                                                                                        \
        tile_run(offset, halves, rows, groups, n_groups, x, acc);                                            \
    }
#define TILES(name, offset, halves)                                                                          \
    TILE(name, offset, halves, 1)                                                                            \
    TILE(name, offset, halves, 2) TILE(name, offset, halves, 3) TILE(name, offset, halves, 4)

TILES(wide, CODEBOOK_OFFSET_WIDE, false)
TILES(wide_halves, CODEBOOK_OFFSET_WIDE, true)
TILES(narrow, CODEBOOK_OFFSET_NARROW, false)
TILES(narrow_halves, CODEBOOK_OFFSET_NARROW, true)
TILES(ternary, CODEBOOK_OFFSET_TERNARY, false)

#define KERNEL(type, name, tables)                                                                           \
    static void product_##type(const struct packed *weight, int32_t panel_begin, int32_t panel_end,          \
                               const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,       \
                               int64_t y_stride, const float *bias)                                          \
    {                                                                                                        \
        static const struct codebook_kernel kernel = {                                                       \
            tables, expand_##type, {NULL, name##_1, name##_2, name##_3, name##_4}, 4};                       \
        codebook_product(&kernel, weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias); \
    }

KERNEL(iq2_xxs, wide, CODE_TABLES(iq2_xxs))
KERNEL(iq2_xs, wide_halves, CODE_TABLES(iq2_xs))
KERNEL(iq2_s, wide_halves, CODE_TABLES(iq2_s))
KERNEL(iq3_xxs, wide, CODE_TABLES(iq3_xxs))
KERNEL(iq3_s, narrow, CODE_TABLES(iq3_s))
KERNEL(iq1_s, narrow, NULL)
KERNEL(iq1_m, narrow_halves, NULL)
KERNEL(tq1_0, ternary, NULL)

static void codebook_kernels_set(struct product_kernels *kernels)
{
    kernels->product[TENSOR_IQ2_XXS] = product_iq2_xxs;
    kernels->product[TENSOR_IQ2_XS] = product_iq2_xs;
    kernels->product[TENSOR_IQ2_S] = product_iq2_s;
    kernels->product[TENSOR_IQ3_XXS] = product_iq3_xxs;
    kernels->product[TENSOR_IQ3_S] = product_iq3_s;
    kernels->product[TENSOR_IQ1_S] = product_iq1_s;
    kernels->product[TENSOR_IQ1_M] = product_iq1_m;
    kernels->product[TENSOR_TQ1_0] = product_tq1_0;
}

// The GEMM kernels of one weight type; the build compiles this file for each TILE_TYPE. Selects skinny or
// tiled GEMM by the number of rows; the result does not depend on the selection.
#include "gpu/gemm_tiled.h"

enum {
    SKINNY_ROWS_ONE_COLUMN = 8, // one column of mma fragments
    SKINNY_ROWS_MAX = 16,       // two columns; from here on the tiled GEMM
    SMALL_ROWS = 32,            // tiles of 32 x 32 up to this many rows
    MIDDLE_ROWS = 96, // 64 x 64 up to this many; then 128 x 128, or 128 x 64 if shared memory is small
};

template <enum tensor_type type, int n_panels, int n_columns>
static void launch_skinny(void *stream, const struct product_plan *plan)
{
    int32_t n_chunks = (plan->n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS;
    int32_t n_rounds = (n_chunks + SKINNY_WARPS_MAX - 1) / SKINNY_WARPS_MAX,
            n_warps = (n_chunks + n_rounds - 1) / n_rounds;
    struct launch_shape shape = {
        (unsigned)((plan->first_panel[plan->call.n_parts] + n_panels - 1) / n_panels), 1, 1,
        (unsigned)(32 * n_warps), (size_t)(n_warps + 1) * n_panels * n_columns * 512};
    set_row_tiles(shape, plan->call, 8 * n_columns);
    launch<gemm_skinny<type, n_panels, n_columns>>(shape, stream, *plan);
}

template <class shape> static void launch_tiled(void *stream, const struct product_plan *plan)
{
    struct launch_shape blocks = {(unsigned)((plan->first_panel[plan->call.n_parts] + shape::n_panels - 1) /
                                             shape::n_panels),
                                  1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan->call, shape::n_rows);
    launch<gemm_tiled<shape>>(blocks, stream, *plan);
}

template <enum tensor_type type> void launch_product_of(void *stream, const struct product_plan *plan)
{
    const struct product_launch &call = plan->call;
    // Average number of rows per matrix.
    int32_t n_rows =
        call.n_experts > 0 ? (call.x.n_rows + call.n_experts - 1) / call.n_experts : call.x.n_rows;
    if (n_rows <= SKINNY_ROWS_ONE_COLUMN && call.gated)
        launch_skinny<type, 2, 1>(stream, plan);
    else if (n_rows <= SKINNY_ROWS_ONE_COLUMN)
        launch_skinny<type, 1, 1>(stream, plan);
    else if (n_rows <= SKINNY_ROWS_MAX)
        launch_skinny<type, 2, 2>(stream, plan);
    else if (call.shared_bytes_max < TILED_BYTES_LARGE + TILED_BYTES_STATIC)
        launch_tiled<tiled_shape<type, 4, 1, 1, 8, TILED_BYTES_SMALL>>(stream, plan);
    else if (n_rows <= SMALL_ROWS)
        launch_tiled<tiled_shape<type, 1, 1, 4, 4>>(stream, plan);
    else if (n_rows <= MIDDLE_ROWS)
        launch_tiled<tiled_shape<type, 2, 1, 2, 8>>(stream, plan);
    else
        launch_tiled<tiled_shape<type, 4, 2, 1, 8>>(stream, plan);
}

template void launch_product_of<TILE_TYPE>(void *stream, const struct product_plan *plan);

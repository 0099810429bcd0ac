// The GEMM kernels of one weight type; the build compiles this file for each TILE_TYPE. Selects the kernel by
// the layout of x and the number of rows; the result does not depend on the selection.
#include "gpu/gemm_tiled.h"
#include "gpu/gemm_wgmma.h"
#include "gpu/skinny_launch.h"

enum {
    SMALL_ROWS = 32,         // tiles of 32 x 32 up to this many rows
    MIDDLE_ROWS = 96,        // 64 x 64 up to this many; then 128 x 128, or 128 x 64 if shared memory is small
    WGMMA_ROWS_FEW = 32,     // with wgmma: tiles of 64 outputs x 32 rows up to this many rows
    WGMMA_ROWS_MIDDLE = 128, // 64 x 64 up to this many; then 128 x 128
};

template <class shape> static void launch_tiled(void *stream, const struct product_plan *plan)
{
    struct launch_shape blocks = {(unsigned)((plan->first_panel[plan->call.n_parts] + shape::n_panels - 1) /
                                             shape::n_panels),
                                  1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan->call, shape::n_rows);
    launch_overlapped<gemm_tiled<shape>>(blocks, stream, *plan);
}

template <class shape> static void launch_wgmma(void *stream, const struct product_plan *plan)
{
    struct launch_shape blocks = {(unsigned)((plan->first_panel[plan->call.n_parts] + shape::n_panels - 1) /
                                             shape::n_panels),
                                  1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan->call, shape::n_rows);
    launch_overlapped<gemm_wgmma<shape>>(blocks, stream, *plan);
}

template <enum tensor_type type> void launch_product_of(void *stream, const struct product_plan *plan)
{
    const struct product_launch &call = plan->call;
    if (call.x.swizzled) {
        if (call.x.n_rows <= WGMMA_ROWS_FEW)
            launch_wgmma<wgmma_shape<type, 32, 1, 4>>(stream, plan);
        else if (call.x.n_rows <= WGMMA_ROWS_MIDDLE)
            launch_wgmma<wgmma_shape<type, 64, 1, 4>>(stream, plan);
        else
            launch_wgmma<wgmma_shape<type, 128, 2, 1>>(stream, plan);
        return;
    }
    // Average number of rows per matrix.
    int32_t n_rows =
        call.n_experts > 0 ? (call.x.n_rows + call.n_experts - 1) / call.n_experts : call.x.n_rows;
    if (n_rows <= SKINNY_ROWS_ONE_COLUMN)
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

template <enum tensor_type type>
bool launch_product_pair_of(void *stream, const struct product_plan *plan, const struct product_plan *q6_k)
{
    if constexpr (type == TENSOR_Q4_K || type == TENSOR_Q5_K) {
        launch_skinny_pair<type, TENSOR_Q6_K>(stream, plan, q6_k);
        return true;
    }
    return false;
}

template void launch_product_of<TILE_TYPE>(void *stream, const struct product_plan *plan);
template bool launch_product_pair_of<TILE_TYPE>(void *stream, const struct product_plan *plan,
                                                const struct product_plan *q6_k);

// The GEMM kernels of one weight type; the build compiles this file for each TILE_TYPE. Selects the kernel by
// the layout of x and the number of rows; the result does not depend on the selection.
#include "gpu/kernels/gemm_tiled.h"
#include "gpu/kernels/gemm_wgmma.h"
#include "gpu/kernels/skinny_launch.h"

enum {
    SMALL_ROWS = 32,         // up to this number of rows, tiles are 32 x 32
    MIDDLE_ROWS = 96,        // up to this number 64 x 64; beyond 128 x 128, or 128 x 64 in small memory
    WGMMA_ROWS_FEW = 32,     // with wgmma, tiles have 32 rows up to this number of rows
    WGMMA_ROWS_TILE = 64,    // up to this number, one tile of 64 rows
    WGMMA_ROWS_BETWEEN = 96, // up to this number, one tile of 96 rows, if it is wide
    WGMMA_ROWS_MIDDLE = 128, // up to this number, two tiles of 64 rows; beyond, tiles of 128 rows
    WGMMA_STAGES_WIDE = 3,   // minimum number of stages of x in the ring of a wide tile
    // Multiply-adds per byte from the second-level cache, per multiprocessor of compute capability 9.0. A
    // multiprocessor does 2,048 per cycle and gets 25 bytes per cycle, its share of the cache's 5.5 TB/s
    // (assumed).
    PRODUCTS_A_BYTE = 2048 / 25,
};

template <class shape> static void launch_tiled(void *stream, const struct product_plan *plan)
{
    struct launch_shape blocks = {(unsigned)((plan->first_panel[plan->call.n_parts] + shape::n_panels - 1) /
                                             shape::n_panels),
                                  1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan->call, shape::n_rows);
    launch_overlapped<gemm_tiled<shape>>(blocks, stream, *plan);
}

template <class shapes> static void launch_experts(void *stream, const struct product_plan *plan)
{
    struct launch_shape blocks = {(unsigned)((plan->first_panel[plan->call.n_parts] + shapes::n_panels - 1) /
                                             shapes::n_panels),
                                  1, 1, shapes::n_threads, shapes::shared_bytes};
    set_row_tiles(blocks, plan->call, shapes::large::n_rows);
    launch_overlapped<gemm_experts<shapes>>(blocks, stream, *plan);
}

// Used if experts have more rows, on average, than the skinny GEMM handles. The tiles of each expert have a
// shape that fits the expert's own number of rows.
template <enum tensor_type type>
static void launch_expert_tiles(void *stream, const struct product_plan *plan)
{
    if (plan->call.device.shared_bytes_max < TILED_BYTES_LARGE + TILED_BYTES_STATIC)
        launch_experts<expert_shapes<type, TILED_BYTES_SMALL>>(stream, plan);
    else
        launch_experts<expert_shapes<type, TILED_BYTES_LARGE>>(stream, plan);
}

template <class shape> static int32_t output_tiles(const struct product_plan &plan)
{
    return (plan.first_panel[plan.call.n_parts] + shape::n_panels - 1) / shape::n_panels;
}

// True if the tiles leave at least half of the multiprocessors without a block.
template <class shape> static bool are_few(const struct product_plan &plan)
{
    int64_t n_tiles = (int64_t)output_tiles<shape>(plan) * row_tiles_max(plan.call, shape::n_rows);
    return n_tiles <= product_partial_tiles(plan.call.device.n_multiprocessors);
}

// Divides each tile between two blocks. The first block gets whole rounds of chunks, at least half of all
// chunks. .n_tiles is 0 if tiles are not divided.
template <class shape> static struct wgmma_division divide_tiles(const struct product_plan &plan)
{
    const struct product_partials &partials = plan.call.device.partials;
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS, round = shape::over_chunks;
    int32_t n_first = ((n_chunks + 1) / 2 + round - 1) / round * round, n_tiles = output_tiles<shape>(plan);
    uint64_t n_all = (uint64_t)n_tiles * row_tiles_max(plan.call, shape::n_rows);
    if (!shape::is_divisible || !partials.sums || n_first >= n_chunks || !are_few<shape>(plan) ||
        n_all * (uint64_t)(1 + n_chunks - n_first) * shape::total_bytes > partials.size_bytes)
        return {};
    return {n_tiles, n_first, n_chunks, partials};
}

// Estimated time of all tiles for one group of inputs, in units of the time in which a multiprocessor
// receives one byte from the second-level cache. A tile needs the time for loading its weights and x, or for
// multiplying, whichever is longer.
template <class shape> static int64_t tiles_time(const struct product_plan &plan)
{
    int64_t n_tiles = (int64_t)output_tiles<shape>(plan) * row_tiles_max(plan.call, shape::n_rows),
            n_at_once = plan.call.device.n_multiprocessors > 0 ? plan.call.device.n_multiprocessors : 1;
    int64_t given = shape::tile_stage_bytes / shape::format.n_groups + 2 * shape::x_stage_bytes,
            passed = (int64_t)shape::n_panels * TILE_OUTPUTS * shape::n_rows * GROUP_INPUTS / PRODUCTS_A_BYTE;
    return (n_tiles + n_at_once - 1) / n_at_once * (given > passed ? given : passed);
}

template <class shape> static struct launch_shape wgmma_blocks(const struct product_plan &plan, int32_t n)
{
    struct launch_shape blocks = {(unsigned)n, 1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan.call, shape::n_rows);
    return blocks;
}

template <class shape> static void launch_wgmma(void *stream, const struct product_plan *plan)
{
    const struct wgmma_division division = divide_tiles<shape>(*plan);
    int32_t n_blocks = division.n_tiles > 0 ? 2 * division.n_tiles : output_tiles<shape>(*plan);
    launch_overlapped<gemm_wgmma<shape>>(wgmma_blocks<shape>(*plan, n_blocks), stream, *plan, division);
}

// Each tile reads x of all its rows. Wide tiles (more outputs) read x less often, but there are fewer of
// them, which may leave multiprocessors idle. Selects wide tiles if their estimated time is less and their
// ring has room.
template <class wide, class narrow> static void launch_wider(void *stream, const struct product_plan *plan)
{
    if constexpr (wide::n_x_stages >= WGMMA_STAGES_WIDE)
        if (tiles_time<wide>(*plan) < tiles_time<narrow>(*plan)) {
            launch_wgmma<wide>(stream, plan);
            return;
        }
    launch_wgmma<narrow>(stream, plan);
}

template <enum tensor_type type> static void launch_wgmma_of(void *stream, const struct product_plan *plan)
{
    constexpr bool has_between = wgmma_shape<type, 96, 4, 1>::n_x_stages >= WGMMA_STAGES_WIDE;
    int32_t n_rows = plan->call.x.n_rows;
    if (n_rows <= WGMMA_ROWS_FEW)
        launch_wider<wgmma_shape<type, 32, 4, 1>, wgmma_shape<type, 32, 1, 4>>(stream, plan);
    else if (n_rows > WGMMA_ROWS_TILE && n_rows <= WGMMA_ROWS_BETWEEN)
        launch_wider<wgmma_shape<type, has_between ? 96 : 64, 4, 1>, wgmma_shape<type, 64, 1, 4>>(stream,
                                                                                                  plan);
    else if (n_rows <= WGMMA_ROWS_MIDDLE)
        launch_wider<wgmma_shape<type, 64, 4, 1>, wgmma_shape<type, 64, 1, 4>>(stream, plan);
    else if (are_few<wgmma_shape<type, 128, 2, 1>>(*plan))
        launch_wgmma<wgmma_shape<type, 128, 1, 2>>(stream, plan);
    else
        launch_wider<wgmma_shape<type, 128, 3, 1>, wgmma_shape<type, 128, 2, 1>>(stream, plan);
}

template <class shape, class other_shape>
static void launch_wgmma_pair(void *stream, const struct product_plan *plan,
                              const struct product_plan *other_plan)
{
    int32_t n_blocks = output_tiles<shape>(*plan), n_other = output_tiles<other_shape>(*other_plan);
    struct launch_shape blocks = wgmma_blocks<shape>(*plan, n_blocks + n_other);
    if (other_shape::shared_bytes > shape::shared_bytes)
        blocks.shared_bytes = other_shape::shared_bytes;
    launch_overlapped<gemm_wgmma_pair<shape, other_shape>>(blocks, stream, *plan, *other_plan, n_blocks);
}

template <enum tensor_type type> void launch_product_of(void *stream, const struct product_plan *plan)
{
    const struct product_launch &call = plan->call;
    if (call.x.swizzled) {
        launch_wgmma_of<type>(stream, plan);
        return;
    }
    int32_t n_rows = product_rows_each(&call);
    if (n_rows <= SKINNY_ROWS_ONE_COLUMN)
        launch_skinny<type, 1, 1>(stream, plan);
    else if (n_rows <= SKINNY_ROWS_MAX)
        launch_skinny<type, 2, 2>(stream, plan);
    else if (call.n_experts > 0 && call.heads.n_rows == 0)
        launch_expert_tiles<type>(stream, plan);
    else if (call.device.shared_bytes_max < TILED_BYTES_LARGE + TILED_BYTES_STATIC)
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
        constexpr enum tensor_type other = TENSOR_Q6_K;
        int32_t n_rows = plan->call.x.n_rows;
        if (!plan->call.x.swizzled && n_rows <= SKINNY_ROWS_ONE_COLUMN)
            launch_skinny_pair<type, other, 1, 1>(stream, plan, q6_k);
        else if (!plan->call.x.swizzled && n_rows <= SKINNY_ROWS_MAX)
            launch_skinny_pair<type, other, 2, 2>(stream, plan, q6_k);
        else if (!plan->call.x.swizzled)
            return false;
        else if (n_rows <= WGMMA_ROWS_FEW)
            launch_wgmma_pair<wgmma_shape<type, 32, 1, 4>, wgmma_shape<other, 32, 1, 4>>(stream, plan, q6_k);
        else if (n_rows <= WGMMA_ROWS_MIDDLE)
            launch_wgmma_pair<wgmma_shape<type, 64, 1, 4>, wgmma_shape<other, 64, 1, 4>>(stream, plan, q6_k);
        else
            launch_wgmma_pair<wgmma_shape<type, 128, 2, 1>, wgmma_shape<other, 128, 2, 1>>(stream, plan,
                                                                                           q6_k);
        return true;
    }
    return false;
}

template void launch_product_of<TILE_TYPE>(void *stream, const struct product_plan *plan);
template bool launch_product_pair_of<TILE_TYPE>(void *stream, const struct product_plan *plan,
                                                const struct product_plan *q6_k);

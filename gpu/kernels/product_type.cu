// The GEMM kernels of one weight type; the build compiles this file for each TILE_TYPE. Selects the kernel by
// the layout of x and the number of rows; the result does not depend on the selection.
#include "gpu/kernels/gemm_tiled.h"
#include "gpu/kernels/gemm_wgmma.h"
#include "gpu/kernels/skinny_launch.h"

#include <assert.h>

enum {
    SMALL_ROWS = 32,         // up to this number of rows, tiles are 32 x 32
    MIDDLE_ROWS = 96,        // up to this number 64 x 64; beyond 128 x 128, or 128 x 64 in small memory
    WGMMA_ROWS_FEW = 32,     // with wgmma, tiles have 32 rows up to this number of rows
    WGMMA_ROWS_MIDDLE = 128, // up to this number, tiles of 64 rows; beyond, tiles of 128 rows
    WGMMA_STAGES_LEAST = 3,  // minimum number of stages of x in the ring of a tile
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

// Divides each tile between two blocks. The first block gets whole rounds of chunks, at least half of all
// chunks. .n_tiles is 0 if tiles cannot be divided: there is nothing to divide, or no memory for so many sums.
template <class shape> static struct wgmma_division divide_tiles(const struct product_plan &plan)
{
    const struct product_partials &partials = plan.call.device.partials;
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS, round = shape::over_chunks;
    int32_t n_first = ((n_chunks + 1) / 2 + round - 1) / round * round, n_tiles = output_tiles<shape>(plan);
    uint64_t n_all = (uint64_t)n_tiles * row_tiles_max(plan.call, shape::n_rows);
    if (!shape::is_divisible || !partials.sums || n_first >= n_chunks ||
        n_all > (uint64_t)product_partial_tiles(plan.call.device.n_multiprocessors) ||
        n_all * (uint64_t)(1 + n_chunks - n_first) * shape::total_bytes > partials.size_bytes)
        return {};
    return {n_tiles, n_first, n_chunks, partials};
}

template <class shape> static struct launch_shape wgmma_blocks(const struct product_plan &plan, int32_t n)
{
    struct launch_shape blocks = {(unsigned)n, 1, 1, shape::n_threads, shape::shared_bytes};
    set_row_tiles(blocks, plan.call, shape::n_rows);
    return blocks;
}

template <class shape> static void launch_wgmma(void *stream, const struct product_plan *plan)
{
    const struct wgmma_division division =
        plan->call.tiling.divided ? divide_tiles<shape>(*plan) : wgmma_division{};
    int32_t n_blocks = division.n_tiles > 0 ? 2 * division.n_tiles : output_tiles<shape>(*plan);
    launch_overlapped<gemm_wgmma<shape>>(wgmma_blocks<shape>(*plan, n_blocks), stream, *plan, division);
}

template <class shape_> struct shape_tag {
    typedef shape_ shape;
};

// Calls `function` with the shape of a tile. Wide tiles of 16-bit types do not exist: their ring has no room.
template <enum tensor_type type, class F> static void with_shape(enum wgmma_tile tile, F function)
{
    constexpr bool has_wide = wgmma_shape<type, 128, 3, 1>::n_x_stages >= WGMMA_STAGES_LEAST,
                   has_between = wgmma_shape<type, 96, 4, 1>::n_x_stages >= WGMMA_STAGES_LEAST,
                   has_64 = wgmma_shape<type, 64, 4, 1>::n_x_stages >= WGMMA_STAGES_LEAST,
                   has_32 = wgmma_shape<type, 32, 4, 1>::n_x_stages >= WGMMA_STAGES_LEAST;
    if (tile == WGMMA_64X32)
        function(shape_tag<wgmma_shape<type, 32, 1, 4>>{});
    if (tile == WGMMA_64X64)
        function(shape_tag<wgmma_shape<type, 64, 1, 4>>{});
    if (tile == WGMMA_64X128)
        function(shape_tag<wgmma_shape<type, 128, 1, 2>>{});
    if (tile == WGMMA_128X128)
        function(shape_tag<wgmma_shape<type, 128, 2, 1>>{});
    if constexpr (has_32)
        if (tile == WGMMA_256X32)
            function(shape_tag<wgmma_shape<type, 32, 4, 1>>{});
    if constexpr (has_64)
        if (tile == WGMMA_256X64)
            function(shape_tag<wgmma_shape<type, 64, 4, 1>>{});
    if constexpr (has_between)
        if (tile == WGMMA_256X96)
            function(shape_tag<wgmma_shape<type, 96, 4, 1>>{});
    if constexpr (has_wide)
        if (tile == WGMMA_192X128)
            function(shape_tag<wgmma_shape<type, 128, 3, 1>>{});
}

static enum wgmma_tile tile_by_rows(int32_t n_rows)
{
    return n_rows <= WGMMA_ROWS_FEW ? WGMMA_64X32 : n_rows <= WGMMA_ROWS_MIDDLE ? WGMMA_64X64 : WGMMA_128X128;
}

// True if tiles of that many rows waste less than half of their products, or are the largest.
static bool suits_rows(int32_t tile_rows, int32_t n_rows)
{
    return tile_rows == 32   ? n_rows <= 32
           : tile_rows == 64 ? n_rows > 32 && n_rows <= 128
           : tile_rows == 96 ? n_rows > 64 && n_rows <= 96
                             : n_rows > 96;
}

template <enum tensor_type type>
int32_t product_tilings_of(const struct product_plan *plan, struct product_tiling out[PRODUCT_TILINGS_MAX])
{
    int32_t n = 0, n_rows = plan->call.x.n_rows;
    enum wgmma_tile first = tile_by_rows(n_rows);
    for (int i = 0; i < WGMMA_TILE_COUNT; i++) {
        enum wgmma_tile tile = i == 0 ? first : (enum wgmma_tile)i;
        if (i > 0 && tile == first)
            continue;
        with_shape<type>(tile, [&](auto tag) {
            typedef typename decltype(tag)::shape shape;
            if (!suits_rows(shape::n_rows, n_rows))
                return;
            if (divide_tiles<shape>(*plan).n_tiles > 0)
                out[n++] = {tile, true};
            out[n++] = {tile, false};
        });
    }
    return n;
}

template <enum tensor_type type> static void launch_wgmma_of(void *stream, const struct product_plan *plan)
{
    struct product_plan tiled = *plan;
    if (tiled.call.tiling.tile == WGMMA_BY_ROWS)
        tiled.call.tiling = {tile_by_rows(plan->call.x.n_rows), true};
    bool launched = false;
    with_shape<type>(tiled.call.tiling.tile, [&](auto tag) {
        launch_wgmma<typename decltype(tag)::shape>(stream, &tiled);
        launched = true;
    });
    assert(launched); // product_tilings lists what exists
    (void)launched;
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

template int32_t product_tilings_of<TILE_TYPE>(const struct product_plan *plan,
                                               struct product_tiling out[PRODUCT_TILINGS_MAX]);
template void launch_product_of<TILE_TYPE>(void *stream, const struct product_plan *plan);
template bool launch_product_pair_of<TILE_TYPE>(void *stream, const struct product_plan *plan,
                                                const struct product_plan *q6_k);

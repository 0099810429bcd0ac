// For kernels: the tiled GEMM (many rows, as in prefill). A block computes a tile of outputs x rows.
// Quantized weights and x pass through shared memory in a multi-stage asynchronous pipeline; a warp
// dequantizes the fragments of 32 outputs once for all its rows.
//
// Warps of a block: over_outputs x over_rows x over_chunks. A warp has 32 outputs and 8 n_columns rows. Warps
// along over_chunks compute split-K chunks in turn, so that a few tiles occupy many warps. Partial sums are
// added in order in shared memory.
//
// Only the device knows how many rows each expert of a launch has. So tiles are numbered in units of the
// largest of a few shapes, and each tile is computed with the smallest shape that has room for its rows.
#pragma once

#include "gpu/kernels/gemm_skinny.h"

// Dynamic shared memory per block (all shared memory minus static arrays): for the 163 KiB of compute
// capability 8.0, and for the smallest supported size.
enum {
    TILED_BYTES_STATIC = 1 << 10,
    TILED_BYTES_LARGE = (163 << 10) - TILED_BYTES_STATIC,
    TILED_BYTES_SMALL = PRODUCT_SHARED_BYTES_LEAST - TILED_BYTES_STATIC,
};

template <enum tensor_type type_, int over_outputs_, int over_rows_, int over_chunks_, int n_columns_,
          int shared_bytes_most_ = TILED_BYTES_LARGE>
struct tiled_shape {
    static constexpr enum tensor_type type = type_;
    static constexpr int over_outputs = over_outputs_, over_rows = over_rows_, over_chunks = over_chunks_,
                         n_columns = n_columns_;
    static constexpr int n_threads = 32 * over_outputs * over_rows * over_chunks;
    static constexpr int n_panels = 2 * over_outputs, n_rows = 8 * n_columns * over_rows;
    static constexpr struct tile_format format = tile_format(type);
    // A stage has over_chunks slices, each with one group of a split-K chunk: the activation operand
    // [4 steps][n_rows][64 bytes], then the planes and scales of the panels.
    static constexpr int x_bytes = GROUP_STEPS * n_rows * STEP_ROW_BYTES;
    static constexpr int panel_bytes = format.quants_bytes + format.high_bytes + format.scales_bytes;
    static constexpr int slice_bytes = x_bytes + n_panels * panel_bytes;
    static constexpr int stage_bytes = over_chunks * slice_bytes;
    static constexpr int exchange_bytes = over_chunks > 1 ? n_threads / 32 * 2 * n_columns * 512 : 0;
    static constexpr int n_stages = 3 * stage_bytes + exchange_bytes <= shared_bytes_most_ ? 3 : 2;
    static constexpr int shared_bytes = n_stages * stage_bytes + exchange_bytes;
    static_assert(shared_bytes <= shared_bytes_most_, "fits");
    static_assert(n_columns % over_chunks == 0, "sums are distributed by columns");
};

// The copies of one thread, for every stage: 16-byte pieces that are n_threads pieces apart. The base
// addresses do not depend on the stage, so a copy needs one addition.
template <class shape> struct tiled_source {
    static constexpr struct tile_format format = shape::format;
    static constexpr int panel_pieces = shape::panel_bytes / 16;
    static constexpr int n_panel_pieces = shape::n_panels * panel_pieces;
    static constexpr int n_of_x = shape::x_bytes / 16 / shape::n_threads;
    static constexpr int n_of_panels = (n_panel_pieces + shape::n_threads - 1) / shape::n_threads;
    static constexpr int pieces_of_step = 4 * shape::n_rows;
    static_assert(shape::x_bytes / 16 % shape::n_threads == 0, "threads copy equal parts of x");
    static_assert(pieces_of_step % shape::n_threads == 0 || shape::n_threads % pieces_of_step == 0,
                  "a piece's step is known at compile time");

    const unsigned char *x; // the thread's first piece, in group 0
    int64_t x_step_bytes;   // bytes from one step of the activation operand to the next
    int32_t n_rows_left;    // valid rows from the thread's first one on
    const unsigned char *panels[n_of_panels];
    int32_t part_bytes[n_of_panels]; // from a group of a tile to the next one

    __device__ __forceinline__ tiled_source(const struct product_plan &plan, const row_tile &rows,
                                            const unsigned char *const *tiles)
    {
        int32_t step = (int32_t)threadIdx.x / pieces_of_step, row = (int32_t)threadIdx.x % pieces_of_step / 4,
                piece = (int32_t)threadIdx.x % 4;
        x_step_bytes = (int64_t)plan.call.x.n_rows * STEP_ROW_BYTES;
        x = (const unsigned char *)plan.call.x.items + step * x_step_bytes +
            (int64_t)(rows.first + row) * STEP_ROW_BYTES + piece * 16;
        n_rows_left = rows.n - row;
#pragma unroll
        for (int k = 0; k < n_of_panels; k++) {
            constexpr int quants = format.quants_bytes, high = format.high_bytes;
            int i = (int)threadIdx.x + k * shape::n_threads, byte = i % panel_pieces * 16;
            bool of_quants = byte < quants, of_high = !of_quants && byte < quants + high;
            int from = of_quants ? byte
                       : of_high ? format.n_groups * quants + (byte - quants)
                                 : format.n_groups * (quants + high) + (byte - quants - high);
            panels[k] = tiles[i < n_panel_pieces ? i / panel_pieces : 0] + from;
            part_bytes[k] = of_quants ? quants : of_high ? high : 0;
        }
    }

    // Copies one stage: group `group_in_chunk` (0..3) of each current split-K chunk.
    __device__ __forceinline__ void copy_group(int32_t n_groups, int32_t first_chunk, int32_t group_in_chunk,
                                               unsigned char *stage) const
    {
        unsigned char *to = stage + threadIdx.x * 16;
#pragma unroll
        for (int slice = 0; slice < shape::over_chunks; slice++, to += shape::slice_bytes) {
            int32_t group = (first_chunk + slice) * SPLIT_K_GROUPS + group_in_chunk;
            if (group >= n_groups)
                continue;
            const unsigned char *from = x + group * GROUP_STEPS * x_step_bytes;
#pragma unroll
            for (int k = 0; k < n_of_x; k++) {
                // Number of turns of all threads per step, or number of steps per turn.
                constexpr int turns =
                    pieces_of_step > shape::n_threads ? pieces_of_step / shape::n_threads : 1;
                constexpr int steps =
                    shape::n_threads > pieces_of_step ? shape::n_threads / pieces_of_step : 1;
                if (k > 0 && k % turns == 0)
                    from += steps * x_step_bytes;
                int row = k % turns * (shape::n_threads / 4);
                copy_async_16(to + k * shape::n_threads * 16, from + row * STEP_ROW_BYTES, row < n_rows_left);
            }
            int64_t tile = (int64_t)(group / format.n_groups) * tile_bytes(format);
            int32_t part = group % format.n_groups;
#pragma unroll
            for (int k = 0; k < n_of_panels; k++)
                if ((k + 1) * shape::n_threads <= n_panel_pieces ||
                    (int)threadIdx.x + k * shape::n_threads < n_panel_pieces)
                    copy_async_16(to + shape::x_bytes + k * shape::n_threads * 16,
                                  panels[k] + tile + part * part_bytes[k], true);
        }
    }
};

// Multiplies one group in shared memory; called by each warp.
template <class shape>
static __device__ __forceinline__ void tiled_group(const unsigned char *slice, int output_warp, int row_warp,
                                                   int part, int lane, float acc[2][shape::n_columns][4])
{
    constexpr struct tile_format format = shape::format;
    struct tile_group<shape::type> groups[2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const unsigned char *at = slice + shape::x_bytes + (output_warp * 2 + m) * shape::panel_bytes;
        groups[m].template load<shared_memory>(at, at + format.quants_bytes,
                                               at + format.quants_bytes + format.high_bytes, part, lane);
        groups[m].prepare();
    }
    const uint4 *x = (const uint4 *)slice + (row_warp * shape::n_columns * 8) * 4 + lane;
#pragma unroll
    for (int step = 0; step < GROUP_STEPS; step++) {
        uint32_t a[2][2][4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            groups[m].fragment(2 * step, a[m][0]);
            groups[m].fragment(2 * step + 1, a[m][1]);
        }
#pragma unroll
        for (int n = 0; n < shape::n_columns; n++) {
            uint4 column = x[(step * shape::n_rows + n * 8) * 4];
            uint32_t b[2][2] = {{column.x, column.y}, {column.z, column.w}};
#pragma unroll
            for (int f = 0; f < 2; f++)
#pragma unroll
                for (int m = 0; m < 2; m++)
                    multiply_tile<shape::type>(acc[m][n], a[m][f], b[f]);
        }
    }
}

// Ends a round of split-K chunks: adds their partial sums in order to the totals. The totals are distributed
// over the warps.
template <class shape>
static __device__ __forceinline__ void
tiled_total(float acc[2][shape::n_columns][4], float totals[2][shape::n_columns / shape::over_chunks][4],
            float *exchange, int warp_in_slice, int slice, int n_chunks, int lane)
{
    constexpr int n_kept = shape::n_columns / shape::over_chunks,
                  n_tiles = shape::over_outputs * shape::over_rows;
    if (shape::over_chunks == 1) {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < n_kept; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    totals[m][n][i] = totals[m][n][i] + acc[m][n][i];
        return;
    }
    float4 *sums = (float4 *)exchange;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < shape::n_columns; n++)
            sums[(((slice * n_tiles + warp_in_slice) * 2 + m) * shape::n_columns + n) * 32 + lane] =
                make_float4(acc[m][n][0], acc[m][n][1], acc[m][n][2], acc[m][n][3]);
    __syncthreads();
    for (int chunk = 0; chunk < n_chunks; chunk++)
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < n_kept; n++) {
                int column = slice * n_kept + n;
                float4 sum =
                    sums[(((chunk * n_tiles + warp_in_slice) * 2 + m) * shape::n_columns + column) * 32 +
                         lane];
                totals[m][n][0] = totals[m][n][0] + sum.x;
                totals[m][n][1] = totals[m][n][1] + sum.y;
                totals[m][n][2] = totals[m][n][2] + sum.z;
                totals[m][n][3] = totals[m][n][3] + sum.w;
            }
    __syncthreads();
}

// Computes the tile of `rows` and of the panels from first_panel on. `tiles` is in shared memory, with one
// entry per panel.
template <class shape>
static __device__ __forceinline__ void tiled_block(const struct product_plan &plan, const row_tile &rows,
                                                   int32_t first_panel,
                                                   const unsigned char *tiles[shape::n_panels])
{
    constexpr int n_kept = shape::n_columns / shape::over_chunks,
                  n_tiles = shape::over_outputs * shape::over_rows;
    unsigned char *stages = dynamic_shared();
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int slice = warp / n_tiles, in_slice = warp % n_tiles;
    int output_warp = in_slice % shape::over_outputs, row_warp = in_slice / shape::over_outputs;
    if (threadIdx.x < shape::n_panels)
        tiles[threadIdx.x] = find_panel(plan, first_panel + (int32_t)threadIdx.x, rows.expert).tiles;
    __syncthreads();
    const tiled_source<shape> source(plan, rows, tiles);
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS;
    int32_t n_rounds = (n_chunks + shape::over_chunks - 1) / shape::over_chunks;
    float acc[2][shape::n_columns][4] = {}, totals[2][n_kept][4] = {};
    int32_t n_steps = n_rounds * SPLIT_K_GROUPS;
    for (int32_t i = 0; i < shape::n_stages - 1; i++) {
        if (i < n_steps)
            source.copy_group(plan.n_groups, i / SPLIT_K_GROUPS * shape::over_chunks, i % SPLIT_K_GROUPS,
                              stages + i * shape::stage_bytes);
        copy_async_commit();
    }
    for (int32_t i = 0; i < n_steps; i++) {
        copy_async_wait<shape::n_stages - 2>();
        __syncthreads(); // stage i is complete; stage i - 1 is free
        int32_t ahead = i + shape::n_stages - 1;
        if (ahead < n_steps)
            source.copy_group(plan.n_groups, ahead / SPLIT_K_GROUPS * shape::over_chunks,
                              ahead % SPLIT_K_GROUPS, stages + ahead % shape::n_stages * shape::stage_bytes);
        copy_async_commit();
        int32_t first_chunk = i / SPLIT_K_GROUPS * shape::over_chunks;
        int32_t group = (first_chunk + slice) * SPLIT_K_GROUPS + i % SPLIT_K_GROUPS;
        if (group < plan.n_groups)
            tiled_group<shape>(stages + i % shape::n_stages * shape::stage_bytes + slice * shape::slice_bytes,
                               output_warp, row_warp, group % shape::format.n_groups, lane, acc);
        if (i % SPLIT_K_GROUPS == SPLIT_K_GROUPS - 1) {
            int32_t left = n_chunks - first_chunk;
            tiled_total<shape>(acc, totals, (float *)(stages + shape::n_stages * shape::stage_bytes),
                               in_slice, slice, left < shape::over_chunks ? left : shape::over_chunks, lane);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < shape::n_columns; n++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        acc[m][n][j] = 0.0f;
        }
    }
    copy_async_wait<0>();
    int32_t panel = first_panel + output_warp * 2;
    panel_place places[2] = {find_panel(plan, panel, rows.expert), find_panel(plan, panel + 1, rows.expert)};
#pragma unroll
    for (int n = 0; n < n_kept; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int32_t row = (row_warp * shape::n_columns + slice * n_kept + n) * 8 + lane % 4 * 2 + i % 2;
            int32_t output = lane / 4 + i / 2 * 8;
            if (row >= rows.n)
                continue;
            if (plan.call.gated) {
                put_gated(plan, places[0], places[1], output, rows.first + row, totals[0][n][i],
                          totals[1][n][i]);
            } else {
                put_result(plan, places[0], output, rows.first + row, totals[0][n][i]);
                put_result(plan, places[1], output, rows.first + row, totals[1][n][i]);
            }
        }
}

template <class shape>
static __global__ void __launch_bounds__(shape::n_threads) gemm_tiled(const struct product_plan plan)
{
    launch_next();
    launch_wait();
    __shared__ const unsigned char *tiles[shape::n_panels];
    static_assert(sizeof tiles <= TILED_BYTES_STATIC, "fits beside the stages");
    row_tile rows = find_rows(plan, shape::n_rows);
    if (rows.n > 0)
        tiled_block<shape>(plan, rows, (int32_t)blockIdx.x * shape::n_panels, tiles);
}

// ---- experts ----

// Four shapes with the same number of threads, for up to 128, 64, 32 and 16 rows; with little shared memory
// for up to 64, 32, 16 and 16. If shared memory suffices, the three smaller shapes have twice the outputs of
// the largest one, so that no two of their warps dequantize the same weights.
template <enum tensor_type type, int shared_bytes_most> struct expert_shapes {
    static constexpr bool is_little = shared_bytes_most == TILED_BYTES_SMALL;
    static constexpr int over_outputs = is_little ? 4 : 8;
    typedef tiled_shape<type, 4, is_little ? 1 : 2, 1, 8, shared_bytes_most> large;
    typedef tiled_shape<type, over_outputs, 1, 1, is_little ? 4 : 8, shared_bytes_most> middle;
    typedef tiled_shape<type, over_outputs, 1, 1, is_little ? 2 : 4, shared_bytes_most> small;
    typedef tiled_shape<type, over_outputs, 1, 1, 2, shared_bytes_most> least;
    static constexpr int n_threads = large::n_threads, n_panels = large::n_panels;
    static constexpr int most(int a, int b)
    {
        return a > b ? a : b;
    }
    static constexpr int panels_most =
        most(most(large::n_panels, middle::n_panels), most(small::n_panels, least::n_panels));
    static constexpr int shared_bytes =
        most(most(large::shared_bytes, middle::shared_bytes), most(small::shared_bytes, least::shared_bytes));
    static_assert(middle::n_threads == n_threads && small::n_threads == n_threads &&
                      least::n_threads == n_threads,
                  "one block computes any of them");
    static_assert(middle::n_panels % n_panels == 0 && small::n_panels % n_panels == 0 &&
                      least::n_panels % n_panels == 0,
                  "their outputs are those of whole blocks");
    static_assert(least::n_rows <= small::n_rows && small::n_rows <= middle::n_rows &&
                      middle::n_rows <= large::n_rows,
                  "from many rows to few");
};

// True if the block computes a tile of this shape. Such a tile covers the outputs of one or more blocks, and
// the first of these blocks computes it.
template <class shapes, class shape>
static __device__ __forceinline__ void expert_block(const struct product_plan &plan, const row_tile &rows,
                                                    const unsigned char **tiles)
{
    if (blockIdx.x % (shape::n_panels / shapes::n_panels) == 0)
        tiled_block<shape>(plan, rows, (int32_t)blockIdx.x * shapes::n_panels, tiles);
}

template <class shapes>
static __global__ void __launch_bounds__(shapes::n_threads) gemm_experts(const struct product_plan plan)
{
    launch_next();
    launch_wait();
    __shared__ const unsigned char *tiles[shapes::panels_most];
    static_assert(sizeof tiles <= TILED_BYTES_STATIC, "fits beside the stages");
    row_tile rows = find_rows(plan, shapes::large::n_rows);
    if (rows.n <= 0)
        return;
    if (rows.n <= shapes::least::n_rows)
        expert_block<shapes, typename shapes::least>(plan, rows, tiles);
    else if (rows.n <= shapes::small::n_rows)
        expert_block<shapes, typename shapes::small>(plan, rows, tiles);
    else if (rows.n <= shapes::middle::n_rows)
        expert_block<shapes, typename shapes::middle>(plan, rows, tiles);
    else
        expert_block<shapes, typename shapes::large>(plan, rows, tiles);
}

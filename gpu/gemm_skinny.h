// For kernels: the skinny GEMM (few rows, as in decode steps), bound by the bandwidth of the weights. A block
// computes 16 or 32 outputs with split-K over its warps: a warp computes whole split-K chunks. It loads the
// weights from device memory directly to registers, as no other warp uses them, and x through the caches. The
// partial sums are added in order in shared memory.
#pragma once

#include "gpu/product.h"
#include "gpu/tile_group.h"

enum { SKINNY_WARPS_MAX = 16 };

template <enum tensor_type type>
static __device__ __forceinline__ void multiply_tile(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (type == TENSOR_BF16)
        mma_bfloat(d, a, b);
    else
        mma_half(d, a, b);
}

// Groups that a lane loads at a time: 50 to 70 registers.
template <enum tensor_type type, int n_panels> static __host__ __device__ constexpr int skinny_batch()
{
    constexpr int bytes = tile_format(type).quants_bytes + tile_format(type).high_bytes;
    return bytes * n_panels <= 1536 ? 4 : bytes * n_panels <= 3072 ? 2 : 1;
}

// Partial sums of one split-K chunk: groups [begin, end).
template <enum tensor_type type, int n_panels, int n_columns> // columns: of 8 rows
static __device__ __forceinline__ void
skinny_chunk(const struct product_plan &plan, const panel_place places[n_panels], const row_tile &rows,
             int32_t begin, int32_t end, float acc[n_panels][n_columns][4])
{
    constexpr struct tile_format format = tile_format(type);
    constexpr int batch = skinny_batch<type, n_panels>();
    int lane = (int)threadIdx.x % 32;
    // Of the lane's row in the next group; rows that do not exist are zeros.
    const int64_t x_step = (int64_t)plan.call.x.n_rows * 4;
    const uint4 *x = (const uint4 *)plan.call.x.items + begin * GROUP_STEPS * x_step +
                     (rows.first + lane / 4) * 4 + lane % 4;
    // A chunk begins with a tile, so the place of a group in its tile is known if a batch has whole tiles.
    constexpr bool whole = batch % format.n_groups == 0;
    static_assert(SPLIT_K_GROUPS % format.n_groups == 0 && SPLIT_K_GROUPS % batch == 0,
                  "chunks have whole tiles");
    for (int32_t first = begin; first < end; first += batch) {
        struct tile_group<type> groups[n_panels][batch];
#pragma unroll
        for (int i = 0; i < batch; i++)
#pragma unroll
            for (int m = 0; m < n_panels; m++)
                if (first + i < end) {
                    int32_t tile =
                        whole ? first / format.n_groups + i / format.n_groups : (first + i) / format.n_groups;
                    int32_t part = whole ? i % format.n_groups : (first + i) % format.n_groups;
                    const unsigned char *at = places[m].tiles + (int64_t)tile * tile_bytes(format);
                    groups[m][i].template load<device_memory>(
                        at + part * format.quants_bytes,
                        at + format.n_groups * format.quants_bytes + part * format.high_bytes,
                        at + format.n_groups * (format.quants_bytes + format.high_bytes), part, lane);
                }
#pragma unroll
        for (int i = 0; i < batch; i++) {
            if (first + i >= end)
                break;
            uint4 columns[GROUP_STEPS][n_columns];
#pragma unroll
            for (int step = 0; step < GROUP_STEPS; step++, x += x_step)
#pragma unroll
                for (int n = 0; n < n_columns; n++)
                    columns[step][n] = n * 8 + lane / 4 < rows.n ? x[n * 32] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int m = 0; m < n_panels; m++)
                groups[m][i].prepare();
#pragma unroll
            for (int f = 0; f < 2 * GROUP_STEPS; f++)
#pragma unroll
                for (int m = 0; m < n_panels; m++) {
                    uint32_t a[4];
                    groups[m][i].fragment(f, a);
#pragma unroll
                    for (int n = 0; n < n_columns; n++) {
                        const uint4 &column = columns[f / 2][n];
                        uint32_t b[2] = {f % 2 ? column.z : column.x, f % 2 ? column.w : column.y};
                        multiply_tile<type>(acc[m][n], a, b);
                    }
                }
        }
    }
}

template <enum tensor_type type, int n_panels, int n_columns>
static __global__ void __launch_bounds__(32 * SKINNY_WARPS_MAX) gemm_skinny(const struct product_plan plan)
{
    // [warps][panels, columns][32 lanes] float4, then the totals, as many as one warp has
    float *parts = (float *)dynamic_shared();
    enum { N_SUMS = n_panels * n_columns * 128 };
    int n_warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *totals = parts + n_warps * N_SUMS;
    row_tile rows = find_rows(plan, 8 * n_columns);
    if (rows.n <= 0)
        return;
    panel_place places[n_panels];
#pragma unroll
    for (int m = 0; m < n_panels; m++)
        places[m] = find_panel(plan, (int32_t)blockIdx.x * n_panels + m, rows.expert);
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS;
    for (int32_t first = 0; first < n_chunks; first += n_warps) {
        float acc[n_panels][n_columns][4] = {};
        int32_t chunk = first + warp, end = (chunk + 1) * SPLIT_K_GROUPS;
        if (chunk < n_chunks)
            skinny_chunk<type, n_panels, n_columns>(plan, places, rows, chunk * SPLIT_K_GROUPS,
                                                    end < plan.n_groups ? end : plan.n_groups, acc);
#pragma unroll
        for (int m = 0; m < n_panels; m++)
#pragma unroll
            for (int n = 0; n < n_columns; n++)
                *(float4 *)(parts + warp * N_SUMS + ((m * n_columns + n) * 32 + lane) * 4) =
                    make_float4(acc[m][n][0], acc[m][n][1], acc[m][n][2], acc[m][n][3]);
        __syncthreads();
        int n = n_chunks - first < n_warps ? n_chunks - first : n_warps;
        for (int i = (int)threadIdx.x; i < N_SUMS; i += (int)blockDim.x) {
            float total = first == 0 ? 0.0f : totals[i];
            for (int j = 0; j < n; j++)
                total = total + parts[j * N_SUMS + i];
            totals[i] = total;
        }
        __syncthreads();
    }
    bool gated = n_panels == 2 && plan.call.gated;
    for (int i = (int)threadIdx.x; i < (gated ? N_SUMS / 2 : N_SUMS); i += (int)blockDim.x) {
        int reg = i % 4, from = i / 4 % 32, m = i / 128 / n_columns, n = i / 128 % n_columns;
        int32_t row = n * 8 + from % 4 * 2 + reg % 2, output = from / 4 + reg / 2 * 8;
        if (row >= rows.n)
            continue;
        panel_place place = find_panel(plan, (int32_t)blockIdx.x * n_panels + m, rows.expert);
        if (gated)
            put_gated(plan, place, find_panel(plan, (int32_t)blockIdx.x * n_panels + 1, rows.expert), output,
                      rows.first + row, totals[i], totals[N_SUMS / 2 + i]);
        else
            put_result(plan, place, output, rows.first + row, totals[i]);
    }
}

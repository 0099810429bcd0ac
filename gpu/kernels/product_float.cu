// GEMM with F32 weights on the CUDA cores, for routers and small models; large weights are not stored in F32.
// A warp computes one output for 8 rows. Lane l adds inputs 128 i + 4 l .. + 3 in order, by fused
// multiply-add. Then the partial sums of the lanes are added in pairs 16, 8, 4, 2, 1 apart.
#include "gpu/kernels/product.h"

enum { WARPS = 4, ROWS = 8 };

// Loads four items. `row` need not be aligned: it may be the columns of a head.
static __device__ float4 load_4(const float *row, int32_t k, int32_t n)
{
    if (k + 3 < n && (uintptr_t)row % 16 == 0)
        return *(const float4 *)(row + k);
    return make_float4(k < n ? row[k] : 0.0f, k + 1 < n ? row[k + 1] : 0.0f, k + 2 < n ? row[k + 2] : 0.0f,
                       k + 3 < n ? row[k + 3] : 0.0f);
}

static __device__ float4 multiply_4(float4 items, float factor)
{
    return make_float4(items.x * factor, items.y * factor, items.z * factor, items.w * factor);
}

static __global__ void __launch_bounds__(32 * WARPS) product_float(const struct product_plan plan)
{
    launch_next();
    launch_wait();
    const struct product_launch &call = plan.call;
    int32_t lane = (int32_t)threadIdx.x % 32, n_inputs = call.x.n_inputs;
    row_tile rows = find_rows(plan, ROWS);
    int32_t output = (int32_t)blockIdx.x * WARPS + (int32_t)threadIdx.x / 32;
    panel_place place = find_panel(plan, output / TILE_OUTPUTS, rows.expert);
    output %= TILE_OUTPUTS;
    if (output >= place.n_outputs || rows.n <= 0)
        return;
    int32_t stride = (n_inputs + 3) / 4 * 4;
    const float *weight = (const float *)place.tiles + (int64_t)output * stride;
    const float *x[ROWS];
    float sums[ROWS] = {}, weights[ROWS];
    for (int i = 0; i < ROWS; i++) {
        int32_t row = rows.first + (i < rows.n ? i : 0);
        int64_t index = call.heads.n_rows  ? row - place.first_row
                        : call.floats.rows ? call.floats.rows[row] / call.floats.rows_divisor
                                           : row;
        x[i] = call.floats.items + index * call.floats.stride +
               (int64_t)(call.heads.n_rows ? rows.expert : 0) * call.heads.x_step;
        weights[i] = call.floats.weights ? call.floats.weights[call.floats.rows[row]] : 1.0f;
    }
    for (int32_t k = lane * 4; k < n_inputs; k += 128) {
        float4 w = *(const float4 *)(weight + k);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (i >= rows.n)
                continue;
            float4 item = multiply_4(load_4(x[i], k, n_inputs), weights[i]);
            sums[i] = fmaf(w.w, item.w, fmaf(w.z, item.z, fmaf(w.y, item.y, fmaf(w.x, item.x, sums[i]))));
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (i >= rows.n)
            break;
        float sum = sums[i];
        for (int mask = 16; mask > 0; mask /= 2)
            sum = sum + __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
        if (lane == 0)
            put_result(plan, place, output, rows.first + i, sum);
    }
}

void launch_product_float(void *stream, const struct product_plan *plan)
{
    struct launch_shape shape = {(unsigned)(plan->first_panel[plan->call.n_parts] * (TILE_OUTPUTS / WARPS)),
                                 1, 1, 32 * WARPS, 0};
    set_row_tiles(shape, plan->call, ROWS);
    launch_overlapped<product_float>(shape, stream, *plan);
}

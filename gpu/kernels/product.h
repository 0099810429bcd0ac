// For kernels: shared by the GEMM kernels (gpu/kernels/kernels.h defines the arithmetic). Panels are numbered
// over all parts. The panels of gated parts alternate, so that one block has both factors of the same
// outputs:
//
//   parts a and b, not gated   a0 a1 a2 b0 b1
//   gate and up                gate0 up0 gate1 up1 gate2 up2
#pragma once

#include "gpu/kernels/activation_device.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/operand_device.h"
#include "gpu/kernels/tiles.h"

enum {
    SPLIT_K_GROUPS = SPLIT_K_INPUTS / GROUP_INPUTS,
    GROUP_STEPS = GROUP_INPUTS / 32, // steps of the activation operand in a group
    STEP_ROW_BYTES = 64,
};

struct product_plan {
    struct product_launch call;
    int32_t first_panel[PRODUCT_PARTS_MAX + 1];
    int32_t n_groups; // groups of 128 inputs; the last may be padded
    int32_t panel_bytes;
    int64_t matrix_bytes[PRODUCT_PARTS_MAX]; // bytes of a matrix, per expert
};

// Addresses of one panel's tiles and results.
struct panel_place {
    const unsigned char *tiles;
    const float *bias; // NULL: none
    float factor;      // of the matrix
    float *y;          // address of row 0 and of the panel's first output
    int64_t y_stride;
    int32_t first_row; // the row of x whose result is row 0 of y
    int32_t first_output;
    int32_t n_outputs; // valid outputs; 0: the panel does not exist
};

static __device__ __forceinline__ panel_place find_panel(const struct product_plan &plan, int32_t panel,
                                                         int32_t expert)
{
    int part = 0;
#pragma unroll
    for (int i = 1; i < PRODUCT_PARTS_MAX; i++)
        part = i < plan.call.n_parts && panel >= plan.first_panel[i] ? i : part;
    part = plan.call.gated ? panel % 2 : part;
    const struct product_part &weight = plan.call.parts[part];
    bool exists = panel < plan.first_panel[plan.call.n_parts];
    int32_t index = !exists ? 0 : plan.call.gated ? panel / 2 : panel - plan.first_panel[part];
    int32_t first = index * TILE_OUTPUTS, left = weight.n_outputs - first;
    panel_place place;
    place.tiles = (const unsigned char *)weight.tiles + expert * plan.matrix_bytes[part] +
                  (int64_t)index * plan.panel_bytes;
    place.bias = weight.bias ? weight.bias + (int64_t)expert * weight.n_outputs + first : NULL;
    place.factor = weight.factors ? weight.factors[expert] : 1.0f;
    place.y = weight.y + first + (int64_t)(plan.call.heads.n_rows ? expert : 0) * plan.call.heads.y_step;
    place.first_row = plan.call.heads.n_rows * expert;
    place.first_output = first;
    place.y_stride = weight.y_stride;
    place.n_outputs = !exists ? 0 : left < TILE_OUTPUTS ? left : (int32_t)TILE_OUTPUTS;
    return place;
}

// Rows of x that are multiplied by one matrix.
struct row_tile {
    int32_t expert, first, n; // n 0: none
};

// Finds the block's tile of up to `size` rows. Tiles are numbered over all experts. Whole warps must call it.
static __device__ __forceinline__ row_tile find_rows(const struct product_plan &plan, int32_t size)
{
    int32_t index = (int32_t)(blockIdx.z * gridDim.y + blockIdx.y); // set_row_tiles
    row_tile tile = {0, index * size, 0};
    if (plan.call.n_experts == 0) {
        int32_t left = plan.call.x.n_rows - tile.first;
        tile.n = left < size ? left : size;
        return tile;
    }
    if (plan.call.heads.n_rows > 0) {
        int32_t n_tiles = (plan.call.heads.n_rows + size - 1) / size, skipped = index % n_tiles * size;
        tile.expert = index / n_tiles;
        tile.first = tile.expert * plan.call.heads.n_rows + skipped;
        int32_t left = tile.expert < plan.call.n_experts ? plan.call.heads.n_rows - skipped : 0;
        tile.n = left < size ? left : size;
        return tile;
    }
    int32_t lane = (int32_t)threadIdx.x % 32, before = 0;
    const int32_t *first = plan.call.expert_first;
    for (int32_t base = 0; base < plan.call.n_experts; base += 32) {
        int32_t expert = base + lane;
        int32_t n = expert < plan.call.n_experts ? first[expert + 1] - first[expert] : 0;
        int32_t sum = (n + size - 1) / size; // inclusive prefix sum of tiles over the lanes
        for (int distance = 1; distance < 32; distance *= 2) {
            int32_t other = __shfl_sync(0xFFFFFFFFu, sum, lane >= distance ? lane - distance : lane);
            sum += lane >= distance ? other : 0;
        }
        unsigned beyond = __ballot_sync(0xFFFFFFFFu, before + sum > index);
        if (beyond) {
            int found = __ffs((int)beyond) - 1;
            int32_t tiles_before = __shfl_sync(0xFFFFFFFFu, sum - (n + size - 1) / size, found);
            int32_t n_rows = __shfl_sync(0xFFFFFFFFu, n, found);
            int32_t skipped = (index - before - tiles_before) * size;
            tile.expert = base + found;
            tile.first = first[tile.expert] + skipped;
            tile.n = n_rows - skipped < size ? n_rows - skipped : size;
            return tile;
        }
        before += __shfl_sync(0xFFFFFFFFu, sum, 31);
    }
    return tile;
}

// Upper bound of the number of row tiles of a launch.
static inline unsigned row_tiles_max(const struct product_launch &call, int32_t size)
{
    int32_t n_rows = call.x.n_rows;
    if (call.n_experts == 0)
        return (unsigned)((n_rows + size - 1) / size);
    if (call.heads.n_rows > 0)
        return (unsigned)(call.n_experts * ((call.heads.n_rows + size - 1) / size));
    return (unsigned)(n_rows / size + (call.n_experts < n_rows ? call.n_experts : n_rows));
}

// Sets the grid for all row tiles, along y and then z.
static inline void set_row_tiles(struct launch_shape &shape, const struct product_launch &call, int32_t size)
{
    unsigned n_tiles = row_tiles_max(call, size);
    shape.blocks_z = (n_tiles + LAUNCH_BLOCKS_YZ_MAX - 1) / LAUNCH_BLOCKS_YZ_MAX;
    shape.blocks_y = (n_tiles + shape.blocks_z - 1) / shape.blocks_z;
}

static __device__ __forceinline__ float *find_result(const struct product_plan &plan,
                                                     const panel_place &place, int32_t output, int32_t row)
{
    int64_t y_row = plan.call.expert_order ? plan.call.expert_order[row] : row - place.first_row;
    return place.y + y_row * place.y_stride + output;
}

static __device__ __forceinline__ float finish_result(const struct product_plan &plan,
                                                      const panel_place &place, int32_t output, int32_t row,
                                                      float total)
{
    float result = plan.call.type == TENSOR_F32 ? total : total * row_scale(plan.call.x, row);
    result *= place.factor;
    return place.bias ? result + place.bias[output] : result;
}

// The epilogue: stores the result of one output and row.
static __device__ __forceinline__ void put_result(const struct product_plan &plan, const panel_place &place,
                                                  int32_t output, int32_t row, float total)
{
    if (output >= place.n_outputs)
        return;
    float *y = find_result(plan, place, output, row), result = finish_result(plan, place, output, row, total);
    *y = plan.call.add ? fmaf(plan.call.factor, result, *y) : result;
}

static __device__ __forceinline__ void put_gated(const struct product_plan &plan, const panel_place &gate,
                                                 const panel_place &up, int32_t output, int32_t row,
                                                 float gate_total, float up_total)
{
    if (output >= gate.n_outputs)
        return;
    const struct activation_operand &next = plan.call.next.out;
    float result = activate_gated(finish_result(plan, gate, output, row, gate_total),
                                  finish_result(plan, up, output, row, up_total), plan.call.activation);
    if (next.items && next.scale != 0.0f)
        put_scaled(next, row, gate.first_output + output, result);
    else
        *find_result(plan, gate, output, row) = result;
}

// Launches the GEMM kernels of one type, and lists their tilings. product_type.cu is compiled for each type.
template <enum tensor_type type>
int32_t product_tilings_of(const struct product_plan *plan, struct product_tiling out[PRODUCT_TILINGS_MAX]);
template <enum tensor_type type> void launch_product_of(void *stream, const struct product_plan *plan);
// Launches a GEMM together with a GEMM of Q6_K weights. False: no such kernel exists.
template <enum tensor_type type>
bool launch_product_pair_of(void *stream, const struct product_plan *plan, const struct product_plan *q6_k);
void launch_product_float(void *stream, const struct product_plan *plan);

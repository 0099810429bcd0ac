// Launches of the skinny GEMM (gpu/kernels/gemm_skinny.h).
#pragma once

#include "gpu/kernels/gemm_skinny.h"

enum { SKINNY_BLOCKS = 2 }; // blocks of SKINNY_WARPS_MAX warps per multiprocessor

static inline int32_t skinny_warps(const struct product_plan &plan)
{
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS;
    int32_t n_rounds = (n_chunks + SKINNY_WARPS_MAX - 1) / SKINNY_WARPS_MAX;
    return (n_chunks + n_rounds - 1) / n_rounds;
}

// Number of blocks that run at once. Unlimited if the number of multiprocessors is unknown.
template <class shape> static int32_t skinny_blocks_at_once(const struct product_plan &plan)
{
    int32_t n =
        plan.call.device.n_multiprocessors * (shape::n_blocks * SKINNY_WARPS_MAX / skinny_warps(plan));
    return n > 0 ? n : (int32_t)LAUNCH_BLOCKS_X_MAX;
}

template <class shape> static int32_t skinny_sets(const struct product_plan &plan)
{
    int32_t set_panels = skinny_set_panels<shape>(plan);
    return (plan.first_panel[plan.call.n_parts] + set_panels - 1) / set_panels;
}

// Distributes the sets over at most n_blocks blocks.
template <class shape>
static struct skinny_split skinny_split_sets(const struct product_plan &plan, int32_t n_blocks)
{
    int32_t n_chunks = (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS, n_warps = skinny_warps(plan);
    int32_t n_rounds = (n_chunks + n_warps - 1) / n_warps,
            n_set_rounds = n_rounds * skinny_set_panels<shape>(plan) / shape::n_panels;
    int32_t n_sets = skinny_sets<shape>(plan), n = n_blocks < n_sets ? n_blocks : n_sets;
    bool whole_sets = n_set_rounds <= shape::n_rounds_most;
    int32_t n_batch = whole_sets ? shape::n_rounds_most / n_set_rounds * n_set_rounds : shape::n_rounds_most;
    return {n, n_sets / n, n_sets % n, n_chunks, n_rounds, n_batch, whole_sets};
}

template <class shape> static void launch_skinny_shape(void *stream, const struct product_plan *plan)
{
    int32_t n_warps = skinny_warps(*plan);
    struct skinny_split split = skinny_split_sets<shape>(*plan, skinny_blocks_at_once<shape>(*plan));
    struct launch_shape blocks = {(unsigned)split.n_blocks, 1, 1, (unsigned)(32 * n_warps),
                                  shape::shared_bytes(n_warps)};
    set_row_tiles(blocks, plan->call, 8 * shape::n_columns);
    launch_overlapped<gemm_skinny<shape>>(blocks, stream, *plan, split);
}

template <enum tensor_type type, int n_panels, int n_columns>
static void launch_skinny(void *stream, const struct product_plan *plan)
{
    // Groups of x in registers; a whole chunk if it fits.
    constexpr int n_held = n_columns == 2 || type == TENSOR_BF16 || type == TENSOR_F16 ? 1 : SPLIT_K_GROUPS;
    launch_skinny_shape<skinny_shape<type, n_panels, n_columns, n_held, SKINNY_BLOCKS>>(stream, plan);
}

// Divides the blocks between the two types in proportion to the bytes of their weights.
template <enum tensor_type type, enum tensor_type other, int n_panels, int n_columns>
static void launch_skinny_pair(void *stream, const struct product_plan *plan,
                               const struct product_plan *other_plan)
{
    constexpr int n_held = n_columns == 2 ? 1 : SPLIT_K_GROUPS;
    typedef skinny_shape<type, n_panels, n_columns, n_held, SKINNY_BLOCKS> shape;
    typedef skinny_shape<other, n_panels, n_columns, n_held, SKINNY_BLOCKS> other_shape;
    int64_t n_sets = skinny_sets<shape>(*plan), n_other_sets = skinny_sets<other_shape>(*other_plan);
    int64_t bytes = n_sets * plan->panel_bytes, other_bytes = n_other_sets * other_plan->panel_bytes;
    int64_t n = skinny_blocks_at_once<shape>(*plan);
    n = n < n_sets + n_other_sets ? n : n_sets + n_other_sets;
    int64_t n_other = (n * other_bytes + bytes / 2) / (bytes + other_bytes);
    n_other = n_other < 1 ? 1 : n_other > n_other_sets ? n_other_sets : n_other;
    struct skinny_split split = skinny_split_sets<shape>(*plan, (int32_t)(n - n_other > 1 ? n - n_other : 1)),
                        other_split = skinny_split_sets<other_shape>(*other_plan, (int32_t)n_other);
    int32_t n_warps = skinny_warps(*plan);
    size_t shared_bytes = shape::shared_bytes(n_warps),
           other_shared_bytes = other_shape::shared_bytes(n_warps);
    struct launch_shape blocks = {(unsigned)(split.n_blocks + other_split.n_blocks), 1, 1,
                                  (unsigned)(32 * n_warps),
                                  shared_bytes > other_shared_bytes ? shared_bytes : other_shared_bytes};
    launch_overlapped<gemm_skinny_pair<shape, other_shape>>(blocks, stream, *plan, split, *other_plan,
                                                            other_split);
}

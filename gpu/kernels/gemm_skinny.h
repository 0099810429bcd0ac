// For kernels: the skinny GEMM (few rows, as in decode steps), bound by the bandwidth of the weights.
//
// A strip is the 1 or 2 panels that a warp computes together. A block computes a range of strips, one after
// another, with split-K over its warps. In a round each warp computes one split-K chunk of the strip, and the
// partial sums are added in order in shared memory:
//
//   strip of 10 chunks, 4 warps   round 0: chunks 0 1 2 3   round 1: 4 5 6 7   round 2: 8 9
//
// Weights pass through a ring of asynchronous copies, one ring per warp. As soon as a warp has read a stage
// of its chunk, it issues the copy of the same stage of its next chunk. So about one chunk is always in
// flight, also between rounds and strips. x is held in registers: a whole chunk's if there is one column.
#pragma once

#include "gpu/kernels/operand_rows.h"
#include "gpu/kernels/product.h"
#include "gpu/kernels/tile_group.h"

enum {
    SKINNY_WARPS_MAX = 8,
    SKINNY_RING_BYTES_MAX = 74 << 10, // per block: two fit the 163 KiB of compute capability 8.0
    SKINNY_PIECES_HELD = 8,           // pieces in registers: 16,384 inputs of a row by 256 threads
};

template <enum tensor_type type>
static __device__ __forceinline__ void multiply_tile(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (type == TENSOR_BF16)
        mma_bfloat(d, a, b);
    else
        mma_half(d, a, b);
}

// Shape of a skinny GEMM. A stage has whole tiles of each panel of a strip.
template <enum tensor_type type_, int n_panels_, int n_columns_, int n_held_, int n_blocks_>
struct skinny_shape {
    static constexpr enum tensor_type type = type_;
    static constexpr int n_panels = n_panels_, n_columns = n_columns_; // a column is 8 rows
    static constexpr int n_held = n_held_;                             // groups of x in registers
    static constexpr int n_blocks = n_blocks_; // blocks of SKINNY_WARPS_MAX warps per multiprocessor
    static constexpr struct tile_format format = tile_format(type);
    static constexpr int stage_groups = tile_bytes(format) < 2048 ? 2 : format.n_groups;
    static constexpr int stage_bytes = stage_groups / format.n_groups * tile_bytes(format); // per panel
    static constexpr int n_stages = SPLIT_K_GROUPS / stage_groups;                          // per chunk
    static constexpr int chunk_bytes = n_stages * stage_bytes;
    static constexpr int slot_bytes = n_panels * stage_bytes;
    static constexpr int n_slots_fit = SKINNY_RING_BYTES_MAX / (SKINNY_WARPS_MAX * slot_bytes);
    static constexpr int n_slots = n_slots_fit >= n_stages ? n_stages : n_slots_fit >= 2 ? 2 : 1;
    static_assert(stage_groups % format.n_groups == 0 && n_stages % n_slots == 0,
                  "the slot of a stage is known");
    // Partial sums per panel and per warp. The sums of n_rounds_most rounds are added at once, to save
    // barriers. A second buffer saves the barrier after the addition.
    static constexpr int panel_sums = n_columns * 128, n_sums = n_panels * panel_sums;
    static constexpr int n_rounds_most = n_sums > 128 ? 1 : n_slots *slot_bytes <= 7 << 10 ? 4 : 2;
    static constexpr int n_buffers = n_sums > 128 ? 1 : 2;

    // [n_warps] rings, [n_buffers][n_rounds_most][n_warps] partial sums, totals of 2 panels
    static constexpr size_t shared_bytes(int n_warps)
    {
        return (size_t)n_warps * (n_slots * slot_bytes + n_buffers * n_rounds_most * n_sums * 4) +
               2 * panel_sums * 4;
    }
    static_assert(SKINNY_WARPS_MAX * (n_slots * slot_bytes + n_buffers * n_rounds_most * n_sums * 4) +
                          2 * panel_sums * 4 <=
                      PRODUCT_SHARED_BYTES_LEAST - 1024,
                  "fits on every device");
};

// Number of panels of a set. One block computes all strips of a set, because it combines their results: gate
// and up, if gated.
template <class shape>
static __host__ __device__ __forceinline__ int32_t skinny_set_panels(const struct product_plan &plan)
{
    return plan.call.gated ? 2 : shape::n_panels;
}

// Addresses of a strip's panels. If the previous strip belongs to the same part, they are found by an
// addition.
template <class shape> struct skinny_strip {
    int32_t panel; // first panel
    // Weight tiles of the strip's one or two panels. In a gated product whose strips have one panel, they
    // belong to the panels of gate and up.
    const unsigned char *tiles[2];
    int32_t part_end;

    __device__ __forceinline__ void find(const struct product_plan &plan, int32_t expert, int32_t first)
    {
        panel = first;
        bool two = shape::n_panels == 2 || plan.call.gated;
        tiles[0] = find_panel(plan, first, expert).tiles;
        tiles[1] = two ? find_panel(plan, first + 1, expert).tiles : tiles[0];
        part_end = plan.first_panel[plan.call.n_parts];
        if (!plan.call.gated) {
#pragma unroll
            for (int i = PRODUCT_PARTS_MAX - 1; i > 0; i--)
                part_end =
                    i < plan.call.n_parts && first < plan.first_panel[i] ? plan.first_panel[i] : part_end;
        }
    }

    __device__ __forceinline__ void move_on(const struct product_plan &plan, int32_t expert)
    {
        panel += shape::n_panels;
        bool whole_sets = shape::n_panels == 2 || !plan.call.gated;
        if (!whole_sets && panel % 2 != 0)
            return;
        if (panel + shape::n_panels > part_end) {
            find(plan, expert, panel);
            return;
        }
        int32_t bytes = plan.call.gated ? plan.panel_bytes : shape::n_panels * plan.panel_bytes;
        tiles[0] += bytes;
        tiles[1] += bytes;
    }

    // Returns the address of panel m of the strip.
    __device__ __forceinline__ const unsigned char *place(const struct product_plan &plan, int m) const
    {
        return shape::n_panels == 2 ? tiles[m] : plan.call.gated && panel % 2 != 0 ? tiles[1] : tiles[0];
    }
};

// The chunk that a warp computes in a round of a strip.
template <class shape> struct skinny_chunk {
    const unsigned char *tiles[shape::n_panels]; // the lane's first piece
    int32_t n_groups;                            // 0 or less: none

    __device__ __forceinline__ void find(const struct product_plan &plan, const skinny_strip<shape> &strip,
                                         int32_t index, int lane)
    {
        int32_t left = plan.n_groups - index * SPLIT_K_GROUPS;
        n_groups = left < SPLIT_K_GROUPS ? left : (int32_t)SPLIT_K_GROUPS;
#pragma unroll
        for (int m = 0; m < shape::n_panels; m++)
            tiles[m] = kept_value(strip.place(plan, m) + (int64_t)index * shape::chunk_bytes + lane * 16);
    }

    // Issues the copies of a stage, if the chunk has the stage, and commits one group in any case. `ring` is
    // the place of the lane's first piece.
    __device__ __forceinline__ void copy_stage(int stage, unsigned char *ring, int lane) const
    {
        constexpr int n_pieces = shape::stage_bytes / 16;
        int n_left = n_groups - stage * shape::stage_groups;
        if (n_left > 0) {
            bool is_half = shape::stage_groups > shape::format.n_groups && n_left < shape::stage_groups;
            int n = is_half ? n_pieces / 2 : n_pieces;
            unsigned char *slot = ring + stage % shape::n_slots * shape::slot_bytes;
#pragma unroll
            for (int m = 0; m < shape::n_panels; m++)
#pragma unroll
                for (int i = 0; i < n_pieces; i += 32)
                    if ((i + 32 <= n_pieces && shape::stage_groups == shape::format.n_groups) || i + lane < n)
                        copy_async_16(slot + m * shape::stage_bytes + i * 16,
                                      tiles[m] + stage * shape::stage_bytes + i * 16, true);
        }
        copy_async_commit();
    }
};

// The rows of x that a lane multiplies. Lanes beyond the last row read the first row; their sums are not
// stored.
template <class shape> struct skinny_x {
    const unsigned char *items[shape::n_columns]; // step 0
    int32_t step_bytes;

    __device__ __forceinline__ skinny_x(const struct product_plan &plan, const row_tile &rows, int lane)
    {
#pragma unroll
        for (int n = 0; n < shape::n_columns; n++) {
            int32_t row = n * 8 + lane / 4;
            row = rows.first + (row < rows.n ? row : 0);
            items[n] = kept_value((const unsigned char *)plan.call.x.items + (int64_t)row * STEP_ROW_BYTES +
                                  lane % 4 * 16);
        }
        step_bytes = kept_value(plan.call.x.n_rows * STEP_ROW_BYTES);
    }

    __device__ __forceinline__ void load_group(int32_t group,
                                               uint4 columns[GROUP_STEPS][shape::n_columns]) const
    {
#pragma unroll
        for (int n = 0; n < shape::n_columns; n++) {
            const unsigned char *at = items[n] + (int64_t)(group * GROUP_STEPS) * step_bytes;
#pragma unroll
            for (int i = 0; i < GROUP_STEPS; i++, at += step_bytes)
                columns[i][n] = *(const uint4 *)at;
        }
    }
};

template <class shape>
static __device__ __forceinline__ void skinny_group(struct tile_group<shape::type> groups[shape::n_panels],
                                                    const uint4 columns[GROUP_STEPS][shape::n_columns],
                                                    float acc[shape::n_panels][shape::n_columns][4])
{
#pragma unroll
    for (int m = 0; m < shape::n_panels; m++)
        groups[m].prepare();
#pragma unroll
    for (int f = 0; f < 2 * GROUP_STEPS; f++)
#pragma unroll
        for (int m = 0; m < shape::n_panels; m++) {
            uint32_t a[4];
            groups[m].fragment(f, a);
#pragma unroll
            for (int n = 0; n < shape::n_columns; n++) {
                const uint4 &column = columns[f / 2][n];
                uint32_t b[2] = {f % 2 ? column.z : column.x, f % 2 ? column.w : column.y};
                multiply_tile<shape::type>(acc[m][n], a, b);
            }
        }
}

// Computes a warp's chunk from its ring, and issues the copies of the next chunk. When x of a group has been
// used, its registers are reloaded: with x of a later group of this chunk, which begins at group `first`, or
// of the next chunk, which begins at `next_first` and has n_next_groups groups (0: keep x).
template <class shape>
static __device__ __forceinline__ void
skinny_multiply(const skinny_chunk<shape> &chunk, const skinny_chunk<shape> &next_chunk, unsigned char *ring,
                int lane, uint4 columns[shape::n_held][GROUP_STEPS][shape::n_columns],
                const skinny_x<shape> &x, int32_t first, int32_t next_first, int32_t n_next_groups,
                float acc[shape::n_panels][shape::n_columns][4])
{
    constexpr struct tile_format format = shape::format;
    constexpr int quants = format.quants_bytes, high = format.high_bytes, n = format.n_groups;
#pragma unroll
    for (int group = 0; group < SPLIT_K_GROUPS; group++) {
        int stage = group / shape::stage_groups, i = group % shape::stage_groups;
        if (i == 0) {
            copy_async_wait<shape::n_slots - 1>();
            __syncwarp(); // the copies of all lanes have arrived
        }
        struct tile_group<shape::type> groups[shape::n_panels];
#pragma unroll
        for (int m = 0; m < shape::n_panels; m++) {
            const unsigned char *tile = ring + stage % shape::n_slots * shape::slot_bytes +
                                        m * shape::stage_bytes + i / n * tile_bytes(format);
            groups[m].template load<shared_memory>(tile + i % n * quants, tile + n * quants + i % n * high,
                                                   tile + n * (quants + high), i % n, lane);
        }
        if (i == shape::stage_groups - 1) {
            __syncwarp(); // all lanes have read the slot
            if (stage + shape::n_slots < shape::n_stages)
                chunk.copy_stage(stage + shape::n_slots, ring + lane * 16, lane);
            else
                next_chunk.copy_stage(stage + shape::n_slots - shape::n_stages, ring + lane * 16, lane);
        }
        if (group < chunk.n_groups)
            skinny_group<shape>(groups, columns[group % shape::n_held], acc);
        if (shape::n_held == SPLIT_K_GROUPS) {
            if (group < n_next_groups)
                x.load_group(next_first + group, columns[group % shape::n_held]);
        } else if (group + 1 < chunk.n_groups) {
            x.load_group(first + group + 1, columns[0]);
        } else if (n_next_groups > 0 && (group == 0 || group + 1 == chunk.n_groups)) {
            x.load_group(next_first, columns[0]);
        }
    }
}

// How a launch is distributed: each block computes `each` sets of panels; the first `more` blocks compute one
// more.
struct skinny_split {
    int32_t n_blocks, each, more;
    int32_t n_chunks, n_rounds; // per strip
    int32_t n_batch;            // rounds whose partial sums are added at once
    bool whole_sets;            // a batch has all rounds of one or more sets; else a part of a strip's rounds
};

// Rounds whose partial sums are in shared memory, not added yet.
struct skinny_batch {
    int32_t panel;       // first panel of the first set, or of the strip
    int32_t first_round; // index within the strip
    int32_t n_rounds;    // so far
    int32_t n_sets;      // whole sets, or 1
    bool is_last;        // includes the strip's last round
};

// Adds the partial sums of a batch. Stores the results if the sets are complete, else the totals so far.
template <class shape>
static __device__ __forceinline__ void
skinny_add(const struct product_plan &plan, const struct skinny_split &split, const row_tile &rows,
           const skinny_batch &batch, const float *parts, float *totals)
{
    int n_warps = (int)(blockDim.x / 32), set_panels = skinny_set_panels<shape>(plan);
    int set_offset = split.whole_sets || shape::n_panels == 2 ? 0 : plan.call.gated ? batch.panel % 2 : 0;
    // The batch covers panels [begin, end) of each set.
    int begin = set_offset, end = split.whole_sets ? set_panels : begin + shape::n_panels;
    int n_chunks_left = split.n_chunks - batch.first_round * n_warps;
    int n_strip_rounds = split.whole_sets ? split.n_rounds : batch.n_rounds;
    int n_parts = n_strip_rounds * n_warps < n_chunks_left ? n_strip_rounds * n_warps : n_chunks_left;
    for (unsigned i = threadIdx.x; i < (unsigned)(batch.n_sets * shape::panel_sums); i += blockDim.x) {
        int output = (int)(i % TILE_OUTPUTS), row = (int)(i % shape::panel_sums / TILE_OUTPUTS),
            set = (int)(i / shape::panel_sums);
        if (row >= rows.n)
            continue;
        int at = (row / 8 * 32 + output % 8 * 4 + row % 8 / 2) * 4 + output / 8 * 2 + row % 2;
        float sums[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            sums[k] = k < begin || batch.first_round > 0 ? totals[k * shape::panel_sums + at] : 0.0f;
            if (k < begin || k >= end)
                continue;
            int strip = (set * (end - begin) + k - begin) / shape::n_panels;
            const float *part = parts + strip * n_strip_rounds * n_warps * shape::n_sums +
                                (k - begin) % shape::n_panels * shape::panel_sums + at;
#pragma unroll 8
            for (int j = 0; j < n_parts; j++, part += shape::n_sums)
                sums[k] = sums[k] + *part;
        }
        if (!batch.is_last || end < set_panels) {
#pragma unroll
            for (int k = 0; k < 2; k++)
                if (k >= begin && k < end)
                    totals[k * shape::panel_sums + at] = sums[k];
            continue;
        }
        int32_t panel = batch.panel - begin + set * set_panels;
        panel_place place = find_panel(plan, panel, rows.expert);
        if (plan.call.gated) {
            put_gated(plan, place, find_panel(plan, panel + 1, rows.expert), output, rows.first + row,
                      sums[0], sums[1]);
            continue;
        }
        put_result(plan, place, output, rows.first + row, sums[0]);
        if (shape::n_panels == 2)
            put_result(plan, find_panel(plan, panel + 1, rows.expert), output, rows.first + row, sums[1]);
    }
}

// Counts the block's arrival. The last block of a row tile converts the results of the tile to the next
// operand.
static __device__ __forceinline__ void skinny_convert(const struct product_plan &plan, const row_tile &rows)
{
    const struct product_launch &call = plan.call;
    uint32_t *shared = (uint32_t *)dynamic_shared(); // the rings are no longer read
    int32_t *is_last = (int32_t *)shared + SKINNY_WARPS_MAX;
    __syncthreads();
    if (threadIdx.x == 0)
        *is_last = arrive_last(call.next.arrivals + rows.first, 1, (int32_t)gridDim.x);
    __syncthreads();
    if (!*is_last)
        return;
    const struct complete_rows complete = {
        call.parts[0].y, call.parts[0].y_stride, call.expert_order, rows.first, rows.n, NULL};
    convert_rows<false, SKINNY_PIECES_HELD>(call.next.out, complete, shared);
}

template <class shape>
static __device__ __forceinline__ void skinny_block(const struct product_plan &plan,
                                                    const struct skinny_split &split, int32_t block)
{
    launch_next();
    if (plan.call.n_experts > 0)
        launch_wait(); // an earlier launch writes expert_first
    int n_warps = (int)(blockDim.x / 32), warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
    unsigned char *ring = dynamic_shared() + warp * shape::n_slots * shape::slot_bytes;
    row_tile rows = find_rows(plan, 8 * shape::n_columns);
    if (rows.n <= 0)
        return;
    int32_t set_panels = skinny_set_panels<shape>(plan);
    int32_t panel = (block * split.each + (block < split.more ? block : split.more)) * set_panels;
    int32_t end = panel + (split.each + (block < split.more ? 1 : 0)) * set_panels;

    skinny_strip<shape> strip; // strip of the next chunk
    strip.find(plan, rows.expert, panel);
    skinny_chunk<shape> chunk;
    chunk.find(plan, strip, warp, lane);
#pragma unroll
    for (int stage = 0; stage < shape::n_slots; stage++)
        chunk.copy_stage(stage, ring + lane * 16, lane);
    // Only weights have been read so far. From here on the block reads what earlier launches wrote.
    launch_wait();
    skinny_x<shape> x(plan, rows, lane);
    uint4 columns[shape::n_held][GROUP_STEPS][shape::n_columns];
#pragma unroll
    for (int i = 0; i < shape::n_held; i++)
        if (i < chunk.n_groups)
            x.load_group(warp * SPLIT_K_GROUPS + i, columns[i]);

    if ((int)threadIdx.x < rows.n && plan.call.x.scale == 0.0f)
        prefetch_line(plan.call.x.scales + rows.first + threadIdx.x);

    float *parts = (float *)(dynamic_shared() + n_warps * shape::n_slots * shape::slot_bytes);
    float *totals = parts + shape::n_buffers * shape::n_rounds_most * n_warps * shape::n_sums;
    int buffer = 0;
    skinny_batch batch = {panel, 0, 0, 1, false};
    for (int32_t index = warp; panel < end;) {
        bool is_last = index - warp + n_warps >= split.n_chunks; // last round of the strip
        int32_t next_index = is_last ? warp : index + n_warps;
        if (is_last)
            strip.move_on(plan, rows.expert);
        skinny_chunk<shape> next_chunk;
        next_chunk.find(plan, strip, next_index, lane);
        next_chunk.n_groups = kept_value(strip.panel < end ? next_chunk.n_groups : 0);
        // If x of a whole chunk is held and there is only one round, the next strip uses the same x.
        int32_t n_next_groups =
            shape::n_held < SPLIT_K_GROUPS || split.n_rounds > 1 ? next_chunk.n_groups : 0;
        float acc[shape::n_panels][shape::n_columns][4] = {};
        skinny_multiply<shape>(chunk, next_chunk, ring, lane, columns, x, index * SPLIT_K_GROUPS,
                               next_index * SPLIT_K_GROUPS, n_next_groups, acc);
        float *sums =
            parts + ((buffer * shape::n_rounds_most + batch.n_rounds) * n_warps + warp) * shape::n_sums;
#pragma unroll
        for (int i = 0; i < shape::n_panels * shape::n_columns; i++) {
            const float *four = acc[i / shape::n_columns][i % shape::n_columns];
            *(float4 *)(sums + (i * 32 + lane) * 4) = make_float4(four[0], four[1], four[2], four[3]);
        }
        batch.n_rounds++;
        panel = strip.panel;
        if (batch.n_rounds == split.n_batch || panel >= end || (is_last && !split.whole_sets)) {
            __syncthreads();
            batch.is_last = is_last;
            batch.n_sets = split.whole_sets ? (panel - batch.panel) / set_panels : 1;
            skinny_add<shape>(plan, split, rows, batch,
                              parts + buffer * shape::n_rounds_most * n_warps * shape::n_sums, totals);
            if (shape::n_buffers == 1)
                __syncthreads();
            else
                buffer = 1 - buffer;
            batch.first_round = is_last ? 0 : batch.first_round + batch.n_rounds;
            batch.panel = panel;
            batch.n_rounds = 0;
        }
        index = next_index;
        chunk = next_chunk;
    }
    copy_async_wait<0>();
    if (plan.call.next.out.items && plan.call.next.out.scale == 0.0f)
        skinny_convert(plan, rows);
}

template <class shape>
static __global__ void __launch_bounds__(32 * SKINNY_WARPS_MAX, shape::n_blocks)
    gemm_skinny(const struct product_plan plan, const struct skinny_split split)
{
    skinny_block<shape>(plan, split, (int32_t)blockIdx.x);
}

// Computes GEMMs with weights of two types in one launch: the first blocks compute one type, the others the
// other.
template <class shape, class other_shape>
static __global__ void __launch_bounds__(32 * SKINNY_WARPS_MAX, shape::n_blocks)
    gemm_skinny_pair(const struct product_plan plan, const struct skinny_split split,
                     const struct product_plan other_plan, const struct skinny_split other_split)
{
    if ((int32_t)blockIdx.x < split.n_blocks)
        skinny_block<shape>(plan, split, (int32_t)blockIdx.x);
    else
        skinny_block<other_shape>(other_plan, other_split, (int32_t)blockIdx.x - split.n_blocks);
}

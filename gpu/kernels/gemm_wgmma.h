// For kernels: the GEMM of compute capability 9.0 for more than a few rows, with wgmma. A block computes a
// tile of outputs x n_rows rows. A consumer warpgroup computes 64 outputs, each of its warps one panel of 16.
// A warp dequantizes weights from shared memory to the register operand of wgmma. The tensor cores read the
// other operand, x, from shared memory (swizzled, gpu/kernels/kernels.h).
//
// There are over_outputs x over_chunks consumer warpgroups. The over_outputs warpgroups with the same chunks
// are a slice; slice s computes split-K chunks s, s + over_chunks, .., so that few tiles occupy many warps.
// Each slice has two rings of stages in shared memory, filled with bulk copies by a producer warp of its own:
//
//   producer   -> bulk copies -> | weights: a stage is one tile of each panel    | -> registers   -> wgmma
//   of slice s -> bulk copies -> | x:       a stage is 64 inputs of all rows     | -> tensor core -> wgmma
//
// A stage has two barriers: full, which its copies complete, and empty, at which each consumer warp arrives
// when it has read the stage.
//
// If half of the multiprocessors would have no block, two blocks compute a tile of few rows. The first block
// has the first chunks and stores its totals in device memory. The second block has the other chunks and
// stores the partial sums of each. The block that ends last adds them in order.
//
// The totals are in shared memory. A warp adds the partial sums of its chunk after the slice of the previous
// chunk has added its own: `turns` has a barrier for each consumer warp. The epilogue reads the totals row by
// row.
#pragma once

#include "gpu/kernels/gemm_skinny.h"

enum {
    WARPGROUP = 128,
    WARPGROUP_PANELS = 4,
    WGMMA_BYTES_MAX = PRODUCT_SHARED_BYTES_WGMMA,
    WGMMA_BYTES_ALIGNMENT = 1024, // alignment of a stage of x
    WGMMA_BYTES_BARRIERS = 1024,
    X_STAGES_MAX = 8,
    TILE_STAGES_MAX = 4,
};

template <enum tensor_type type_, int n_rows_, int over_outputs_, int over_chunks_> struct wgmma_shape {
    static constexpr enum tensor_type type = type_;
    static constexpr int n_rows = n_rows_, over_outputs = over_outputs_, over_chunks = over_chunks_;
    static constexpr struct tile_format format = tile_format(type);
    static constexpr int n_columns = n_rows / 8; // a column has 8 rows
    static constexpr int n_panels = WARPGROUP_PANELS * over_outputs;
    static constexpr int n_consumers = WARPGROUP * over_outputs * over_chunks;
    static constexpr int n_threads = n_consumers + WARPGROUP; // the last warpgroup: a producer of each slice
    static_assert(over_chunks <= 4, "a warpgroup has four producers");
    // Registers per thread. A block starts with equal parts of the multiprocessor's 65,536 registers, in
    // multiples of 8. Then producers release registers and consumers take them. If consumers requested more
    // than were released, the last warpgroup would wait forever.
    static constexpr int registers_start = 65536 / n_threads / 8 * 8;
    static constexpr int registers_producer = 32; // 24 would give consumers no more: multiples of 8
    static constexpr int registers_left =
        (n_threads * registers_start - WARPGROUP * registers_producer) / n_consumers / 8 * 8;
    static constexpr int registers_consumer = registers_left < 232 ? registers_left : 232;

    static constexpr int x_stage_bytes = n_rows * SWIZZLED_ROW_BYTES;
    static constexpr int tile_stage_bytes = n_panels * tile_bytes(format);
    static constexpr int total_bytes = n_panels * n_columns * 512; // [panels][columns][32 lanes] float4
    static constexpr int slice_bytes_most =
        (WGMMA_BYTES_MAX - WGMMA_BYTES_ALIGNMENT - WGMMA_BYTES_BARRIERS - total_bytes) / over_chunks /
        WGMMA_BYTES_ALIGNMENT * WGMMA_BYTES_ALIGNMENT;
    // The highest number of stages of weights (at least 2) that leaves room for stages of x with the same
    // number of inputs.
    static constexpr int n_tile_stages_fit =
        slice_bytes_most / (tile_stage_bytes + 2 * format.n_groups * x_stage_bytes);
    static constexpr int n_tile_stages = n_tile_stages_fit < 2                 ? 2
                                         : n_tile_stages_fit > TILE_STAGES_MAX ? TILE_STAGES_MAX
                                                                               : n_tile_stages_fit;
    static constexpr int n_x_stages_fit =
        (slice_bytes_most - n_tile_stages * tile_stage_bytes) / x_stage_bytes;
    static constexpr int n_x_stages = n_x_stages_fit < X_STAGES_MAX ? n_x_stages_fit : X_STAGES_MAX;
    static constexpr int slice_bytes =
        (n_x_stages * x_stage_bytes + n_tile_stages * tile_stage_bytes + WGMMA_BYTES_ALIGNMENT - 1) /
        WGMMA_BYTES_ALIGNMENT * WGMMA_BYTES_ALIGNMENT;
    static constexpr int totals_at = over_chunks * slice_bytes;
    static constexpr int barriers_at = totals_at + total_bytes;
    static constexpr int slice_barriers = 2 * (n_x_stages + n_tile_stages) + n_panels;
    static constexpr int done_at = barriers_at + over_chunks * slice_barriers * 8; // one for the block
    static constexpr int is_last_at = done_at + 8;
    static constexpr int shared_bytes = WGMMA_BYTES_ALIGNMENT + is_last_at + 8;
    // The last word. The data before it starts at a multiple of 1024 and never reaches it: dynamic_shared()
    // is aligned to 128 bytes, so aligning it to 1024 skips at most 896.
    static constexpr int began_at = shared_bytes - 4;
    // If false, no kernel is compiled for this shape.
    static constexpr bool fits = n_x_stages >= 2 && shared_bytes <= WGMMA_BYTES_MAX &&
                                 is_last_at + 8 - barriers_at <= WGMMA_BYTES_BARRIERS;
    static constexpr bool is_divisible = total_bytes <= PRODUCT_PARTIAL_TILE_BYTES;
};

// How tiles are divided between two blocks: blocks t and n_tiles + t along the outputs compute tile t.
struct wgmma_division {
    int32_t n_tiles;                  // along the outputs; 0: one block computes a tile
    int32_t n_first_chunks, n_chunks; // chunks of the first block, and of both
    struct product_partials partials;
};

// The block's place in the order of the launch. `outputs` also counts the tiles of weights of another type,
// and second blocks.
template <int n_rows>
static __device__ __forceinline__ product_place find_place(const struct product_plan &plan)
{
    int64_t block = blockIdx.x + (int64_t)gridDim.x * (blockIdx.y + (int64_t)gridDim.y * blockIdx.z);
    int32_t n_row_tiles = (plan.call.x.n_rows + n_rows - 1) / n_rows;
    return product_place_of(block, (int32_t)gridDim.x, n_row_tiles,
                            product_group_tiles(n_rows, plan.call.x.n_inputs, n_row_tiles));
}

// The part of a tile that a block computes.
struct wgmma_part {
    int32_t tile, row_tile, first_chunk, end_chunk;
    bool divided, second;
};

static __device__ __forceinline__ wgmma_part find_part(const struct product_plan &plan,
                                                       const struct wgmma_division &division,
                                                       const product_place &place)
{
    wgmma_part part = {
        place.outputs,        place.rows, 0, (plan.n_groups + SPLIT_K_GROUPS - 1) / SPLIT_K_GROUPS,
        division.n_tiles > 0, false};
    if (!part.divided)
        return part;
    part.second = place.outputs >= division.n_tiles;
    if (part.second) {
        part.tile = place.outputs - division.n_tiles;
        part.first_chunk = division.n_first_chunks;
    } else {
        part.end_chunk = division.n_first_chunks;
    }
    return part;
}

// Address of the time at which the block began, for barrier_wait_timed. It is constant, so it needs no
// register.
template <int began_at> static __device__ __forceinline__ uint32_t *block_began()
{
    return (uint32_t *)(dynamic_shared() + began_at);
}

// A ring of stages and its barriers. Stages are counted from the block's begin; stage i is in slot i %
// n_stages.
template <int n_stages, int stage_bytes, int began_at> struct stage_ring {
    unsigned char *stages;
    uint64_t *full, *empty;

    __device__ __forceinline__ unsigned char *stage(uint32_t i) const
    {
        return stages + i % n_stages * stage_bytes;
    }

    __device__ __forceinline__ uint64_t *full_of(uint32_t i) const
    {
        return full + i % n_stages;
    }

    __device__ __forceinline__ void wait_full(uint32_t i) const
    {
        barrier_wait(full + i % n_stages, i / n_stages % 2);
    }

    __device__ __forceinline__ void wait_empty(uint32_t i) const // at once before the first use
    {
        if (i >= n_stages)
            barrier_wait_timed(empty + i % n_stages, i / n_stages % 2 ^ 1, block_began<began_at>());
    }

    __device__ __forceinline__ void release(uint32_t i) const // called by each consumer warp
    {
        if (threadIdx.x % 32 == 0)
            barrier_arrive(empty + i % n_stages);
    }

    __device__ __forceinline__ void init(uint32_t n_consumer_warps) const // called by one thread
    {
        for (int i = 0; i < n_stages; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, n_consumer_warps);
        }
    }
};

template <class shape> struct wgmma_slice {
    stage_ring<shape::n_x_stages, shape::x_stage_bytes, shape::began_at> x;
    stage_ring<shape::n_tile_stages, shape::tile_stage_bytes, shape::began_at> tiles;
    uint64_t *turns; // [panels]

    __device__ __forceinline__ wgmma_slice(unsigned char *memory, int slice)
    {
        unsigned char *stages = memory + slice * shape::slice_bytes;
        uint64_t *barriers = (uint64_t *)(memory + shape::barriers_at) + slice * shape::slice_barriers;
        x = {stages, barriers, barriers + shape::n_x_stages};
        barriers += 2 * shape::n_x_stages;
        tiles = {stages + shape::n_x_stages * shape::x_stage_bytes, barriers,
                 barriers + shape::n_tile_stages};
        turns = barriers + 2 * shape::n_tile_stages;
    }

    __device__ __forceinline__ void init() const // called by one thread
    {
        x.init(shape::n_panels);
        tiles.init(shape::n_panels);
        for (int i = 0; i < shape::n_panels; i++)
            barrier_init(turns + i, 1);
    }
};

// Called by the slice's producer warp.
template <class shape>
static __device__ __forceinline__ void wgmma_produce(const struct product_plan &plan, const row_tile &rows,
                                                     const wgmma_part &part, const wgmma_slice<shape> &slice,
                                                     int32_t slice_index)
{
    constexpr struct tile_format format = shape::format;
    int lane = (int)threadIdx.x % 32;
    int64_t x_stride = (int64_t)swizzled_rows(plan.call.x.n_rows) * SWIZZLED_ROW_BYTES;
    const unsigned char *x =
        (const unsigned char *)plan.call.x.items + (int64_t)rows.first * SWIZZLED_ROW_BYTES;
    uint32_t x_bytes = (uint32_t)(swizzled_rows(rows.n) * SWIZZLED_ROW_BYTES), n_tiles = 0, n_x = 0;
    const unsigned char *tiles =
        find_panel(plan, part.tile * shape::n_panels + lane % shape::n_panels, rows.expert).tiles;
    int32_t end =
        part.end_chunk * SPLIT_K_GROUPS < plan.n_groups ? part.end_chunk * SPLIT_K_GROUPS : plan.n_groups;
    for (int32_t group = (part.first_chunk + slice_index) * SPLIT_K_GROUPS; group < end;) {
        slice.tiles.wait_empty(n_tiles);
        if (lane == 0)
            barrier_expect_bytes(slice.tiles.full_of(n_tiles), shape::tile_stage_bytes);
        __syncwarp();
        if (lane < shape::n_panels)
            copy_bulk(slice.tiles.stage(n_tiles) + lane * tile_bytes(format),
                      tiles + (int64_t)(group / format.n_groups) * tile_bytes(format), tile_bytes(format),
                      slice.tiles.full_of(n_tiles));
        n_tiles++;
        for (int i = 0; i < 2 * format.n_groups && group + i / 2 < plan.n_groups; i++, n_x++) {
            slice.x.wait_empty(n_x);
            if (n_x == 0)
                launch_wait(); // only weights have been read so far
            if (lane == 0) {
                barrier_expect_bytes(slice.x.full_of(n_x), x_bytes);
                copy_bulk(slice.x.stage(n_x), x + (2 * (int64_t)group + i) * x_stride, x_bytes,
                          slice.x.full_of(n_x));
            }
            __syncwarp();
        }
        group += format.n_groups;
        if (group % SPLIT_K_GROUPS == 0)
            group += (shape::over_chunks - 1) * SPLIT_K_GROUPS;
    }
}

// Counts of stages that a consumer has begun to read.
struct wgmma_progress {
    uint32_t n_tiles, n_x;
};

// Holds the fragments of the last two halves of groups. A wgmma reads its registers until it has been waited
// for; the compiler does not know that. hold() keeps the fragments alive until then (register_hold).
struct wgmma_fragments {
    uint32_t halves[2][4][4];

    __device__ __forceinline__ void hold(int half)
    {
#pragma unroll
        for (int f = 0; f < 4; f++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                register_hold(halves[half][f][i]);
    }
};

// A group of a tile in shared memory, like tile_group. Fragments of F16 and BF16 need no conversion. Each is
// loaded where it is used, so that no load writes registers that a wgmma in flight reads. The stage is in use
// until the last fragment is loaded.
template <enum tensor_type type> struct wgmma_group : tile_group<type> {
};

template <> struct wgmma_group<TENSOR_F16> {
    const unsigned char *fragments;

    template <class Memory>
    __device__ __forceinline__ void load(const unsigned char *plane, const unsigned char *,
                                         const unsigned char *, int, int lane)
    {
        fragments = plane + lane * 16;
    }

    __device__ __forceinline__ void prepare() {}

    __device__ __forceinline__ void fragment(int f, uint32_t a[4]) const
    {
        uint4 words = shared_memory::load_16(fragments + f * 512);
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = word_of(words, i);
    }
};

template <> struct wgmma_group<TENSOR_BF16> : wgmma_group<TENSOR_F16> {
};

// Computes the partial sums of one split-K chunk: groups [begin, end).
template <class shape>
static __device__ __forceinline__ void
wgmma_chunk(const wgmma_slice<shape> &slice, int32_t begin, int32_t end, int panel, int lane,
            struct wgmma_progress &progress, struct wgmma_fragments &fragments,
            float (&acc)[shape::n_rows / 2])
{
    constexpr struct tile_format format = shape::format;
#pragma unroll
    for (int i = 0; i < shape::n_rows / 2; i++)
        acc[i] = 0.0f;
    for (int32_t first = begin; first < end; first += format.n_groups) {
        const unsigned char *at = slice.tiles.stage(progress.n_tiles) + panel * tile_bytes(format);
        slice.tiles.wait_full(progress.n_tiles);
#pragma unroll
        for (int part = 0; part < format.n_groups; part++) {
            if (first + part >= end)
                break;
            struct wgmma_group<shape::type> group;
            group.template load<shared_memory>(
                at + part * format.quants_bytes,
                at + format.n_groups * format.quants_bytes + part * format.high_bytes,
                at + format.n_groups * (format.quants_bytes + format.high_bytes), part, lane);
            group.prepare();
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int f = 0; f < 4; f++)
                    group.fragment(half * 4 + f, fragments.halves[half][f]);
                if (half > 0 && (part == format.n_groups - 1 || first + part + 1 >= end)) {
                    __syncwarp();
                    slice.tiles.release(progress.n_tiles);
                }
                slice.x.wait_full(progress.n_x);
                uint64_t x = wgmma_rows(slice.x.stage(progress.n_x));
                wgmma_fence();
#pragma unroll
                for (int f = 0; f < 4; f++)
                    wgmma<shape::n_rows, shape::type == TENSOR_BF16>(acc, fragments.halves[half][f],
                                                                     x + 2 * f);
                wgmma_commit();
                wgmma_wait<1>();
                fragments.hold(1 - half);
                if (first + part > begin || half > 0)
                    slice.x.release(progress.n_x - 1);
                progress.n_x++;
            }
        }
        progress.n_tiles++;
    }
    wgmma_wait<0>();
    wgmma_hold(acc);
    fragments.hold(1);
    slice.x.release(progress.n_x - 1);
}

// Adds a chunk's partial sums to the totals, after the previous chunk's partial sums.
template <class shape>
static __device__ __forceinline__ void wgmma_add(unsigned char *memory, const wgmma_slice<shape> &slice,
                                                 int slice_index, int32_t chunk, int panel, int lane,
                                                 const float (&acc)[shape::n_rows / 2])
{
    float4 *totals = (float4 *)(memory + shape::totals_at) + panel * shape::n_columns * 32 + lane;
    if (shape::over_chunks > 1 && chunk > 0) {
        int32_t round = chunk / shape::over_chunks;
        barrier_wait(slice.turns + panel, (uint32_t)(slice_index > 0 ? round : round - 1) % 2);
    }
#pragma unroll
    for (int n = 0; n < shape::n_columns; n++) {
        float4 total = chunk > 0 ? totals[n * 32] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        total.x = total.x + acc[4 * n];
        total.y = total.y + acc[4 * n + 1];
        total.z = total.z + acc[4 * n + 2];
        total.w = total.w + acc[4 * n + 3];
        totals[n * 32] = total;
    }
    if (shape::over_chunks > 1) {
        __syncwarp();
        if (lane == 0)
            barrier_arrive(wgmma_slice<shape>(memory, (slice_index + 1) % shape::over_chunks).turns + panel);
    }
}

// Address of the sums of a divided tile in device memory. Slot 0 has the totals of the first block, slot 1 +
// k the partial sums of chunk k of the second block. Their layout is the layout of the totals in shared
// memory.
template <class shape>
static __device__ __forceinline__ float4 *partial_place(const struct wgmma_division &division,
                                                        const wgmma_part &part, int32_t slot)
{
    int32_t n_slots = 1 + division.n_chunks - division.n_first_chunks;
    int64_t index = (int64_t)part.row_tile * division.n_tiles + part.tile;
    return (float4 *)division.partials.sums + (index * n_slots + slot) * (shape::total_bytes / 16);
}

// Stores the partial sums of a chunk of the second block.
template <class shape>
static __device__ __forceinline__ void wgmma_leave(const struct wgmma_division &division,
                                                   const wgmma_part &part, int32_t chunk, int panel, int lane,
                                                   const float (&acc)[shape::n_rows / 2])
{
    float4 *sums = partial_place<shape>(division, part, 1 + chunk - part.first_chunk) +
                   panel * shape::n_columns * 32 + lane;
#pragma unroll
    for (int n = 0; n < shape::n_columns; n++)
        sums[n * 32] = make_float4(acc[4 * n], acc[4 * n + 1], acc[4 * n + 2], acc[4 * n + 3]);
}

// Counts a block's arrival after its sums are stored. The last block adds the chunks of the second block to
// the totals of the first block, in shared memory, and returns true.
template <class shape>
static __device__ __forceinline__ bool wgmma_merge(const struct wgmma_division &division,
                                                   const wgmma_part &part, unsigned char *memory)
{
    enum { IN_FLIGHT = 8 };
    float4 *totals = (float4 *)(memory + shape::totals_at);
    int32_t *is_last = (int32_t *)(memory + shape::is_last_at);
    float4 *sums = partial_place<shape>(division, part, 0);
    if (!part.second)
        for (int i = (int)threadIdx.x; i < shape::total_bytes / 16; i += shape::n_consumers)
            sums[i] = totals[i];
    barrier_named(1, shape::n_consumers);
    if (threadIdx.x == 0) {
        int32_t *arrivals =
            division.partials.arrivals + (int64_t)part.row_tile * division.n_tiles + part.tile;
        *is_last = arrive_last(arrivals, 1, 2);
    }
    barrier_named(1, shape::n_consumers);
    if (!*is_last)
        return false;
    int32_t n_chunks = division.n_chunks - division.n_first_chunks;
    for (int i = (int)threadIdx.x; i < shape::total_bytes / 16; i += shape::n_consumers) {
        float4 total = load_published_4(sums + i);
        const float4 *next = sums + i;
#pragma unroll 1
        for (int32_t chunk = 0; chunk < n_chunks; chunk += IN_FLIGHT) {
            float4 held[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (chunk + k < n_chunks)
                    held[k] = load_published_4(next + (k + 1) * (shape::total_bytes / 16));
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (chunk + k < n_chunks) {
                    total.x = total.x + held[k].x;
                    total.y = total.y + held[k].y;
                    total.z = total.z + held[k].z;
                    total.w = total.w + held[k].w;
                }
            next += IN_FLIGHT * (shape::total_bytes / 16);
        }
        totals[i] = total;
    }
    barrier_named(1, shape::n_consumers);
    return true;
}

// Results of outputs 4 q .. 4 q + 3 of a panel, for one row.
struct wgmma_results {
    float at[4];
};

// Lane 4 g + t of a panel and column has outputs g and g + 8 of rows 2 t and 2 t + 1.
template <class shape>
static __device__ __forceinline__ wgmma_results find_totals(const unsigned char *memory, int panel, int n,
                                                            int row_in_column, int q)
{
    const float *totals = (const float *)(memory + shape::totals_at) + (panel * shape::n_columns + n) * 128;
    wgmma_results results;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int output = 4 * q + k;
        results.at[k] = totals[(output % 8 * 4 + row_in_column / 2) * 4 + row_in_column % 2 + output / 8 * 2];
    }
    return results;
}

static __device__ __forceinline__ void finish_results(wgmma_results &results, const panel_place &place,
                                                      int32_t output, float scale)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        results.at[k] = results.at[k] * scale * place.factor;
        if (place.bias && output + k < place.n_outputs)
            results.at[k] = results.at[k] + place.bias[output + k];
    }
}

static __device__ __forceinline__ void put_results(const struct product_plan &plan, wgmma_results results,
                                                   float *y, int32_t n_left)
{
    if (n_left >= 4 && !plan.call.add) {
        *(float4 *)y = make_float4(results.at[0], results.at[1], results.at[2], results.at[3]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (k < n_left)
            y[k] = plan.call.add ? fmaf(plan.call.factor, results.at[k], y[k]) : results.at[k];
}

// Not inlined, because with many inlined copies a multiprocessor would mostly wait for instruction fetches.
static __device__ __noinline__ float gate_result(float gate, float up, enum activation_kind kind)
{
    return activate_gated(gate, up, kind);
}

// The gated result of one output of the tile for one row.
template <class shape>
static __device__ __forceinline__ float
find_gated(const struct product_plan &plan, const unsigned char *memory, const panel_place &gate,
           const panel_place &up, int panel, int n, int row_in_column, int output, float scale)
{
    const float *totals = (const float *)(memory + shape::totals_at) + (panel * shape::n_columns + n) * 128 +
                          (output % 8 * 4 + row_in_column / 2) * 4 + row_in_column % 2 + output / 8 * 2;
    float result = totals[0] * scale * gate.factor,
          factor = totals[shape::n_columns * 128] * scale * up.factor;
    result = gate.bias ? result + gate.bias[output] : result;
    factor = up.bias ? factor + up.bias[output] : factor;
    return gate_result(result, factor, plan.call.activation);
}

// Address of two adjacent inputs of a row of the operand; the first is input 32 index + 16 half + 2 piece.
static __device__ __forceinline__ uint32_t *word_place(const struct activation_operand &out, int32_t row,
                                                       int32_t index, int half, int piece)
{
    return (uint32_t *)operand_swizzled_place(out, row, (index / 4 * 2 + half) * 8 + piece) + index % 4;
}

// The epilogue of a gated GEMM that writes the next operand. The outputs of two gate panels are 32 of the 128
// inputs of a group: the inputs of one lane t, which has one word of each piece (gpu/kernels/kernels.h).
// Piece p of a half has outputs 2 p and 2 p + 1 of the first (half 0) or the second panel. A warp stores one
// half of 4 rows at a time.
template <class shape>
static __device__ __forceinline__ void wgmma_store_next(const struct product_plan &plan, const row_tile &rows,
                                                        const unsigned char *memory, int32_t tile, int warp,
                                                        int lane)
{
    constexpr int n_warps = shape::n_consumers / 32, n_words = shape::n_panels / 4;
    constexpr bool are_whole = OPERAND_ALIGNMENT / SWIZZLED_STEP % n_words == 0; // tiles are whole
    const struct activation_operand &out = plan.call.next.out;
    int piece = lane % 8;
#pragma unroll 1
    for (int i = warp; i < shape::n_columns * 4; i += n_warps) {
        int n = i / 4, half = i % 2, row_in_column = i / 2 % 2 * 4 + lane / 8;
        int32_t row = n * 8 + row_in_column;
        if (row >= rows.n)
            continue;
        row += rows.first;
        float scale = row_scale(plan.call.x, row);
        uint32_t words[n_words];
#pragma unroll
        for (int k = 0; k < n_words; k++) {
            int panel = 2 * (2 * k + half);
            panel_place gate = find_panel(plan, tile * shape::n_panels + panel, 0),
                        up = find_panel(plan, tile * shape::n_panels + panel + 1, 0);
            float items[2];
#pragma unroll
            for (int j = 0; j < 2; j++) { // odd lanes begin with the odd output: half the bank conflicts
                int output = 2 * piece + (j ^ piece % 2);
                items[j] = find_gated<shape>(plan, memory, gate, up, panel, n, row_in_column, output, scale);
            }
            float low = piece % 2 ? items[1] : items[0], high = piece % 2 ? items[0] : items[1];
            words[k] = pack_scaled(out, low, high);
        }
        if constexpr (n_words == 2)
            *(uint2 *)word_place(out, row, tile * 2, half, piece) = make_uint2(words[0], words[1]);
        else
#pragma unroll
            for (int k = 0; k < n_words; k++) // the last tile may extend beyond the outputs
                if (are_whole || tile * n_words + k < plan.call.parts[0].n_outputs / SWIZZLED_STEP)
                    *word_place(out, row, tile * n_words + k, half, piece) = words[k];
    }
}

// The epilogue. A warp stores 8 rows of the outputs of a panel at a time; of a gate panel if the GEMM is
// gated.
template <class shape>
static __device__ __forceinline__ void wgmma_store(const struct product_plan &plan, const row_tile &rows,
                                                   const unsigned char *memory, int32_t tile, int warp,
                                                   int lane)
{
    constexpr int n_warps = shape::n_consumers / 32;
    int gates = plan.call.gated ? 2 : 1, n_panels = shape::n_panels / gates;
    int row_in_column = lane / 4, q = lane % 4;
    int32_t output = 4 * q;
    for (int p = warp % n_panels; p < n_panels; p += n_warps) {
        int panel = p * gates;
        panel_place place = find_panel(plan, tile * shape::n_panels + panel, rows.expert), up = place;
        if (plan.call.gated)
            up = find_panel(plan, tile * shape::n_panels + panel + 1, rows.expert);
        int32_t n_left = place.n_outputs - output;
#pragma unroll 1
        for (int n = warp / n_panels; n < shape::n_columns; n += (n_warps + n_panels - 1) / n_panels) {
            int32_t row = n * 8 + row_in_column;
            if (row >= rows.n || n_left <= 0)
                continue;
            float scale = row_scale(plan.call.x, rows.first + row);
            wgmma_results results = find_totals<shape>(memory, panel, n, row_in_column, q);
            finish_results(results, place, output, scale);
            if (plan.call.gated) {
                wgmma_results factors = find_totals<shape>(memory, panel + 1, n, row_in_column, q);
                finish_results(factors, up, output, scale);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    results.at[k] = gate_result(results.at[k], factors.at[k], plan.call.activation);
            }
            put_results(plan, results, place.y + (int64_t)(rows.first + row) * place.y_stride + output,
                        n_left);
        }
    }
}

template <class shape>
static __device__ __forceinline__ void wgmma_block(const struct product_plan &plan,
                                                   const struct wgmma_division &division,
                                                   const product_place &place)
{
    static_assert(shape::fits, "two stages of both operands");
    unsigned char *memory = dynamic_shared();
    memory +=
        (WGMMA_BYTES_ALIGNMENT - shared_address(memory) % WGMMA_BYTES_ALIGNMENT) % WGMMA_BYTES_ALIGNMENT;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const row_tile rows = {0, place.rows * shape::n_rows,
                           plan.call.x.n_rows - place.rows * shape::n_rows < shape::n_rows
                               ? plan.call.x.n_rows - place.rows * shape::n_rows
                               : shape::n_rows};
    uint64_t *done = (uint64_t *)(memory + shape::done_at);
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::over_chunks; i++)
            wgmma_slice<shape>(memory, i).init();
        barrier_init(done, 1);
        *block_began<shape::began_at>() = time_coarse();
        barrier_init_fence();
    }
    __syncthreads();
    const wgmma_part part = find_part(plan, division, place);
    if (warp >= shape::n_consumers / 32) {
        registers_lower<shape::registers_producer>();
        int slice = warp - shape::n_consumers / 32;
        if (slice < shape::over_chunks) {
            wgmma_produce<shape>(plan, rows, part, wgmma_slice<shape>(memory, slice), slice);
            // Consumers have no registers left for a timeout. So the producer waits, with a timeout, until
            // they have ended.
            barrier_wait_timed(done, 0, block_began<shape::began_at>());
        }
        return;
    }
    registers_raise<shape::registers_consumer>();
    launch_wait(); // an earlier launch may still read the memory of the results
    // The shuffle tells the compiler that the index is uniform in a warp: slice addresses get uniform
    // registers.
    int slice_index = shape::over_chunks == 1 ? 0 : __shfl_sync(0xFFFFFFFFu, warp / shape::n_panels, 0);
    int panel = warp % shape::n_panels;
    const wgmma_slice<shape> slice(memory, slice_index);
    float acc[shape::n_rows / 2];
    struct wgmma_progress progress = {0, 0};
    struct wgmma_fragments fragments = {};
    for (int32_t chunk = part.first_chunk + slice_index; chunk < part.end_chunk;
         chunk += shape::over_chunks) {
        int32_t end = (chunk + 1) * SPLIT_K_GROUPS;
        wgmma_chunk<shape>(slice, chunk * SPLIT_K_GROUPS, end < plan.n_groups ? end : plan.n_groups, panel,
                           lane, progress, fragments, acc);
        if (shape::is_divisible && part.second)
            wgmma_leave<shape>(division, part, chunk, panel, lane, acc);
        else
            wgmma_add<shape>(memory, slice, slice_index, chunk, panel, lane, acc);
    }
    barrier_named(1, shape::n_consumers);
    if (threadIdx.x == 0)
        barrier_arrive(done);
    if (shape::is_divisible && part.divided && !wgmma_merge<shape>(division, part, memory))
        return;
    if (plan.call.next.out.items)
        wgmma_store_next<shape>(plan, rows, memory, part.tile, warp, lane);
    else
        wgmma_store<shape>(plan, rows, memory, part.tile, warp, lane);
}

template <class shape>
static __global__ void __launch_bounds__(shape::n_threads, 1)
    gemm_wgmma(const struct product_plan plan, const struct wgmma_division division)
{
    launch_next();
    const product_place place = find_place<shape::n_rows>(plan);
    if (place.outputs >= 0)
        wgmma_block<shape>(plan, division, place);
}

// Computes GEMMs with weights of two types: the first n_blocks tiles of outputs belong to `plan`, the others
// to other_plan.
template <class shape, class other_shape>
static __global__ void __launch_bounds__(shape::n_threads, 1)
    gemm_wgmma_pair(const struct product_plan plan, const struct product_plan other_plan, int32_t n_blocks)
{
    static_assert(shape::n_rows == other_shape::n_rows, "one order of the tiles");
    const struct wgmma_division whole = {};
    launch_next();
    product_place place = find_place<shape::n_rows>(plan);
    if (place.outputs < 0)
        return;
    if (place.outputs < n_blocks) {
        wgmma_block<shape>(plan, whole, place);
        return;
    }
    place.outputs -= n_blocks;
    wgmma_block<other_shape>(other_plan, whole, place);
}

// For kernels: attention of a tile with asynchronous copies. A warp has a ring in shared memory that is filled
// in the order in which it reads: keys of its 32 positions of a segment, values of its dimensions, then the
// next segment's. So copies are in flight during the softmax and while other warps are waited for; nothing
// but the block table precedes them. The arithmetic is that of gpu/attention_walk.h.
#pragma once

#include "gpu/attention_walk.h"

enum {
    RING_CHUNKS = 4, // per group, the unit of waiting
    RING_GROUPS = 4, // of a warp: all keys of 32 positions x 128 dimensions
    RING_WIDTHS = 3, // the first of tile_choice.width: at most 256 value dimensions
};

static constexpr int ring_chunk_bytes(enum kv_type type)
{
    return type == KV_Q8_0 ? 256 + 32 : 512;
}

// Shared memory of a block.
static constexpr size_t ring_shared_bytes(enum kv_type type, int n_strips, int32_t key_steps)
{
    return (size_t)(SEGMENT / 32 * RING_GROUPS * RING_CHUNKS * ring_chunk_bytes(type)) +
           tile_memory::size_bytes(n_strips, key_steps);
}

// A chunk is one register of each lane of a warp: keys of 8 positions x 32 dimensions or values of 16
// positions x 16 dimensions; of KV_Q8_0 with its scales.
template <enum kv_type type, int n_strips, int n_blocks>
struct ring_shape : tile_shape<type, SEGMENT / 32, n_strips, n_blocks> {
    // Two strips leave shared memory for one block.
    static constexpr int n_blocks_resident = n_strips == 1 ? ATTENTION_BLOCKS_RESIDENT : 1;
    static constexpr int n_groups = RING_GROUPS;
    static constexpr int data_bytes = type == KV_Q8_0 ? 256 : 512;
    static constexpr int chunk_bytes = ring_chunk_bytes(type);
    static constexpr int value_groups = 16 * n_blocks / RING_CHUNKS; // of a warp and segment
    static constexpr int warp_bytes = n_groups * RING_CHUNKS * chunk_bytes;
};

// Segments of a tile, and the positions of one that any of its queries sees.
struct tile_span {
    int32_t first, last, begin, end; // segments [first, last], positions [begin, end)
    bool parts;                      // each segment's partial result is left in the scratch

    __device__ __forceinline__ int32_t from(int32_t segment) const // in the segment
    {
        return begin > segment * SEGMENT ? begin - segment * SEGMENT : 0;
    }

    __device__ __forceinline__ int32_t to(int32_t segment) const
    {
        return end - segment * SEGMENT < SEGMENT ? end - segment * SEGMENT : (int32_t)SEGMENT;
    }
};

static __device__ __forceinline__ tile_span span_of(const struct attention_launch &call,
                                                    const tile_place &place)
{
    tile_span span = {0, 0, first_seen(call, place.position_least), place.position_most + 1, false};
    span.first = span.begin / SEGMENT;
    span.last = (span.end - 1) / SEGMENT;
    return span;
}

template <class shape> struct kv_ring {
    const struct attention_arguments &arguments;
    const tile_place &place;
    const page_shape &pages;
    const tile_span &span;
    unsigned char *memory; // the warp's
    int32_t lane, warp;
    int32_t slot;           // the next group's in the ring, for reading and for copying
    int32_t segment, group; // that is copied next
    // Addresses of the 16 positions from 16 (lane % 16) on, of that segment and of the next one: the table is
    // read a segment ahead.
    uint64_t block, block_after;

    __device__ __forceinline__ kv_ring(const struct attention_arguments &arguments_, const tile_place &place_,
                                       const page_shape &pages_, const tile_span &span_, unsigned char *rings)
        : arguments(arguments_), place(place_), pages(pages_), span(span_)
    {
        lane = (int32_t)threadIdx.x % 32;
        warp = (int32_t)threadIdx.x / 32;
        memory = rings + warp * shape::warp_bytes;
        slot = group = 0;
        segment = skip_shared(span.first);
        block = find_addresses(segment);
        block_after = find_addresses(skip_shared(segment + 1));
    }

    __device__ __forceinline__ bool is_copied(int32_t index) const
    {
        return span.parts || !is_shared(arguments.call, place.sequence, place.position_most, index);
    }

    __device__ __forceinline__ int32_t skip_shared(int32_t index) const
    {
        while (index <= span.last && !is_copied(index))
            index++;
        return index;
    }

    __device__ __forceinline__ uint64_t find_addresses(int32_t index) const
    {
        int32_t at = index * (SEGMENT / 16) + lane % 16;
        if (index > span.last || at * 16 + 16 <= span.begin || at * 16 >= span.end)
            return 0;
        return (uint64_t)find_block(arguments.call, place, pages, at);
    }

    // Whether a block of 16 positions of the segment has one that a query sees.
    __device__ __forceinline__ bool is_seen(int32_t index, int32_t of_segment) const
    {
        return of_segment * 16 + 16 > span.from(index) && of_segment * 16 < span.to(index);
    }

    __device__ __forceinline__ unsigned char *chunk(int n) const
    {
        return memory + (slot * RING_CHUNKS + n) * shape::chunk_bytes;
    }

    // Copies the chunk's items, and the scales: `scale_lanes` times 16 bytes.
    __device__ __forceinline__ void copy_chunk(int n, const unsigned char *items, const unsigned char *scales,
                                               int scale_lanes)
    {
        constexpr int lanes = shape::data_bytes / 16;
        if (lane < lanes)
            copy_async_16(chunk(n) + lane * 16, items + lane * 16, true);
        else if (lane < lanes + scale_lanes)
            copy_async_16(chunk(n) + lane * 16, scales + (lane - lanes) * 16, true);
    }

    __device__ __forceinline__ const unsigned char *address_of(int32_t index) const
    {
        return (const unsigned char *)__shfl_sync(0xFFFFFFFFu, block, index);
    }

    __device__ __forceinline__ void copy_keys()
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned char *at = address_of(warp * 2 + half);
            if (!is_seen(segment, warp * 2 + half))
                continue;
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int32_t index = n * pages.key_steps + group;
                copy_chunk(half * 2 + n, at + index * shape::data_bytes, at + pages.key_scales + index * 16,
                           shape::type == KV_Q8_0 ? 1 : 0);
            }
        }
    }

    __device__ __forceinline__ void copy_values()
    {
#pragma unroll
        for (int n = 0; n < RING_CHUNKS; n++) {
            int32_t index = (group - pages.key_steps) * RING_CHUNKS + n, positions = index / shape::n_blocks,
                    value_block = warp + index % shape::n_blocks * shape::n_warps;
            const unsigned char *at = address_of(positions);
            if (is_seen(segment, positions) && value_block < pages.value_blocks)
                copy_chunk(n, at + pages.values + value_block * shape::data_bytes,
                           at + pages.value_scales + value_block / 2 * 32, shape::type == KV_Q8_0 ? 2 : 0);
        }
    }

    // Copies the next group to the slot of the one just read.
    __device__ __forceinline__ void copy_next()
    {
        if (segment <= span.last) {
            if (group < pages.key_steps)
                copy_keys();
            else
                copy_values();
            if (++group == pages.key_steps + shape::value_groups) {
                group = 0;
                segment = skip_shared(segment + 1);
                block = block_after;
                block_after = find_addresses(skip_shared(segment + 1));
            }
        }
        copy_async_commit();
        slot = slot + 1 == shape::n_groups ? 0 : slot + 1;
    }

    __device__ __forceinline__ void start()
    {
#pragma unroll
        for (int i = 0; i < shape::n_groups; i++)
            copy_next();
    }

    // Waits for the group in the next slot. A lane reads what it copied itself, except of bytes and scales.
    __device__ __forceinline__ void wait()
    {
        copy_async_wait<shape::n_groups - 1>();
        if (shape::type == KV_Q8_0)
            __syncwarp();
    }

    // The group in the next slot has been read.
    __device__ __forceinline__ void release()
    {
        if (shape::type == KV_Q8_0)
            __syncwarp();
        copy_next();
    }

    __device__ __forceinline__ uint4 read_keys(int n) const
    {
        const unsigned char *at = chunk(n);
        if (shape::type != KV_Q8_0)
            return ((const uint4 *)at)[lane];
        return widen_keys(((const uint2 *)at)[lane],
                          half2_low(((const uint16_t *)(at + shape::data_bytes))[lane / 4]));
    }

    __device__ __forceinline__ uint4 read_values(int n) const
    {
        const unsigned char *at = chunk(n);
        if (shape::type != KV_Q8_0)
            return ((const uint4 *)at)[lane];
        return widen_values(((const uint2 *)at)[lane], ((const uint2 *)(at + shape::data_bytes))[lane % 4]);
    }
};

// Scores of a segment. The barrier before they are stored: the segment's before is no longer read.
template <class shape>
static __device__ __forceinline__ void score_segment(kv_ring<shape> &ring, const tile_memory &memory,
                                                     int32_t segment)
{
    float acc[shape::n_strips][4][4] = {};
    bool first = ring.is_seen(segment, ring.warp * 2), second = ring.is_seen(segment, ring.warp * 2 + 1);
    for (int32_t step = 0; step < ring.pages.key_steps; step++) {
        ring.wait();
        if (first || second) {
            uint4 key[4];
#pragma unroll
            for (int n = 0; n < RING_CHUNKS; n++)
                key[n] = (n < 2 ? first : second) ? ring.read_keys(n) : make_uint4(0, 0, 0, 0);
            score_step<shape>(memory, ring.pages.key_steps, step, key, acc);
        }
        ring.release();
    }
    __syncthreads();
    if (first || second)
        store_scores<shape>(memory, ring.warp * 32, acc);
}

template <class shape>
static __device__ __forceinline__ void add_values_of(kv_ring<shape> &ring, const tile_memory &memory,
                                                     int32_t segment,
                                                     float acc[shape::n_strips][shape::n_blocks][2][4])
{
    int32_t to = ring.span.to(segment);
#pragma unroll 1
    for (int32_t group = 0; group < shape::value_groups; group++) {
        ring.wait();
#pragma unroll
        for (int n = 0; n < RING_CHUNKS; n++) {
            constexpr int n_blocks = shape::n_blocks;
            int32_t index = group * RING_CHUNKS + n, block = index / n_blocks;
            if (!ring.is_seen(segment, block) ||
                ring.warp + n % n_blocks * shape::n_warps >= ring.pages.value_blocks)
                continue;
            uint4 value = ring.read_values(n);
            if (block * 16 + 16 > to)
                value = clear_values(value, to - block * 16 - ring.lane % 4 * 4);
            uint32_t b[2][2] = {{value.x, value.y}, {value.z, value.w}};
#pragma unroll
            for (int strip = 0; strip < shape::n_strips; strip++) {
                uint32_t a[4];
                load_weights(memory, strip, block, a);
                mma_half(acc[strip][n % n_blocks][0], a, b[0]);
                mma_half(acc[strip][n % n_blocks][1], a, b[1]);
            }
        }
        ring.release();
    }
}

template <class shape>
static __device__ __forceinline__ void attend_ring(const struct attention_arguments &arguments,
                                                   const tile_place &place, const tile_span &span)
{
    static_assert(RING_CHUNKS % shape::n_blocks == 0, "a group has whole blocks of 16 positions");
    const struct attention_launch &call = arguments.call;
    const page_shape pages = page_shape_of<shape::type>(call.pages);
    const tile_memory memory(shape::n_strips, pages.key_steps);
    kv_ring<shape> ring(arguments, place, pages, span,
                        dynamic_shared() + tile_memory::size_bytes(shape::n_strips, pages.key_steps));
    ring.start();
    load_queries<shape>(call, place, pages.key_steps, memory);
    for (int32_t i = (int32_t)threadIdx.x; i < shape::n_queries; i += shape::n_threads)
        memory.states[i] = {-INFINITY, 0.0f};
    __syncthreads();
    float totals[shape::n_strips][shape::n_blocks][2][4] = {};
    for (int32_t segment = span.first; segment <= span.last; segment++) {
        float sums[shape::n_strips][shape::n_blocks][2][4] = {};
        if (ring.is_copied(segment)) {
            score_segment<shape>(ring, memory, segment);
            __syncthreads();
            weigh_queries<shape>(call, place, segment, memory, span.parts);
            __syncthreads();
            add_values_of<shape>(ring, memory, segment, sums);
        } else {
            take_part<shape>(arguments, place, memory, segment, sums);
        }
        if (span.parts)
            leave_part<shape>(arguments, place, memory, segment, sums);
        else
            for_items<shape>([&](int strip, int block, int half, int i, item_place item) {
                float &total = totals[strip][block][half][i];
                total = merge_item(total, sums[strip][block][half][i], memory.factors[item.query]);
            });
    }
    if (!span.parts)
        finish_tile<shape>(arguments, place, memory, totals);
}

// Counts the arrival of a block that left partial results of a cut sequence; the last one merges them, in
// order of segments.
template <class shape>
static __device__ __forceinline__ void merge_arrived(const struct attention_arguments &arguments,
                                                     const tile_place &place, int32_t sequence)
{
    const struct attention_launch &call = arguments.call;
    int32_t *is_last = (int32_t *)dynamic_shared(), dim = call.pages.value_dim, n_pairs = (dim + 1) / 2;
    __syncthreads(); // all partial results are stored, all of the tile's shared memory was read
    if (threadIdx.x == 0) {
        int32_t *arrivals = call.dealt.arrivals + (int64_t)blockIdx.y * call.extent.n_sequences + sequence;
        __threadfence();
        *is_last = atomicAdd(arrivals, 1) == place.sequence.n_runs - 1;
        if (*is_last)
            atomicAdd(arrivals, -place.sequence.n_runs);
        __threadfence();
    }
    __syncthreads();
    if (!*is_last)
        return;
    for (int32_t i = (int32_t)threadIdx.x; i < place.n_queries * n_pairs; i += shape::n_threads) {
        int32_t query = i / n_pairs, d = i % n_pairs * 2, head = query_head(place, query);
        int64_t part = place.sequence.first_part + (place.first_query + query) / place.group;
        struct query_state state = {-INFINITY, 0.0f};
        float totals[2] = {0.0f, 0.0f};
        merge_parts<2>(arguments, part, head, 0, query_position(call, place, query) / SEGMENT, d, state,
                       totals);
        merge_factors factors = merge_sink(call, head, state);
        float *out = call.out + query_row(place, query) * call.out_stride + (int64_t)head * dim;
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (d + j < dim)
                out[d + j] = merge_item(totals[j], 0.0f, factors) / state.sum;
    }
}

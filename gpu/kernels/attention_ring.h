// For kernels: attention of a tile with asynchronous copies. Each warp has a ring in shared memory, filled in
// the order in which the warp reads it:
//
//   segment i: keys of its 32 positions, values of its dimensions | segment i + 1: keys, values | ..
//
// So copies are in flight also during the softmax and at barriers; they depend only on the block table. The
// arithmetic is the same as in gpu/kernels/attention_walk.h.
#pragma once

#include "gpu/kernels/attention_walk.h"

enum {
    RING_CHUNKS = 4, // chunks per group, the unit of waiting
    RING_GROUPS = 4, // groups per warp, enough for the keys of 32 positions x 128 dimensions
    RING_WIDTHS = 3, // number of values of tile_choice.width that allow a ring: at most 256 value dimensions
};

static constexpr int ring_chunk_bytes(enum kv_type type)
{
    return type == KV_Q8_0 ? 256 + 32 : 512;
}

// Size of the shared memory of a block.
static constexpr size_t ring_shared_bytes(enum kv_type type, int n_strips, int32_t key_steps)
{
    return (size_t)(SEGMENT / 32 * RING_GROUPS * RING_CHUNKS * ring_chunk_bytes(type)) +
           tile_memory::size_bytes(n_strips, key_steps);
}

// The ring's units. A chunk is one register of each lane of a warp: keys of 8 positions x 32 dimensions, or
// values of 16 positions x 16 dimensions; for KV_Q8_0 with their scales.
template <enum kv_type type, int n_strips, int n_blocks>
struct ring_shape : tile_shape<type, SEGMENT / 32, n_strips, n_blocks> {
    // A tile of two strips uses so much shared memory that only one block fits.
    static constexpr int n_blocks_resident = n_strips == 1 ? ATTENTION_BLOCKS_RESIDENT : 1;
    static constexpr int n_groups = RING_GROUPS;
    static constexpr int data_bytes = type == KV_Q8_0 ? 256 : 512;
    static constexpr int chunk_bytes = ring_chunk_bytes(type);
    static constexpr int value_groups = 16 * n_blocks / RING_CHUNKS; // per warp and segment
    static constexpr int group_bytes = RING_CHUNKS * chunk_bytes, warp_bytes = n_groups * group_bytes;
};

// The segments and the positions that any query of a tile sees. from() and to() give the part of a segment
// that lies within them.
struct tile_span {
    int32_t first, last, begin, end; // segments [first, last], positions [begin, end)
    bool parts;                      // store each segment's partial result in the scratch

    __device__ __forceinline__ int32_t from(int32_t segment) const // position within the segment
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
    tile_span span = {0, 0, first_seen(call, place.position_least),
                      last_seen(call, place.sequence, place.position_most) + 1, false};
    span.first = span.begin / SEGMENT;
    span.last = (span.end - 1) / SEGMENT;
    return span;
}

// True if the tile reads the keys and values of the segment; false if it uses the partial result of a shared
// tile.
static __device__ __forceinline__ bool is_copied(const struct attention_launch &call, const tile_place &place,
                                                 const tile_span &span, int32_t segment)
{
    return span.parts || !is_shared(call, place.sequence, place.position_most, segment);
}

// Returns a mask with one bit for each block of 16 positions of a segment that overlaps [from, to).
static __device__ __forceinline__ uint32_t seen_blocks(int32_t from, int32_t to)
{
    return ((1u << (to + 15) / 16) - 1) & ~((1u << from / 16) - 1);
}

// A warp's ring. `Tiles` iterates over the tiles of the thread block: next(place, span) finds the next tile,
// or returns false at the end.
template <class shape, class Tiles> struct kv_ring {
    const struct attention_arguments &arguments;
    const page_shape &pages;
    unsigned char *memory; // the warp's part of the shared memory
    int32_t lane, warp;
    unsigned char *slot; // next group's slot: read first, then overwritten by a copy
    // State of the segment being copied: its next group, a mask of the visible blocks of 16 positions, and
    // the address of block lane % 16.
    bool copies;
    int32_t group;
    uint32_t seen;
    uint64_t block;
    // State of the following segment. Its block table entry is read one segment ahead.
    Tiles tiles;
    tile_place place;
    tile_span span;
    int32_t segment;
    bool has_after;
    uint64_t block_after;

    __device__ __forceinline__ kv_ring(const struct attention_arguments &arguments_, const page_shape &pages_,
                                       const Tiles &tiles_, unsigned char *rings)
        : arguments(arguments_), pages(pages_), tiles(tiles_)
    {
        lane = (int32_t)threadIdx.x % 32;
        warp = (int32_t)threadIdx.x / 32;
        memory = rings + warp * shape::warp_bytes;
        slot = memory;
        span.last = segment = -1;
        block_after = 0;
        find_after();
        take_after();
#pragma unroll 1
        for (int i = 0; i < shape::n_groups; i++)
            copy_next();
    }

    // Called once per segment, before the last of its groups is copied.
    __device__ __forceinline__ void find_after()
    {
        has_after = true;
        do {
            while (++segment > span.last) {
                if (!tiles.next(place, span)) {
                    has_after = false;
                    return;
                }
                segment = span.first - 1;
            }
        } while (!is_copied(arguments.call, place, span, segment));
        int32_t at = segment * (SEGMENT / 16) + lane % 16;
        block_after = (uint64_t)arguments.call.pages.memory; // any valid address; it is not read
        if (at * 16 + 16 > span.begin && at * 16 < span.end)
            block_after = (uint64_t)find_block(arguments.call, place, pages, at);
    }

    __device__ __forceinline__ void take_after()
    {
        copies = has_after;
        group = 0;
        seen = has_after ? seen_blocks(span.from(segment), span.to(segment)) : 0;
        block = block_after;
    }

    __device__ __forceinline__ unsigned char *chunk(int n) const
    {
        return slot + n * shape::chunk_bytes;
    }

    // Gets the address of block `index` of the segment from the lane that has it.
    __device__ __forceinline__ const unsigned char *address_of(int32_t index) const
    {
        return (const unsigned char *)__shfl_sync(0xFFFFFFFFu, block, index);
    }

    // Copies chunk n of the block of 16 positions at `at`: the items, and for KV_Q8_0 `scale_bytes` of
    // scales. Writes zeros if not `wanted`.
    __device__ __forceinline__ void copy_chunk(int n, const unsigned char *at, int32_t items, int32_t scales,
                                               int scale_bytes, bool wanted)
    {
        constexpr int lanes = shape::data_bytes / 16;
        if (shape::type != KV_Q8_0)
            copy_async_16(chunk(n) + lane * 16, at + (items + lane * 16), wanted);
        else if (lane < lanes + scale_bytes / 16)
            copy_async_16(chunk(n) + lane * 16,
                          at + (lane < lanes ? items + lane * 16 : scales + (lane - lanes) * 16), wanted);
    }

    __device__ __forceinline__ void copy_keys()
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned char *at = address_of(warp * 2 + half);
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int32_t place = n * pages.key_steps + group;
                copy_chunk(half * 2 + n, at, place * shape::data_bytes,
                           (int32_t)pages.key_scales + place * 16, 16, seen >> (warp * 2 + half) & 1);
            }
        }
    }

    __device__ __forceinline__ void copy_values()
    {
        constexpr int n_blocks = shape::n_blocks;
#pragma unroll
        for (int i = 0; i < RING_CHUNKS / n_blocks; i++) {
            int32_t index = (group - pages.key_steps) * (RING_CHUNKS / n_blocks) + i;
            const unsigned char *at = address_of(index);
#pragma unroll
            for (int n = 0; n < n_blocks; n++) {
                int32_t value_block = warp + n * shape::n_warps;
                copy_chunk(i * n_blocks + n, at, (int32_t)pages.values + value_block * shape::data_bytes,
                           (int32_t)pages.value_scales + value_block / 2 * 32, 32,
                           (seen >> index & 1) && value_block < pages.value_blocks);
            }
        }
    }

    // Copies the next group to the slot of the group that was just read. A segment has more groups than the
    // ring.
    __device__ __forceinline__ void copy_next()
    {
        if (copies) {
            if (group < pages.key_steps)
                copy_keys();
            else
                copy_values();
            if (++group == pages.key_steps + shape::value_groups)
                take_after();
        }
        copy_async_commit();
        slot = slot + shape::group_bytes == memory + shape::warp_bytes ? memory : slot + shape::group_bytes;
    }

    // Waits for the group in the next slot. With binary16 a lane reads only what it copied itself.
    __device__ __forceinline__ void wait()
    {
        copy_async_wait<shape::n_groups - 1>();
        if (shape::type == KV_Q8_0)
            __syncwarp();
    }

    // Called after the warp has read the group in the next slot.
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

// Computes the scores of a segment. Stores them after a barrier, once no warp reads the scores of the
// previous segment.
template <class shape, class Ring>
static __device__ __forceinline__ void score_segment(Ring &ring, const tile_memory &memory, uint32_t seen,
                                                     int32_t n_queries)
{
    float acc[shape::n_strips][4][4] = {};
    bool any = seen >> ring.warp * 2 & 3;
#pragma unroll 1
    for (int32_t step = 0; step < ring.pages.key_steps; step++) {
        ring.wait();
        if (any) {
            uint4 key[4];
#pragma unroll
            for (int n = 0; n < RING_CHUNKS; n++)
                key[n] = ring.read_keys(n);
            score_step<shape>(memory, ring.pages.key_steps, step, key, acc);
        }
        ring.release();
    }
    __syncthreads();
    if (any)
        store_scores<shape>(memory, ring.warp * 32, n_queries, acc);
}

// Adds weights times values for the first `to` positions of a segment. For blocks that no query sees, adds
// zeros times zeros.
template <class shape, class Ring>
static __device__ __forceinline__ void add_segment(Ring &ring, const tile_memory &memory, int32_t to,
                                                   float acc[shape::n_strips][shape::n_blocks][2][4])
{
    constexpr int n_blocks = shape::n_blocks, blocks = RING_CHUNKS / n_blocks; // blocks in a group
#pragma unroll 1
    for (int32_t group = 0; group < shape::value_groups; group++) {
        ring.wait();
        uint4 value[RING_CHUNKS];
#pragma unroll
        for (int n = 0; n < RING_CHUNKS; n++)
            value[n] = ring.read_values(n);
        if ((group + 1) * blocks * 16 > to)
#pragma unroll
            for (int n = 0; n < RING_CHUNKS; n++)
                value[n] =
                    clear_values(value[n], to - (group * blocks + n / n_blocks) * 16 - ring.lane % 4 * 4);
#pragma unroll
        for (int n = 0; n < RING_CHUNKS; n++) {
            uint32_t b[2][2] = {{value[n].x, value[n].y}, {value[n].z, value[n].w}};
#pragma unroll
            for (int strip = 0; strip < shape::n_strips; strip++) {
                uint32_t a[4];
                load_weights(memory, strip, group * blocks + n / n_blocks, a);
                mma_half(acc[strip][n % n_blocks][0], a, b[0]);
                mma_half(acc[strip][n % n_blocks][1], a, b[1]);
            }
        }
        ring.release();
    }
}

// Computes one tile. Tiles must be computed in the order in which the ring copies them.
template <class shape, class Ring>
static __device__ __forceinline__ void attend_ring(const struct attention_arguments &arguments,
                                                   const tile_place &place, const tile_span &span, Ring &ring,
                                                   const tile_memory &memory)
{
    static_assert(RING_CHUNKS % shape::n_blocks == 0, "a group has whole blocks of 16 positions");
    const struct attention_launch &call = arguments.call;
    load_queries<shape>(call, place, ring.pages.key_steps, memory);
    clear_padding<shape>(place, memory);
    __syncthreads();
    float totals[shape::n_strips][shape::n_blocks][2][4] = {};
    for (int32_t segment = span.first; segment <= span.last; segment++) {
        float sums[shape::n_strips][shape::n_blocks][2][4] = {};
        if (is_copied(call, place, span, segment)) {
            int32_t to = span.to(segment);
            ring.find_after();
            score_segment<shape>(ring, memory, seen_blocks(span.from(segment), to), place.n_queries);
            __syncthreads();
            weigh_queries<shape>(call, place, segment, memory, span.parts);
            __syncthreads();
            add_segment<shape>(ring, memory, to, sums);
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

// Counts the arrival of a block that stored partial results of a cut sequence. The last block merges all of
// them, in order of segments, and returns true.
template <class shape>
static __device__ __forceinline__ bool merge_arrived(const struct attention_arguments &arguments,
                                                     const tile_place &place, int32_t sequence)
{
    const struct attention_launch &call = arguments.call;
    int32_t *is_last = (int32_t *)dynamic_shared(), dim = call.pages.value_dim, n_pairs = (dim + 1) / 2;
    __syncthreads(); // all partial results are stored; the tile's shared memory is no longer read
    if (threadIdx.x == 0) {
        int32_t *arrivals = call.assigned.arrivals + (int64_t)blockIdx.y * call.extent.n_sequences + sequence;
        *is_last = arrive_last(arrivals, 1, place.sequence.n_runs);
    }
    __syncthreads();
    if (!*is_last)
        return false;
    for (int32_t i = (int32_t)threadIdx.x; i < place.n_queries * n_pairs; i += shape::n_threads) {
        int32_t query = i / n_pairs, d = i % n_pairs * 2, head = query_head(place, query);
        int64_t part = place.sequence.first_part + divide_by(place.first_query + query, place.group_magic);
        struct query_state state = {-INFINITY, 0.0f};
        float totals[2] = {0.0f, 0.0f};
        int32_t last = last_seen(call, place.sequence, query_position(call, place, query));
        merge_parts<2>(arguments, part, head, 0, last / SEGMENT, d, state, totals);
        merge_factors factors = merge_sink(call, head, state);
        float *out = call.out + query_row(place, query) * call.strides.out + (int64_t)head * dim;
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (d + j < dim)
                out[d + j] = merge_item(totals[j], 0.0f, factors) / state.sum;
    }
    return true;
}

// The attention kernels for one type of pages, KV_TYPE. The build compiles this file once for each type. The
// kernels differ in their tiles; the arithmetic is the same (gpu/kernels/kernels_attention.h).
#include "gpu/kernels/attention_kernels.h"
#include "gpu/kernels/attention_ring.h"

#include <assert.h>

// Sets the positions of the first and the last query of the tile.
static __device__ __forceinline__ void set_positions(tile_place &place)
{
    place.position_least = place.sequence.position + divide_by(place.first_query, place.group_magic);
    place.position_most =
        place.sequence.position + divide_by(place.first_query + place.n_queries - 1, place.group_magic);
}

// Finds the tile of a decode block, which computes small sequences. The grid is [sequences or runs, key-value
// heads x tiles, segments or 1].
template <class shape>
static __device__ __forceinline__ bool find_small(const struct attention_arguments &arguments,
                                                  tile_place &place)
{
    int32_t n_most = arguments.n_strips_small * STRIP,
            n_tiles = (n_most + shape::n_queries - 1) / shape::n_queries;
    place.kv_head = (int32_t)blockIdx.y / n_tiles;
    place.first_query = (int32_t)blockIdx.y % n_tiles * shape::n_queries;
    int32_t n = place.sequence.n_rows * place.group, left = n - place.first_query;
    if (left <= 0 || n > n_most)
        return false;
    place.n_queries = left < shape::n_queries ? left : (int32_t)shape::n_queries;
    set_positions(place);
    place.only_segment = arguments.split_kv ? (int32_t)blockIdx.z : -1;
    return !arguments.split_kv ||
           !is_shared(arguments.call, place.sequence, place.position_most, place.only_segment);
}

// Finds the tile of a prefill block, which computes the other sequences. The grid is [tiles, key-value
// heads]; tiles of all sequences are numbered consecutively.
template <class shape>
static __device__ __forceinline__ bool find_large(const struct attention_arguments &arguments,
                                                  tile_place &place)
{
    const struct attention_launch &call = arguments.call;
    int32_t lane = (int32_t)threadIdx.x % 32;
    int32_t index = (int32_t)(gridDim.x - 1 - blockIdx.x); // last tiles first: they see most
    place.kv_head = (int32_t)blockIdx.y;
    for (int32_t base = 0; base < call.extent.n_sequences; base += 32) {
        int32_t n =
            base + lane < call.extent.n_sequences ? call.sequences[base + lane].n_rows * place.group : 0;
        int32_t n_tiles =
            n > arguments.n_strips_small * STRIP ? (n + shape::n_queries - 1) / shape::n_queries : 0;
        int32_t sum = n_tiles; // inclusive prefix sum of tiles over the lanes
        for (int distance = 1; distance < 32; distance *= 2) {
            int32_t other = __shfl_sync(0xFFFFFFFFu, sum, lane >= distance ? lane - distance : lane);
            sum += lane >= distance ? other : 0;
        }
        unsigned beyond = __ballot_sync(0xFFFFFFFFu, sum > index);
        if (!beyond) {
            index -= __shfl_sync(0xFFFFFFFFu, sum, 31);
            continue;
        }
        int found = __ffs((int)beyond) - 1;
        place.first_query = (index - __shfl_sync(0xFFFFFFFFu, sum - n_tiles, found)) * shape::n_queries;
        int32_t left = __shfl_sync(0xFFFFFFFFu, n, found) - place.first_query;
        place.n_queries = left < shape::n_queries ? left : (int32_t)shape::n_queries;
        place.sequence = call.sequences[base + found];
        place.sequence.n_shared = 0;
        set_positions(place);
        return true;
    }
    return false;
}

// Finds the tile of a shared-prefix block. The grid is [tiles, key-value heads].
static __device__ __forceinline__ bool find_shared(const struct attention_arguments &arguments,
                                                   tile_place &place)
{
    const struct attention_launch &call = arguments.call;
    struct attention_shared_tile tile = call.shared.tiles[blockIdx.x];
    place.kv_head = (int32_t)blockIdx.y;
    place.members = call.shared.members + tile.first_member;
    place.sequence.first_page = tile.first_page;
    place.sequence.first_part = tile.first_member;
    place.first_query = tile.first_query;
    place.n_queries = tile.n_queries;
    place.only_segment = tile.segment;
    // If the window cuts the segment for a sequence, the sequence computes the segment itself (is_shared).
    // The segment ends before the positions of all members.
    place.position_least = tile.position_least;
    place.position_most = (tile.segment + 1) * SEGMENT - 1;
    return tile.n_queries > 0 && first_seen(call, tile.position_least) <= tile.segment * SEGMENT;
}

template <class shape>
static __global__ void __launch_bounds__(shape::n_threads, shape::n_blocks_resident)
    attend(const struct attention_arguments arguments, enum tile_way way)
{
    launch_next();
    launch_wait();
    tile_place place = start_place(arguments);
    if (way == TILES_SMALL)
        place.sequence = arguments.call.sequences[blockIdx.x];
    bool found = way == TILES_SMALL   ? find_small<shape>(arguments, place)
                 : way == TILES_LARGE ? find_large<shape>(arguments, place)
                                      : find_shared(arguments, place);
    if (found)
        attend_tile<shape>(arguments, place);
}

// Limits a tile's segments to place.only_segment, or to none.
static __device__ __forceinline__ void select_segment(const tile_place &place, tile_span &span)
{
    span.parts = true;
    if (place.only_segment > span.first)
        span.first = place.only_segment;
    if (place.only_segment < span.last)
        span.last = place.only_segment;
}

// Iterates over the tiles of a run, one sequence after another. Without assigned runs, there is the tile of
// one sequence.
template <class shape> struct run_tiles {
    const struct attention_arguments &arguments;
    struct attention_run begin, end;
    int32_t sequence; // next sequence to visit

    __device__ __forceinline__ run_tiles(const struct attention_arguments &arguments_) : arguments(arguments_)
    {
        begin = {(int32_t)blockIdx.x, 0};
        end = {begin.sequence + 1, 0};
        if (arguments.assigned) {
            begin = arguments.call.assigned.runs[blockIdx.x];
            end = arguments.call.assigned.runs[blockIdx.x + 1];
        }
        sequence = begin.sequence;
    }

    __device__ __forceinline__ bool is_empty() const
    {
        return begin.sequence == end.sequence && begin.segment == end.segment;
    }

    // True if the tile is divided between the blocks of several runs.
    __device__ __forceinline__ bool is_cut(const tile_place &place) const
    {
        return arguments.assigned && place.sequence.n_runs > 1;
    }

    // Finds the next tile. Its span is empty if the run has none of the tile's segments. False: no tile is
    // left.
    __device__ __forceinline__ bool next(tile_place &place, tile_span &span)
    {
        int32_t last = end.segment > 0 ? end.sequence : end.sequence - 1;
        while (sequence <= last) {
            int32_t index = sequence++;
            place = start_place(arguments);
            place.sequence = arguments.call.sequences[index];
            if (!find_small<shape>(arguments, place))
                continue;
            span = span_of(arguments.call, place);
            if (is_cut(place))
                limit_span(place, index, span);
            else if (arguments.split_kv)
                select_segment(place, span);
            return true;
        }
        return false;
    }

    // Limits a tile's segments to the run's segments.
    __device__ __forceinline__ void limit_span(const tile_place &place, int32_t index, tile_span &span) const
    {
        span.parts = true;
        int32_t first = place.sequence.n_shared;
        if (index == begin.sequence && begin.segment > first)
            first = begin.segment;
        if (first > span.first)
            span.first = first;
        if (index == end.sequence && end.segment - 1 < span.last)
            span.last = end.segment - 1;
    }
};

template <class shape>
static __global__ void __launch_bounds__(shape::n_threads, shape::n_blocks_resident)
    decode(const struct attention_arguments arguments)
{
    launch_next();
    launch_wait();
    run_tiles<shape> tiles(arguments);
    if (tiles.is_empty())
        return;
    const page_shape pages = page_shape_of<shape::type>(arguments.call.pages);
    const tile_memory memory(shape::n_strips, pages.key_steps);
    kv_ring<shape, run_tiles<shape>> ring(arguments, pages, tiles,
                                          dynamic_shared() +
                                              tile_memory::size_bytes(shape::n_strips, pages.key_steps));
    tile_place place;
    tile_span span;
    while (tiles.next(place, span)) {
        if (span.first <= span.last)
            attend_ring<shape>(arguments, place, span, ring, memory);
        if (tiles.is_cut(place) ? merge_arrived<shape>(arguments, place, tiles.sequence - 1) : !span.parts)
            finish_rows(arguments.call, place);
        __syncthreads(); // the next tile uses the same shared memory
    }
}

// Iterator over the only tile of a block.
struct one_tile {
    tile_place place;
    tile_span span;
    bool taken;

    __device__ __forceinline__ bool next(tile_place &to, tile_span &of)
    {
        if (taken)
            return false;
        to = place;
        of = span;
        return taken = true;
    }
};

// The kernel for prefill and for shared prefixes.
template <class shape>
static __global__ void __launch_bounds__(shape::n_threads, shape::n_blocks_resident)
    prefill(const struct attention_arguments arguments, enum tile_way way)
{
    launch_next();
    launch_wait();
    one_tile tile = {};
    tile.place = start_place(arguments);
    if (!(way == TILES_LARGE ? find_large<shape>(arguments, tile.place) : find_shared(arguments, tile.place)))
        return;
    tile.span = span_of(arguments.call, tile.place);
    if (way == TILES_SHARED)
        select_segment(tile.place, tile.span);
    const page_shape pages = page_shape_of<shape::type>(arguments.call.pages);
    const tile_memory memory(shape::n_strips, pages.key_steps);
    kv_ring<shape, one_tile> ring(
        arguments, pages, tile, dynamic_shared() + tile_memory::size_bytes(shape::n_strips, pages.key_steps));
    if (tile.span.first <= tile.span.last)
        attend_ring<shape>(arguments, tile.place, tile.span, ring, memory);
    if (way == TILES_LARGE)
        finish_rows(arguments.call, tile.place);
}

// Computes the grid for the tiles of `way`. Leaves n_threads and shared_bytes 0.
static struct launch_shape blocks_of(const struct attention_arguments &arguments, enum tile_way way,
                                     int32_t n_strips)
{
    const struct attention_launch &call = arguments.call;
    int32_t n_kv_heads = call.pages.n_kv_heads, group = call.n_heads / n_kv_heads,
            n_tiles = (arguments.n_strips_small + n_strips - 1) / n_strips;
    struct launch_shape blocks = {0, (unsigned)n_kv_heads, 1, 0, 0};
    if (way == TILES_SMALL) {
        blocks.blocks_x = (unsigned)(arguments.assigned ? call.assigned.n_runs : call.extent.n_sequences);
        blocks.blocks_y = (unsigned)(n_kv_heads * n_tiles);
        blocks.blocks_z = (unsigned)(arguments.split_kv ? arguments.n_segments : 1);
    } else if (way == TILES_LARGE) {
        blocks.blocks_x =
            (unsigned)(call.extent.n_sequences + (int64_t)call.extent.n_rows * group / (n_strips * STRIP));
    } else {
        blocks.blocks_x = (unsigned)call.shared.n_tiles;
    }
    return blocks;
}

template <int n_warps, int n_strips, int n_blocks>
static void launch_tiles(void *stream, const struct attention_arguments &arguments, enum tile_way way)
{
    struct launch_shape blocks = blocks_of(arguments, way, n_strips);
    blocks.n_threads = 32 * n_warps;
    blocks.shared_bytes = tile_memory::size_bytes(n_strips, (arguments.call.pages.key_dim + 31) / 32);
    launch_overlapped<attend<tile_shape<KV_TYPE, n_warps, n_strips, n_blocks>>>(blocks, stream, arguments,
                                                                                way);
}

template <int n_strips, int n_blocks>
static void launch_ring(void *stream, const struct attention_arguments &arguments, enum tile_way way)
{
    struct launch_shape blocks = blocks_of(arguments, way, n_strips);
    blocks.n_threads = SEGMENT;
    blocks.shared_bytes = ring_shared_bytes(KV_TYPE, n_strips, (arguments.call.pages.key_dim + 31) / 32);
    using shape = ring_shape<KV_TYPE, n_strips, n_blocks>;
    if (way != TILES_SMALL)
        launch_overlapped<prefill<shape>>(blocks, stream, arguments, way);
    else if constexpr (n_strips <= 2)
        launch_overlapped<decode<shape>>(blocks, stream, arguments);
}

template <>
void launch_attention_of<KV_TYPE>(void *stream, const struct attention_arguments &arguments,
                                  enum tile_way way, struct tile_choice choice)
{
    typedef void (*launch_function)(void *, const struct attention_arguments &, enum tile_way);
    static const launch_function rings[RING_WIDTHS][3] = {
        {launch_ring<1, 1>, launch_ring<2, 1>, launch_ring<4, 1>},
        {launch_ring<1, 1>, launch_ring<2, 1>, launch_ring<4, 1>},
        {launch_ring<1, 2>, launch_ring<2, 2>, NULL},
    };
    static const launch_function tiles[N_TILE_WIDTHS][2] = {
        {launch_tiles<4, 1, 1>, NULL}, {launch_tiles<4, 1, 2>, NULL},
        {launch_tiles<4, 1, 4>, NULL}, {launch_tiles<8, 1, 4>, launch_tiles<8, 2, 4>},
        {launch_tiles<8, 1, 8>, NULL},
    };
    int place = choice.n_strips / 2; // 1, 2, 4
    launch_function function = choice.ring ? rings[choice.width][place] : tiles[choice.width][place];
    assert(function);
    function(stream, arguments, way);
}

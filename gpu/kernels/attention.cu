// Selects the attention kernels (gpu/kernels/attention_type.cu) of a step. Contains the kernel that merges
// the partial results of split-KV.
#include "gpu/kernels/attention_kernels.h"
#include "gpu/kernels/attention_ring.h"

#include <assert.h>

enum { MERGE_THREADS = 128 };

// Merges the partial results of split-KV in order of segments. The grid is [sequences, heads]; a thread
// computes one dimension.
static __global__ void __launch_bounds__(MERGE_THREADS)
    merge_segments(const struct attention_arguments arguments)
{
    launch_next();
    launch_wait();
    const struct attention_launch &call = arguments.call;
    struct attention_sequence sequence = call.sequences[blockIdx.x];
    int32_t head = (int32_t)blockIdx.y, dim = call.pages.value_dim,
            group = call.n_heads / call.pages.n_kv_heads;
    __shared__ struct arrived_rows arrived;
    if (sequence.n_rows * group > arguments.n_strips_small * STRIP)
        return;
    for (int32_t i = 0; i < sequence.n_rows; i++) {
        int64_t row = sequence.first_row + i;
        int32_t position = sequence.position + i, last = last_seen(call, sequence, position) / SEGMENT;
        for (int32_t d = (int32_t)threadIdx.x; d < dim; d += MERGE_THREADS) {
            struct query_state state = {-INFINITY, 0.0f};
            float total[1] = {0.0f};
            merge_parts<1>(arguments, sequence.first_part + i, head, first_seen(call, position) / SEGMENT,
                           last, d, state, total);
            merge_factors factors = merge_sink(call, head, state);
            call.out[row * call.strides.out + (int64_t)head * dim + d] =
                merge_item(total[0], 0.0f, factors) / state.sum;
        }
    }
    if (!call.next.out.items)
        return;
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < sequence.n_rows; i += MERGE_THREADS)
        arrived.complete[i] = arrive_last(call.next.arrivals + sequence.first_row + i, 1, call.n_heads);
    __syncthreads();
    convert_arrived(call.next.out,
                    {call.out, call.strides.out, NULL, sequence.first_row, sequence.n_rows, arrived.complete},
                    arrived.maxima);
}

// ---- sizes ----

enum { BLOCKS_WANTED = 2 }; // wanted small tiles per multiprocessor; with fewer, split-KV is used

// More scratch would help only steps in which many sequences share prefixes of tens of thousands of
// positions. Segments that do not fit are computed per sequence.
static const uint64_t scratch_bytes_max = 256ull << 20;

uint64_t attention_scratch_bytes(int32_t n_heads, int32_t value_dim, int32_t n_rows, int64_t n_positions_most)
{
    uint64_t n_segments = ((uint64_t)n_positions_most + SEGMENT - 1) / SEGMENT, bytes;
    if (__builtin_mul_overflow((uint64_t)n_rows * (uint64_t)n_heads * attention_part_bytes(value_dim),
                               n_segments, &bytes))
        return scratch_bytes_max;
    return bytes < scratch_bytes_max ? bytes : scratch_bytes_max;
}

// Registers limit the number of strips (value dimensions), and so does shared memory (key dimensions). If a
// ring does not fit, a tile of at most 256 value dimensions has one strip.
static struct tile_choice choose_tile(const struct attention_pages *pages, uint64_t shared_bytes_max,
                                      int n_strips_wanted)
{
    static const int dims[N_TILE_WIDTHS] = {64, 128, 256, 512, 1024}, strips[N_TILE_WIDTHS] = {4, 4, 2, 2, 1};
    struct tile_choice choice = {0, n_strips_wanted, false};
    int32_t key_steps = (pages->key_dim + 31) / 32;
    while (pages->value_dim > dims[choice.width])
        choice.width++;
    if (choice.n_strips > strips[choice.width])
        choice.n_strips = strips[choice.width];
    choice.ring =
        choice.width < RING_WIDTHS && ring_shared_bytes(pages->type, 1, key_steps) <= shared_bytes_max;
    if (choice.width < RING_WIDTHS && !choice.ring)
        choice.n_strips = 1;
    while (choice.n_strips > 1 &&
           (choice.ring ? ring_shared_bytes(pages->type, choice.n_strips, key_steps)
                        : tile_memory::size_bytes(choice.n_strips, key_steps)) > shared_bytes_max)
        choice.n_strips /= 2;
    return choice;
}

// Chooses two strips if a key-value head has more than STRIP query heads (grouped-query attention), because
// with one strip the keys would be read twice.
static struct tile_choice choose_small(const struct attention_pages *pages, int32_t n_heads,
                                       uint64_t shared_bytes_max)
{
    return choose_tile(pages, shared_bytes_max, n_heads / pages->n_kv_heads > STRIP ? 2 : 1);
}

int32_t attention_shared_queries(const struct attention_pages *pages, uint64_t shared_bytes_max)
{
    return choose_tile(pages, shared_bytes_max, TILE_STRIPS_MAX).n_strips * STRIP;
}

int32_t attention_small_queries(const struct attention_pages *pages, int32_t n_heads,
                                uint64_t shared_bytes_max)
{
    return choose_small(pages, n_heads, shared_bytes_max).n_strips * STRIP;
}

// ---- launches ----

static void launch_way(void *stream, const struct attention_arguments &arguments, enum tile_way way,
                       struct tile_choice choice)
{
    if (arguments.call.pages.type == KV_Q8_0)
        launch_attention_of<KV_Q8_0>(stream, arguments, way, choice);
    else
        launch_attention_of<KV_F16>(stream, arguments, way, choice);
}

static void launch_small(void *stream, struct attention_arguments arguments)
{
    const struct attention_launch &call = arguments.call;
    struct tile_choice choice = choose_small(&call.pages, call.n_heads, call.device.shared_bytes_max);
    int32_t n_segments = (call.extent.n_positions_most + SEGMENT - 1) / SEGMENT;
    bool fits = attention_parts_fit(&call.pages, call.n_heads, &call.extent, call.partials.size_bytes);
    arguments.assigned =
        choice.ring && call.assigned.runs && call.scoring.window == 0 && call.scoring.chunk == 0;
    arguments.split_kv = !arguments.assigned && fits && n_segments > 1 &&
                         n_segments <= LAUNCH_BLOCKS_YZ_MAX &&
                         (int64_t)call.extent.n_sequences * call.pages.n_kv_heads * arguments.n_strips_small <
                             (int64_t)BLOCKS_WANTED * call.device.n_multiprocessors;
    launch_way(stream, arguments, TILES_SMALL, choice);
    if (arguments.split_kv)
        launch_overlapped<merge_segments>({(unsigned)call.extent.n_sequences, (unsigned)call.n_heads, 1,
                                           MERGE_THREADS, 0},
                                          stream, arguments);
}

void launch_attention(void *stream, const struct attention_launch *attention)
{
    if (attention->extent.n_sequences == 0)
        return;
    struct attention_arguments arguments = {};
    arguments.call = *attention;
    arguments.parts = (float *)attention->partials.memory;
    int32_t n_kv_heads = attention->pages.n_kv_heads, group = attention->n_heads / n_kv_heads;
    arguments.n_strips_small = (group + STRIP - 1) / STRIP;
    arguments.group_magic = division_magic(group);
    arguments.page_magic = division_magic(attention->pages.page_positions / ATTENTION_BLOCK);
    int32_t n_segments = (attention->extent.n_positions_most + SEGMENT - 1) / SEGMENT;
    arguments.n_segments =
        attention->shared.n_segments < n_segments ? attention->shared.n_segments : n_segments;
    if (attention_parts_fit(&attention->pages, attention->n_heads, &attention->extent,
                            attention->partials.size_bytes))
        arguments.n_segments = n_segments;
    assert(attention->shared.n_tiles == 0 ||
           (uint64_t)arguments.n_segments * (uint64_t)attention->extent.n_part_rows *
                   (uint64_t)attention->n_heads * attention_part_bytes(attention->pages.value_dim) <=
               attention->partials.size_bytes);
    struct tile_choice large =
        choose_tile(&attention->pages, attention->device.shared_bytes_max, TILE_STRIPS_MAX);
    if (attention->shared.n_tiles > 0)
        launch_way(stream, arguments, TILES_SHARED, large);
    if (attention->extent.n_part_rows > 0)
        launch_small(stream, arguments);
    if (attention->extent.n_rows_most > 0 &&
        !attention_is_small(attention->extent.n_rows_most, attention->n_heads, n_kv_heads))
        launch_way(stream, arguments, TILES_LARGE, large);
}

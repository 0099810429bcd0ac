// Selects the attention kernels (gpu/attention_type.cu) of a step; the kernel that merges the partial results
// of split-KV.
#include "gpu/attention_kernels.h"

#include <assert.h>

enum { MERGE_THREADS = 128 };

// Merges the partial results of split-KV in order of segments: blocks are [sequences, heads], threads are
// dimensions.
static __global__ void __launch_bounds__(MERGE_THREADS)
    merge_segments(const struct attention_arguments arguments)
{
    const struct attention_launch &call = arguments.call;
    struct attention_sequence sequence = call.sequences[blockIdx.x];
    int32_t head = (int32_t)blockIdx.y, dim = call.pages.value_dim,
            group = call.n_heads / call.pages.n_kv_heads;
    if (sequence.n_rows * group > arguments.n_strips_small * STRIP)
        return;
    for (int32_t i = 0; i < sequence.n_rows; i++) {
        int64_t row = sequence.first_row + i;
        int32_t position = sequence.position + i, last = position / SEGMENT;
        for (int32_t d = (int32_t)threadIdx.x; d < dim; d += MERGE_THREADS) {
            struct query_state state = {-INFINITY, 0.0f};
            float total = 0.0f;
            for (int32_t segment = first_seen(call, position) / SEGMENT; segment <= last; segment++) {
                const float *part = find_part(arguments, sequence.first_part + i, head, segment);
                merge_factors factors = merge_state(state, part[dim], part[dim + 1], part[dim + 2] != 0.0f);
                total = merge_item(total, part[d], factors);
            }
            merge_factors factors = merge_sink(call, head, state);
            call.out[row * call.out_stride + (int64_t)head * dim + d] =
                merge_item(total, 0.0f, factors) / state.sum;
        }
    }
}

// ---- sizes ----

enum { BLOCKS_WANTED = 2 }; // small tiles per multiprocessor; with fewer, segments are split over blocks

// More scratch would help only many sequences that share prefixes of tens of thousands of positions. Segments
// that do not fit are computed per sequence.
static const uint64_t scratch_bytes_max = 256ull << 20;

uint64_t attention_scratch_bytes(int32_t n_heads, int32_t value_dim, int32_t n_rows, int64_t n_positions_most)
{
    uint64_t n_segments = ((uint64_t)n_positions_most + SEGMENT - 1) / SEGMENT, bytes;
    if (__builtin_mul_overflow((uint64_t)n_rows * (uint64_t)n_heads * attention_part_bytes(value_dim),
                               n_segments, &bytes))
        return scratch_bytes_max;
    return bytes < scratch_bytes_max ? bytes : scratch_bytes_max;
}

// The number of strips is limited by registers (value dimensions) and by shared memory (key dimensions).
static struct tile_choice choose_tile(const struct attention_pages *pages, uint64_t shared_bytes_max,
                                      int n_strips_wanted)
{
    static const int dims[N_TILE_WIDTHS] = {64, 128, 256, 512, 1024}, strips[N_TILE_WIDTHS] = {4, 4, 2, 2, 1};
    struct tile_choice choice = {0, n_strips_wanted};
    while (pages->value_dim > dims[choice.width])
        choice.width++;
    if (choice.n_strips > strips[choice.width])
        choice.n_strips = strips[choice.width];
    while (choice.n_strips > 1 &&
           tile_memory::size_bytes(choice.n_strips, (pages->key_dim + 31) / 32) > shared_bytes_max)
        choice.n_strips /= 2;
    return choice;
}

// Two strips if a key-value head has more than STRIP query heads (grouped-query attention): one strip would
// read the keys twice.
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

void launch_attention(void *stream, const struct attention_launch *attention)
{
    if (attention->extent.n_sequences == 0)
        return;
    struct attention_arguments arguments = {};
    arguments.call = *attention;
    arguments.parts = (float *)attention->partials.memory;
    int32_t n_kv_heads = attention->pages.n_kv_heads, group = attention->n_heads / n_kv_heads;
    arguments.n_strips_small = (group + STRIP - 1) / STRIP;
    int32_t n_segments = (attention->extent.n_positions_most + SEGMENT - 1) / SEGMENT;
    uint64_t segment_bytes = (uint64_t)attention->extent.n_part_rows * (uint64_t)attention->n_heads *
                             attention_part_bytes(attention->pages.value_dim);
    arguments.n_segments =
        attention->shared.n_segments < n_segments ? attention->shared.n_segments : n_segments;
    assert(attention->shared.n_tiles == 0 ||
           (uint64_t)arguments.n_segments * segment_bytes <= attention->partials.size_bytes);
    if (n_segments > 1 && n_segments <= LAUNCH_BLOCKS_YZ_MAX &&
        (uint64_t)n_segments * segment_bytes <= attention->partials.size_bytes &&
        (int64_t)attention->extent.n_sequences * n_kv_heads * arguments.n_strips_small <
            (int64_t)BLOCKS_WANTED * attention->device.n_multiprocessors) {
        arguments.n_segments = n_segments;
        arguments.split_kv = true;
    }
    uint64_t shared_bytes = attention->device.shared_bytes_max;
    struct tile_choice large = choose_tile(&attention->pages, shared_bytes, TILE_STRIPS_MAX);
    if (attention->shared.n_tiles > 0)
        launch_way(stream, arguments, TILES_SHARED, large);
    launch_way(stream, arguments, TILES_SMALL,
               choose_small(&attention->pages, attention->n_heads, shared_bytes));
    if (arguments.split_kv)
        launch<merge_segments>({(unsigned)attention->extent.n_sequences, (unsigned)attention->n_heads, 1,
                                MERGE_THREADS, 0},
                               stream, arguments);
    if (attention->extent.n_rows_most > 0 &&
        !attention_is_small(attention->extent.n_rows_most, attention->n_heads, n_kv_heads))
        launch_way(stream, arguments, TILES_LARGE, large);
}

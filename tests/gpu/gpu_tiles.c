// Tiles of GEMMs on the emulated device. Of a grouped GEMM over experts, by the tensor core instructions that it
// executes: an expert's rows are multiplied in the smallest tile that has room for them, however many the others
// have. Of wgmma, by the kernel that is launched.
#include "gpu/device.h"
#include "gpu/emulation/stream.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/tiles.h"
#include "tests/support/cases.h"

enum { N_INPUTS = 256, N_OUTPUTS = 256, EXPERTS_MAX = 12, FRAGMENT = 16, LANES = 32, COLUMN_ROWS = 8 };

static int64_t n_mma; // of lanes

// The linker's option --wrap has the instructions come here; their sums are not read.

void __wrap_emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat)
{
    n_mma++;
}

static char *launched; // [LAUNCHED_MAX]: where the name of the next kernel goes, which does not run

enum { LAUNCHED_MAX = 128 };

void __real_emulated_stream_submit(void *stream, struct emulated_work *work);

void __wrap_emulated_stream_submit(void *stream, struct emulated_work *work)
{
    if (!launched || !work || !work->kernel) {
        __real_emulated_stream_submit(stream, work);
        return;
    }
    snprintf(launched, LAUNCHED_MAX, "%s", work->kernel);
    free(work);
}

static void *zeros(struct device *device, size_t size)
{
    void *memory = device_allocate(device, size);
    assert_non_null(memory);
    device_zero(device, memory, size);
    return memory;
}

static int32_t *on_device(struct device *device, const int32_t *items, size_t n)
{
    int32_t *memory = device_allocate(device, n * sizeof *items),
            *pinned = device_pin(device, n * sizeof *items);
    struct error error;
    memcpy(pinned, items, n * sizeof *items);
    device_upload(device, memory, pinned, n * sizeof *items);
    assert_ok(device_wait(device, &error), &error);
    device_unpin(device, pinned);
    return memory;
}

// Rows of the tiles in which the experts' rows are multiplied, with those that fill the tiles.
static int32_t count_rows(struct device *device, enum tensor_type type, const int32_t *counts, int n_experts)
{
    int32_t first[EXPERTS_MAX + 1] = {0};
    struct error error;
    for (int e = 0; e < n_experts; e++)
        first[e + 1] = first[e] + counts[e];
    int32_t n_rows = first[n_experts];
    struct product_launch call = {
        .type = type,
        .n_parts = 1,
        .parts = {{.tiles = zeros(device, (size_t)n_experts * tiles_bytes(type, N_OUTPUTS, N_INPUTS)),
                   .y = zeros(device, (size_t)n_rows * N_OUTPUTS * sizeof(float)),
                   .y_stride = N_OUTPUTS,
                   .n_outputs = N_OUTPUTS}},
        .x = {.form = type == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF,
              .n_rows = n_rows,
              .n_inputs = N_INPUTS,
              .items = zeros(device, activation_operand_bytes(n_rows, N_INPUTS)),
              .scales = zeros(device, (size_t)n_rows * sizeof(float))},
        .floats.rows_divisor = 1,
        .n_experts = n_experts,
        .expert_first = on_device(device, first, EXPERTS_MAX + 1),
        .device.shared_bytes_max = device_facts(device)->shared_bytes_max};
    n_mma = 0;
    launch_product(device_stream(device), &call);
    assert_ok(device_wait(device, &error), &error);
    const void *const given[] = {call.parts[0].tiles, call.parts[0].y, call.x.items, call.x.scales,
                                 call.expert_first};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        device_free(device, (void *)given[i]);
    int64_t of_column = (int64_t)(N_OUTPUTS / TILE_OUTPUTS) * (N_INPUTS / FRAGMENT) * LANES;
    assert_int_equal(n_mma % of_column, 0);
    return (int32_t)(n_mma / of_column * COLUMN_ROWS);
}

static const struct {
    int32_t counts[EXPERTS_MAX];
    int32_t large, little; // rows of the tiles, of a device with much and with little shared memory
} cases[] = {
    {{3, 0, 1, 0, 500, 16, 2, 5, 0, 1, 1, 1}, 8 * 16 + 4 * 128, 8 * 16 + 8 * 64},
    {{17, 200, 32, 33, 64, 65, 0, 1, 0, 128, 129, 0}, // the rest of a tile is a tile of its own
     2 * 32 + 2 * 128 + 2 * 64 + 128 + 16 + 128 + 128 + 16,
     2 * 32 + 3 * 64 + 16 + 2 * 64 + 64 + 16 + 16 + 2 * 64 + 2 * 64 + 16},
    {{300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300}, 12 * (2 * 128 + 64), 12 * (4 * 64 + 64)},
};

TEST(an_expert_s_rows_are_in_the_smallest_tile_that_has_room)
{
    static const enum tensor_type types[] = {TENSOR_Q4_K, TENSOR_BF16};
    for (int little = 0; little < 2; little++) {
        struct device *device;
        struct error error;
        struct device_options options = {.shared_bytes_max = little ? PRODUCT_SHARED_BYTES_LEAST : 0};
        assert_ok(device_open(&device, &options, &error), &error);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                assert_int_equal(count_rows(device, types[t], cases[i].counts, EXPERTS_MAX),
                                 little ? cases[i].little : cases[i].large);
        device_close(device);
    }
}

// Outputs and rows of a wgmma tile; chunks are computed over_chunks at a time.
struct launched_tile {
    int n_outputs, n_rows, over_chunks;
};

static struct launched_tile tile_of(struct device *device, enum tensor_type type, int32_t n_rows,
                                    enum wgmma_tile tiling)
{
    enum { N_OUTPUTS_EACH = 28672 };
    static float nothing[4]; // nothing runs
    char name[LAUNCHED_MAX];
    struct product_launch call = {
        .type = type,
        .n_parts = 1,
        .parts = {{.tiles = nothing, .y = nothing, .y_stride = N_OUTPUTS_EACH, .n_outputs = N_OUTPUTS_EACH}},
        .x = {.n_rows = n_rows, .n_inputs = 4096, .items = nothing, .scales = nothing, .swizzled = true},
        .floats.rows_divisor = 1,
        .tiling.tile = tiling,
        .device = {.shared_bytes_max = PRODUCT_SHARED_BYTES_WGMMA, .n_multiprocessors = 132}};
    launched = name;
    launch_product(device_stream(device), &call);
    launched = NULL;
    struct launched_tile tile;
    const char *shape = strstr(name, "wgmma_shape<");
    assert_non_null(shape);
    shape = strchr(shape, ',');
    assert_non_null(shape);
    assert_int_equal(sscanf(shape, ", %d, %d, %d>", &tile.n_rows, &tile.n_outputs, &tile.over_chunks), 3);
    tile.n_outputs *= 64;
    return tile;
}

static void check_tile(struct device *device, enum tensor_type type, int32_t n_rows, enum wgmma_tile tiling,
                       struct launched_tile wanted)
{
    struct launched_tile tile = tile_of(device, type, n_rows, tiling);
    if (tile.n_outputs != wanted.n_outputs || tile.n_rows != wanted.n_rows ||
        tile.over_chunks != wanted.over_chunks)
        fail_msg("%d rows, tiling %d: %d x %d in %d chunks", n_rows, (int)tiling, tile.n_outputs, tile.n_rows,
                 tile.over_chunks);
}

// A tile by rows is as high as the rows, up to 128; a chosen one is what its name says, at any number of rows.
TEST(the_tile_that_is_launched_is_the_chosen_one_or_one_by_rows)
{
    static const struct {
        enum wgmma_tile tiling;
        struct launched_tile tile;
    } named[] = {{WGMMA_64X32, {64, 32, 4}},     {WGMMA_256X32, {256, 32, 1}},  {WGMMA_64X64, {64, 64, 4}},
                 {WGMMA_256X64, {256, 64, 1}},   {WGMMA_256X96, {256, 96, 1}},  {WGMMA_64X128, {64, 128, 2}},
                 {WGMMA_128X128, {128, 128, 1}}, {WGMMA_192X128, {192, 128, 1}}};
    static const struct {
        int32_t n_rows;
        struct launched_tile tile;
    } by_rows[] = {{17, {64, 32, 4}},  {32, {64, 32, 4}},    {33, {64, 64, 4}},
                   {128, {64, 64, 4}}, {129, {128, 128, 1}}, {8192, {128, 128, 1}}};
    struct device *device;
    struct error error;
    assert_ok(device_open(&device, &(struct device_options){0}, &error), &error);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        check_tile(device, TENSOR_Q4_K, i % 2 ? 64 : 200, named[i].tiling, named[i].tile);
    for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++)
        check_tile(device, i % 2 ? TENSOR_BF16 : TENSOR_Q4_K, by_rows[i].n_rows, WGMMA_BY_ROWS,
                   by_rows[i].tile);
    device_close(device);
}

int main(void)
{
    struct device *device;
    struct error error;
    if (device_open(&device, &(struct device_options){0}, &error) != STATUS_OK) {
        print_message("skipped: %s\n", error.text);
        return 77;
    }
    device_close(device);
    return cases_run();
}

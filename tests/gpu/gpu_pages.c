// KV pages of the CUDA backend: each stored key and value is read back at its own place, and nothing else is
// written; which head sizes are refused, and the memory of pages.
#include "gpu/state.h"
#include "tests/support/cases.h"

#include <math.h>

enum { LAYERS = 2, LAYER = 1, N_PAGES = 5, N_STORED = 3, N_GUARD = 8 };

// The positions of the sequence, page by page, and the order in which the pages are read.
static const int32_t table[N_STORED] = {3, 0, 4}, reading[N_STORED] = {4, 3, 0};

static const float guard = -12345.0f;

static struct backend *open_backend(void)
{
    struct backend *backend;
    struct error error = {0};
    assert_ok(gpu_backend_create(&backend, &(struct gpu_options){0}, &error), &error);
    return backend;
}

static void wait_for(struct device *device)
{
    struct error error = {0};
    assert_ok(device_wait(device, &error), &error);
}

static void *on_device(struct device *device, const void *items, size_t size_bytes)
{
    void *memory = device_allocate(device, size_bytes), *pinned = device_pin(device, size_bytes);
    assert_non_null(memory);
    assert_non_null(pinned);
    memcpy(pinned, items, size_bytes);
    device_upload(device, memory, pinned, size_bytes);
    wait_for(device);
    device_unpin(device, pinned);
    return memory;
}

// Keys (or values) of all positions [positions, heads, dim]. Binary16 and bytes store them exactly: integers
// of at most 127 times a power of two that the position's group of 32 dimensions has, whose first is 127.
static float *exact_items(int32_t n_positions, int32_t n_heads, int32_t dim, uint32_t seed)
{
    float *items = malloc((size_t)n_positions * (size_t)n_heads * (size_t)dim * sizeof *items), *next = items;
    assert_non_null(items);
    for (int32_t row = 0; row < n_positions * n_heads; row++)
        for (int32_t d = 0; d < dim; d++) {
            uint32_t drawn = ((uint32_t)(row * dim + d) + seed) * 2654435761u >> 8;
            int32_t integer = d % ATTENTION_GROUP ? (int32_t)(drawn % 255) - 127 : 127;
            *next++ = ldexpf((float)integer, -2 - (row + d / ATTENTION_GROUP) % 5);
        }
    return items;
}

static void store(struct gpu_backend *backend, const float *keys, const float *values)
{
    const struct kv_shape *kv = &backend->kv;
    struct device *device = backend->device;
    int32_t n_rows = N_STORED * kv->page_positions, key_row = kv->n_kv_heads * kv->key_dim,
            value_row = kv->n_kv_heads * kv->value_dim;
    struct attention_sequence sequence = {.n_rows = n_rows};
    int32_t *rows = calloc((size_t)n_rows, sizeof *rows); // all of sequence 0
    assert_non_null(rows);
    struct attention_store call = {
        .pages = {.memory = backend->pages.memory,
                  .n_layers = kv->n_layers,
                  .n_pages = kv->n_pages,
                  .n_kv_heads = kv->n_kv_heads,
                  .key_dim = kv->key_dim,
                  .value_dim = kv->value_dim,
                  .page_positions = kv->page_positions,
                  .type = kv->type},
        .layer = LAYER,
        .sequences = on_device(device, &sequence, sizeof sequence),
        .row_sequences = on_device(device, rows, (size_t)n_rows * sizeof *rows),
        .tables = on_device(device, table, sizeof table),
        .n_rows = n_rows,
        .k = on_device(device, keys, (size_t)(n_rows * key_row) * sizeof *keys),
        .v = on_device(device, values, (size_t)(n_rows * value_row) * sizeof *values),
        .k_stride = key_row,
        .v_stride = value_row,
    };
    launch_attention_store(device_stream(device), &call);
    wait_for(device);
    const void *const given[] = {call.sequences, call.row_sequences, call.tables, call.k, call.v};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        device_free(device, (void *)given[i]);
    free(rows);
}

static float *guarded(int32_t n)
{
    float *items = malloc((size_t)(n + N_GUARD) * sizeof *items);
    assert_non_null(items);
    for (int32_t i = 0; i < n + N_GUARD; i++)
        items[i] = guard;
    return items;
}

// Of N_STORED pages, `page` items each.
static void check_read(const float *got, const float *stored, int32_t page)
{
    for (int i = 0; i < N_STORED; i++) {
        int place = 0;
        while (table[place] != reading[i])
            place++;
        for (int32_t j = 0; j < page; j++)
            if (got[i * page + j] != stored[place * page + j])
                fail_msg("item %d of page %d: %g, not %g", (int)j, (int)reading[i], (double)got[i * page + j],
                         (double)stored[place * page + j]);
    }
    for (int i = 0; i < N_GUARD; i++)
        assert_true(got[N_STORED * page + i] == guard);
}

static void pages_are_read_as_they_were_stored(void **state)
{
    const struct kv_shape *shape = *state;
    struct backend *base = open_backend();
    struct gpu_backend *backend = gpu_backend_of(base);
    struct error error = {0};
    int32_t n_positions = N_STORED * shape->page_positions,
            key_page = shape->page_positions * shape->n_kv_heads * shape->key_dim,
            value_page = shape->page_positions * shape->n_kv_heads * shape->value_dim;
    float *keys = exact_items(n_positions, shape->n_kv_heads, shape->key_dim, 7),
          *values = exact_items(n_positions, shape->n_kv_heads, shape->value_dim, 8),
          *keys_read = guarded(N_STORED * key_page), *values_read = guarded(N_STORED * value_page);
    assert_ok(gpu_kv_create(base, shape, &error), &error);
    store(backend, keys, values);
    assert_ok(base->device.kv_read(base, LAYER, reading, N_STORED, keys_read, values_read, &error), &error);
    check_read(keys_read, keys, key_page);
    check_read(values_read, values, value_page);
    free(keys);
    free(values);
    free(keys_read);
    free(values_read);
    base->device.destroy(base);
}

static void heads_of_at_most_the_kernels_dimensions_are_accepted(void **state)
{
    const int32_t most = ATTENTION_DIM_MAX;
    const struct {
        int32_t key_dim, value_dim;
        bool accepted;
    } cases[] = {{most, most, true},         {most + 1, most, false},
                 {most, most + 1, false},    {most + 1, 64, false},
                 {64, most + 1, false},      {most, 64, true},
                 {64, most, true},           {1, 1, true},
                 {most + 1, most + 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kv_shape shape = {.n_layers = 1,
                                 .n_kv_heads = 1,
                                 .key_dim = cases[i].key_dim,
                                 .value_dim = cases[i].value_dim,
                                 .page_positions = 16,
                                 .n_pages = 1};
        struct backend *base = open_backend();
        struct error error = {0};
        enum status status = base->device.kv_create(base, &shape, &error);
        if (cases[i].accepted) {
            assert_ok(status, &error);
        } else {
            assert_int_equal(status, STATUS_REFUSE);
            assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        }
        base->device.destroy(base);
    }
}

static void a_page_has_the_bytes_of_its_blocks_in_all_layers(void **state)
{
    // Keys are padded to 32 dimensions, values to 16, scales of values to 32 (gpu/kernels/kernels_attention.h).
    const struct {
        enum kv_type type;
        uint64_t block_bytes;
    } cases[] = {
        {KV_F16, 16 * (64 + 32) * 2},
        {KV_F32, 16 * (64 + 32) * 2},
        {KV_Q8_0, 16 * (64 + 32) + 16 * (2 + 1) * 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kv_shape shape = {.n_layers = 3,
                                 .n_kv_heads = 2,
                                 .key_dim = 41,
                                 .value_dim = 21,
                                 .page_positions = 64,
                                 .n_pages = N_PAGES,
                                 .type = cases[i].type};
        struct backend *base = open_backend();
        struct error error = {0};
        assert_int_equal(base->device.page_bytes(base, &shape), 3 * 2 * 4 * cases[i].block_bytes);
        assert_ok(base->device.kv_create(base, &shape, &error), &error);
        assert_int_equal(gpu_backend_of(base)->pages.size_bytes, N_PAGES * 3 * 2 * 4 * cases[i].block_bytes);
        base->device.destroy(base);
    }
}

static bool device_missing(void)
{
    struct backend *backend;
    struct error error = {0};
    if (gpu_backend_create(&backend, &(struct gpu_options){0}, &error) == STATUS_OK) {
        backend->device.destroy(backend);
        return false;
    }
    print_message("skipped: %s\n", error.text);
    return true;
}

int main(void)
{
    if (device_missing())
        return 77;
    static struct {
        const char *name;
        struct kv_shape shape;
    } subjects[] = {
        {"three heads", {LAYERS, 3, 64, 32, 32, N_PAGES, KV_F16, 0, 0}},
        {"odd dimensions", {LAYERS, 2, 41, 21, 16, N_PAGES, KV_F16, 0, 0}},
        {"one head", {LAYERS, 1, 96, 80, 64, N_PAGES, KV_F16, 0, 0}},
        {"bytes, three heads", {LAYERS, 3, 64, 32, 32, N_PAGES, KV_Q8_0, 0, 0}},
        {"bytes, odd dimensions", {LAYERS, 2, 41, 21, 16, N_PAGES, KV_Q8_0, 0, 0}},
        {"bytes, a dimension beyond a group", {LAYERS, 2, 33, 49, 32, N_PAGES, KV_Q8_0, 0, 0}},
        {"bytes, one head", {LAYERS, 1, 128, 96, 64, N_PAGES, KV_Q8_0, 0, 0}},
    };
    enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };
    static struct CMUnitTest tests[N_SUBJECTS + 2] = {
        cmocka_unit_test(heads_of_at_most_the_kernels_dimensions_are_accepted),
        cmocka_unit_test(a_page_has_the_bytes_of_its_blocks_in_all_layers),
    };
    for (int i = 0; i < N_SUBJECTS; i++)
        tests[2 + i] = (struct CMUnitTest){subjects[i].name, pages_are_read_as_they_were_stored, NULL, NULL,
                                           &subjects[i].shape};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Weights on the device: their bytes, piece by piece, are those that packing gives at once; what they take is
// what the plan says; and limits of memory (gpu/weights.c, memory.c). The device is host memory.
#include "gpu/state.h"
#include "tests/support/cases.h"

enum { N_INPUTS = 256, STAGING_SMALL = 20000 };

static struct gpu_backend backend;
static struct error error;
static char handle; // the device
static struct {
    uint64_t free_bytes;
    enum status status;
    bool has_no_memory;
    int n_blocks, n_uploads;
    size_t last_bytes; // allocated
} world;

// ---- the device ----

void *device_allocate(struct device *device, size_t size_bytes)
{
    if (world.has_no_memory)
        return NULL;
    world.n_blocks++;
    world.last_bytes = size_bytes;
    return calloc(1, size_bytes);
}

void device_free(struct device *device, void *memory)
{
    world.n_blocks -= memory != NULL;
    free(memory);
}

uint64_t device_memory_free(struct device *device)
{
    return world.free_bytes;
}

enum status device_status(struct device *device, struct error *fault)
{
    return world.status == STATUS_OK ? STATUS_OK : error_set(fault, world.status, ERROR_DEVICE, "lost");
}

void *device_pin(struct device *device, size_t size_bytes)
{
    return malloc(size_bytes);
}

void device_unpin(struct device *device, void *memory)
{
    free(memory);
}

struct device_event *device_event_create(struct device *device)
{
    static char event;
    return (struct device_event *)&event;
}

void device_event_destroy(struct device *device, struct device_event *event) {}

void device_event_record(struct device *device, struct device_event *event) {}

void device_event_wait(struct device *device, struct device_event *event) {}

void device_upload(struct device *device, void *to, const void *from, size_t size_bytes)
{
    world.n_uploads++;
    memcpy(to, from, size_bytes);
}

bool launch_embed_knows(int32_t type)
{
    return type == TENSOR_F16 || type == TENSOR_Q8_0;
}

// ---- tensors ----

// Random items of a type; the caller frees the data.
static struct tensor make_tensor(enum tensor_type type, uint64_t n_rows, uint64_t n_matrices)
{
    struct tensor tensor = {.type = type,
                            .n_dims = n_matrices > 1 ? 3 : 2,
                            .dims = {N_INPUTS, n_rows, n_matrices, 1}};
    tensor.size_bytes = tensor_row_bytes(&tensor) * n_rows * n_matrices;
    unsigned char *bytes = malloc(tensor.size_bytes);
    uint32_t random = 1;
    for (size_t i = 0; i < tensor.size_bytes; i++) {
        random = random * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(random >> 24) & 0x3f; // finite scales
    }
    tensor.data = bytes;
    return tensor;
}

static int begin(void **state)
{
    memset(&backend, 0, sizeof backend);
    memset(&world, 0, sizeof world);
    world.free_bytes = 1 << 30;
    error = (struct error){0};
    assert_ok(staging_init(&backend.staging, (struct device *)&handle, &error), &error);
    backend.staging.size_bytes = STAGING_SMALL; // of what was pinned
    return 0;
}

static int end(void **state)
{
    staging_finish(&backend.staging);
    assert_int_equal(world.n_blocks, 0);
    assert_int_equal(backend.used_bytes, 0);
    return 0;
}

static struct weight *create(const struct tensor *tensor, enum weight_role role)
{
    struct weight *weight;
    assert_ok(gpu_weight_create(&backend.base, tensor, role, &weight, &error), &error);
    assert_int_equal(gpu_weight_bytes(&backend.base, tensor, role), weight->size_bytes);
    assert_int_equal(world.last_bytes, weight->size_bytes);
    assert_int_equal(backend.used_bytes, weight->size_bytes);
    assert_int_equal(weight->role, role);
    return weight;
}

// ---- products ----

TEST(a_product_is_packed_piece_by_piece_to_the_same_bytes)
{
    static const enum tensor_type types[] = {TENSOR_Q8_0, TENSOR_Q4_K, TENSOR_F16, TENSOR_F32};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (uint64_t n_matrices = 1; n_matrices <= 3; n_matrices += 2) {
            struct tensor tensor = make_tensor(types[i], 300, n_matrices); // the last panel is not full
            enum tensor_type tiles = tiles_type(&tensor);
            uint64_t matrix_bytes = tiles_bytes(tiles, 300, N_INPUTS);
            unsigned char *expected = calloc(n_matrices, matrix_bytes);
            for (uint64_t m = 0; m < n_matrices; m++)
                tiles_pack(expected + m * matrix_bytes, tiles, &tensor, (int64_t)m, 0, tiles_panels(300));
            backend.capacity = (struct step_capacity){0};
            world.n_uploads = 0;
            struct weight *weight = create(&tensor, WEIGHT_PRODUCT);
            assert_int_equal(weight->tiles, tiles);
            assert_int_equal(weight->n_matrices, n_matrices);
            assert_memory_equal(weight->memory, expected, n_matrices * matrix_bytes);
            assert_true(world.n_uploads > (int)n_matrices); // in pieces
            assert_int_equal(backend.capacity.n_inputs_max, N_INPUTS);
            assert_int_equal(backend.capacity.n_experts_max, n_matrices > 1 ? n_matrices : 0);
            gpu_weight_destroy(&backend.base, weight);
            free(expected);
            free((void *)(uintptr_t)tensor.data);
        }
}

// One for the tensor, or one for each matrix.
TEST(additional_factors_follow_tiles_of_the_file_s_own_type)
{
    static const enum tensor_type types[] = {TENSOR_Q8_0, TENSOR_Q4_K, TENSOR_NVFP4, TENSOR_F32};
    static const float scales[3] = {0.5f, -3.0f, 0.1f};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int one_scale = 0; one_scale < 2; one_scale++) {
            struct tensor tensor = make_tensor(types[i], 300, 3);
            struct weight *plain = create(&tensor, WEIGHT_PRODUCT);
            size_t size_bytes = 3 * tiles_bytes(types[i], 300, N_INPUTS);
            unsigned char *expected = malloc(size_bytes);
            memcpy(expected, plain->memory, size_bytes);
            assert_null(plain->factors);
            gpu_weight_destroy(&backend.base, plain);
            tensor.scales = scales;
            tensor.one_scale = one_scale;
            struct weight *weight = create(&tensor, WEIGHT_PRODUCT);
            assert_int_equal(weight->tiles, types[i]);
            assert_int_equal(weight->size_bytes, device_block_bytes(size_bytes + sizeof scales));
            assert_memory_equal(weight->memory, expected, size_bytes);
            assert_ptr_equal(weight->factors, weight->memory + size_bytes);
            for (int m = 0; m < 3; m++)
                assert_true(weight->factors[m] == scales[one_scale ? 0 : m]);
            gpu_weight_destroy(&backend.base, weight);
            free(expected);
            free((void *)(uintptr_t)tensor.data);
        }
}

// gpu/output_bound.h: of weights that multiply rows of a norm, until others are named; and of their biases.
TEST(weights_of_normed_rows_have_a_limit)
{
    float items[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        items[i] = i == 9 ? -3.0f : 0.5f;
    struct tensor bias = {.type = TENSOR_F32,
                          .n_dims = 1,
                          .dims = {N_INPUTS, 1, 1, 1},
                          .data = items,
                          .size_bytes = sizeof items},
                  tensor = make_tensor(TENSOR_Q8_0, 40, 1);
    struct norm_items norm = {items, NULL, N_INPUTS};
    struct output_bound bound = output_bound_of_weight(&tensor, &norm, NULL);
    assert_true(bound.largest > bound.typical && bound.typical > 0);
    for (int i = 0; i < 3; i++) {
        gpu_normed_input(&backend.base, i == 1 ? &norm : NULL);
        struct weight *weight = create(&tensor, WEIGHT_PRODUCT);
        assert_true(weight->bound.largest == (i == 1 ? bound.largest : 0));
        assert_true(weight->bound.typical == (i == 1 ? bound.typical : 0));
        gpu_weight_destroy(&backend.base, weight);
    }
    struct weight *vector = create(&bias, WEIGHT_VECTOR);
    assert_true(vector->bound.largest == 3);
    gpu_weight_destroy(&backend.base, vector);
    free((void *)tensor.data);
}

TEST(the_widest_product_and_the_most_experts_size_the_scratch)
{
    struct tensor tensor = make_tensor(TENSOR_Q8_0, 32, 2);
    backend.capacity = (struct step_capacity){.n_inputs_max = N_INPUTS + 1, .n_experts_max = 3};
    gpu_weight_destroy(&backend.base, create(&tensor, WEIGHT_PRODUCT));
    assert_int_equal(backend.capacity.n_inputs_max, N_INPUTS + 1);
    assert_int_equal(backend.capacity.n_experts_max, 3);
    free((void *)(uintptr_t)tensor.data);
}

TEST(too_large_products_are_refused)
{
    static const uint64_t dims[][2] = {{INT32_MAX / 2 + 1ull, 32},
                                       {256, INT32_MAX / 2 + 1ull},
                                       {256, MODEL_EXPERTS_MAX + 1ull}};
    struct weight *weight;
    for (int i = 0; i < 3; i++) {
        struct tensor tensor = {.type = TENSOR_F16, .n_dims = 3, .dims = {dims[i][0], 1, 1, 1}};
        tensor.dims[i == 2 ? 2 : 1] = dims[i][1];
        assert_int_equal(gpu_weight_create(&backend.base, &tensor, WEIGHT_PRODUCT, &weight, &error),
                         STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        assert_null(weight);
        // One row, input or matrix less is a matter of memory.
        world.has_no_memory = true;
        tensor.dims[i == 0 ? 0 : i == 2 ? 2 : 1]--;
        assert_int_equal(gpu_weight_create(&backend.base, &tensor, WEIGHT_PRODUCT, &weight, &error),
                         STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
        assert_null(weight);
        world.has_no_memory = false;
    }
}

TEST(a_type_that_nobody_computes_with_is_refused_by_name)
{
    struct tensor tensor = {.type = 3000, .n_dims = 1, .dims = {32, 1, 1, 1}, .size_bytes = 77};
    struct weight *weight;
    assert_int_equal(gpu_weight_create(&backend.base, &tensor, WEIGHT_VECTOR, &weight, &error),
                     STATUS_REFUSE);
    assert_string_equal(error.text, "type unknown can't be computed with");
    assert_int_equal(gpu_weight_bytes(&backend.base, &tensor, WEIGHT_PRODUCT), device_block_bytes(77));
}

// ---- tables and vectors ----

TEST(a_table_is_kept_as_it_is_where_its_kernel_knows_the_type)
{
    for (int i = 0; i < 2; i++) {
        struct tensor tensor = make_tensor(i == 0 ? TENSOR_Q8_0 : TENSOR_Q4_0, 500, 1);
        float *items = calloc(500 * N_INPUTS, sizeof *items);
        tensor_traits(tensor.type)->dequantize(tensor.data, items, 500 * N_INPUTS);
        world.n_uploads = 0;
        struct weight *weight = create(&tensor, WEIGHT_TABLE);
        assert_ptr_equal(weight->table.rows, weight->memory);
        assert_int_equal(weight->table.type, i == 0 ? TENSOR_Q8_0 : TENSOR_F32);
        assert_int_equal(weight->table.row_bytes, i == 0 ? tensor_row_bytes(&tensor) : N_INPUTS * 4);
        if (i == 0)
            assert_memory_equal(weight->memory, tensor.data, tensor.size_bytes);
        else
            assert_memory_equal(weight->memory, items, 500 * N_INPUTS * sizeof *items);
        assert_true(world.n_uploads > 1);
        gpu_weight_destroy(&backend.base, weight);
        free(items);
        free((void *)(uintptr_t)tensor.data);
    }
}

TEST(a_vector_is_floats)
{
    struct tensor tensor = make_tensor(TENSOR_F16, 3, 1);
    float items[3 * N_INPUTS];
    tensor_traits(TENSOR_F16)->dequantize(tensor.data, items, 3 * N_INPUTS);
    struct weight *weight = create(&tensor, WEIGHT_VECTOR);
    assert_int_equal(weight->n_items, 3 * N_INPUTS);
    assert_memory_equal(weight->items, items, sizeof items);
    gpu_weight_destroy(&backend.base, weight);
    free((void *)(uintptr_t)tensor.data);
    tensor = (struct tensor){.type = TENSOR_F32, .n_dims = 2, .dims = {1u << 16, 1u << 15, 1, 1}};
    assert_int_equal(gpu_weight_create(&backend.base, &tensor, WEIGHT_VECTOR, &weight, &error),
                     STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
}

TEST(weights_without_memory_leave_nothing)
{
    struct tensor tensor = make_tensor(TENSOR_Q8_0, 32, 1);
    struct weight *weight;
    world.has_no_memory = true;
    for (enum weight_role role = 0; role < 3; role++) {
        assert_int_equal(gpu_weight_create(&backend.base, &tensor, role, &weight, &error), STATUS_REFUSE);
        assert_null(weight);
        assert_non_null(strstr(error.text, "32x256"));
    }
    gpu_weight_destroy(&backend.base, NULL);
    free((void *)(uintptr_t)tensor.data);
}

// ---- memory ----

TEST(available_are_the_free_bytes_within_the_limit_but_a_reserve)
{
    static const struct {
        uint64_t free, limit, used, available;
    } cases[] = {{1ull << 30, 0, 0, 768ull << 20},
                 {256ull << 20, 0, 0, 0},
                 {(256ull << 20) + 1, 0, 0, 1},
                 {100, 0, 0, 0},
                 {1ull << 30, 1ull << 40, 0, 768ull << 20},
                 {1ull << 30, 500, 100, 400},
                 {1ull << 30, 500, 500, 0},
                 {1ull << 30, 500, 600, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world.free_bytes = cases[i].free;
        backend.options.memory_bytes = cases[i].limit;
        backend.used_bytes = cases[i].used;
        assert_int_equal(gpu_available_bytes(&backend.base), cases[i].available);
    }
    backend.used_bytes = 0;
}

TEST(no_more_is_allocated_than_the_limit_allows)
{
    backend.options.memory_bytes = 1000;
    assert_null(gpu_allocate(&backend, 1001));
    void *first = gpu_allocate(&backend, 600);
    assert_non_null(first);
    assert_null(gpu_allocate(&backend, 401));
    void *second = gpu_allocate(&backend, 400);
    assert_non_null(second);
    assert_int_equal(backend.used_bytes, 1000);
    assert_int_equal(gpu_no_memory(&backend, 2000000, "a test", &error), STATUS_REFUSE);
    assert_string_equal(error.text, "no device memory for a test: 2.0 MB wanted, 0.0 MB left");
    gpu_free(&backend, first, 600);
    gpu_free(&backend, second, 400);
    gpu_free(&backend, NULL, 400);
    backend.options.memory_bytes = 0;
    world.free_bytes = 3000000;
    (void)!gpu_no_memory(&backend, 2000000, "a test", &error);
    assert_non_null(strstr(error.text, "3.0 MB left"));
    world.status = STATUS_RESTART;
    assert_int_equal(gpu_no_memory(&backend, 1, "a test", &error), STATUS_RESTART);
    assert_string_equal(error.text, "lost");
}

TEST(scratch_grows_and_never_shrinks)
{
    struct device_scratch scratch = {0};
    assert_ok(gpu_scratch_reserve(&backend, &scratch, 0, "a test", &error), &error);
    assert_null(scratch.memory);
    assert_ok(gpu_scratch_reserve(&backend, &scratch, 100, "a test", &error), &error);
    void *memory = scratch.memory;
    for (uint64_t bytes = 99; bytes <= 100; bytes++)
        assert_ok(gpu_scratch_reserve(&backend, &scratch, bytes, "a test", &error), &error);
    assert_ptr_equal(scratch.memory, memory);
    assert_ok(gpu_scratch_reserve(&backend, &scratch, 101, "a test", &error), &error);
    assert_int_equal(scratch.size_bytes, 101);
    assert_int_equal(backend.used_bytes, 101);
    assert_int_equal(world.n_blocks, 1);
    world.has_no_memory = true;
    assert_int_equal(gpu_scratch_reserve(&backend, &scratch, 102, "a test", &error), STATUS_REFUSE);
    assert_int_equal(scratch.size_bytes, 0);
    gpu_scratch_finish(&backend, &scratch);
    world.has_no_memory = false;
    assert_ok(gpu_scratch_reserve(&backend, &scratch, 5, "a test", &error), &error);
    gpu_scratch_finish(&backend, &scratch);
    assert_null(scratch.memory);
    assert_int_equal(scratch.size_bytes, 0);
}

TEST_FIXTURE(begin, end);

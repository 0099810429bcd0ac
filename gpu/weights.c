// Uploads weights once, in the file's quantization: GEMM weights as tiles (gpu/kernels/tiles.h), then their
// additional factors; tables unchanged, vectors as float32. Types without a tile format or a table kernel are
// dequantized before the upload.
#include "gpu/kernels/tensor_matrix.h"
#include "gpu/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status no_memory(struct gpu_backend *backend, const struct tensor *tensor, uint64_t size_bytes,
                             struct error *error)
{
    char shape[64], what[80];
    tensor_shape_text(tensor, shape);
    snprintf(what, sizeof what, "%s items", shape);
    return gpu_no_memory(backend, size_bytes, what, error);
}

// Allocates the weight's device memory, with the same rounding as the memory plan.
static enum status allocate_weight(struct gpu_backend *backend, struct weight *weight, uint64_t size_bytes,
                                   struct error *error)
{
    size_bytes = device_block_bytes(size_bytes);
    weight->memory = gpu_allocate(backend, size_bytes);
    if (!weight->memory)
        return no_memory(backend, &weight->tensor, size_bytes, error);
    weight->size_bytes = size_bytes;
    return STATUS_OK;
}

// ---- GEMM weights ----

// Panels that the pool packs into a staging buffer, a few per task.
struct staged_panels {
    struct tensor rows; // the rows of one matrix
    enum tensor_type type;
    unsigned char *out;
    uint64_t panel_bytes;
    int64_t n_panels, run;
};

static void pack_run(void *context, int index, int thread)
{
    const struct staged_panels *packing = context;
    int64_t begin = index * packing->run;
    int64_t end = packing->n_panels - begin < packing->run ? packing->n_panels : begin + packing->run;
    tiles_pack(packing->out, packing->type, &packing->rows, 0, begin, end);
}

enum { RUNS_A_BUFFER = 64 };

// Packs and uploads a matrix, one staging buffer of panels at a time.
static void send_matrix(struct gpu_backend *backend, struct weight *weight, uint64_t matrix,
                        uint64_t matrix_bytes)
{
    const struct tensor *tensor = &weight->tensor;
    int64_t n_outputs = (int64_t)tensor->dims[1], n_panels = tiles_panels(n_outputs);
    uint64_t row_bytes = tensor_row_bytes(tensor);
    const struct tensor own = tensor_matrix(tensor, matrix);
    struct staged_panels packing = {.rows = own, .type = weight->tiles};
    packing.panel_bytes = tiles_bytes(weight->tiles, TILE_OUTPUTS, (int64_t)tensor->dims[0]);
    int64_t fits = (int64_t)(backend->staging.size_bytes / packing.panel_bytes);
    for (int64_t first = 0; first < n_panels; first += packing.n_panels) {
        packing.n_panels = n_panels - first < fits ? n_panels - first : fits;
        int64_t row = first * TILE_OUTPUTS;
        int64_t rows_left = n_outputs - row, rows_fit = packing.n_panels * TILE_OUTPUTS;
        packing.rows.dims[1] = (uint64_t)(rows_left < rows_fit ? rows_left : rows_fit);
        packing.rows.size_bytes = row_bytes * packing.rows.dims[1];
        packing.rows.data = (const unsigned char *)own.data + row_bytes * (uint64_t)row;
        packing.out = staging_take(&backend->staging);
        packing.run = (packing.n_panels + RUNS_A_BUFFER - 1) / RUNS_A_BUFFER;
        int n_runs = (int)((packing.n_panels + packing.run - 1) / packing.run);
        if (backend->options.pool)
            pool_run(backend->options.pool, n_runs, pack_run, &packing);
        else
            for (int i = 0; i < n_runs; i++)
                pack_run(&packing, i, 0);
        uint64_t bytes = tiles_bytes(weight->tiles, (int64_t)packing.rows.dims[1], (int64_t)tensor->dims[0]);
        staging_send(&backend->staging,
                     weight->memory + matrix * matrix_bytes + (uint64_t)first * packing.panel_bytes, bytes);
    }
}

static void send_factors(struct gpu_backend *backend, struct weight *weight, uint64_t offset)
{
    float *factors = (float *)(void *)staging_take(&backend->staging);
    for (int64_t matrix = 0; matrix < weight->n_matrices; matrix++)
        factors[matrix] = tensor_scale(&weight->tensor, (uint64_t)matrix);
    weight->factors = (const float *)(const void *)(weight->memory + offset);
    staging_send(&backend->staging, weight->memory + offset, (size_t)weight->n_matrices * sizeof *factors);
}

static uint64_t factors_bytes(const struct tensor *tensor)
{
    return tensor->scales ? tensor->dims[2] * tensor->dims[3] * sizeof(float) : 0;
}

static enum status product_create(struct gpu_backend *backend, struct weight *weight, struct error *error)
{
    const struct tensor *tensor = &weight->tensor;
    uint64_t n_matrices = tensor->dims[2] * tensor->dims[3];
    if (tensor->dims[0] > INT32_MAX / 2 || tensor->dims[1] > INT32_MAX / 2 ||
        n_matrices > MODEL_EXPERTS_MAX) {
        char shape[64];
        tensor_shape_text(tensor, shape);
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "a matrix of %s is too large", shape);
    }
    weight->tiles = tiles_type(tensor);
    weight->n_matrices = (int64_t)n_matrices;
    uint64_t matrix_bytes = tiles_bytes(weight->tiles, (int64_t)tensor->dims[1], (int64_t)tensor->dims[0]);
    uint64_t panel_bytes = tiles_bytes(weight->tiles, TILE_OUTPUTS, (int64_t)tensor->dims[0]);
    enum status status =
        allocate_weight(backend, weight, matrix_bytes * n_matrices + factors_bytes(tensor), error);
    if (status == STATUS_OK)
        status = staging_reserve(&backend->staging, panel_bytes + factors_bytes(tensor), error);
    if (status != STATUS_OK)
        return status;
    for (uint64_t matrix = 0; matrix < n_matrices; matrix++)
        send_matrix(backend, weight, matrix, matrix_bytes);
    if (tensor->scales)
        send_factors(backend, weight, matrix_bytes * n_matrices);
    weight->bound = output_bound_of_weight(tensor, backend->normed, backend->options.pool);
    int32_t n_inputs = (int32_t)tensor->dims[0];
    backend->capacity.n_inputs_max =
        n_inputs > backend->capacity.n_inputs_max ? n_inputs : backend->capacity.n_inputs_max;
    if (tensor->n_dims > 2 && weight->n_matrices > backend->capacity.n_experts_max)
        backend->capacity.n_experts_max = (int32_t)n_matrices;
    return STATUS_OK;
}

// ---- tables and vectors ----

// Dequantizes and uploads items, one staging buffer at a time.
static void send_floats(struct gpu_backend *backend, void *to, const struct tensor *tensor, uint64_t n_items)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    uint64_t fits = backend->staging.size_bytes / sizeof(float) / traits->block_items * traits->block_items;
    for (uint64_t done = 0; done < n_items;) {
        uint64_t n = n_items - done < fits ? n_items - done : fits;
        float *items = (float *)(void *)staging_take(&backend->staging);
        traits->dequantize(
            (const unsigned char *)tensor->data + done / traits->block_items * traits->block_bytes, items, n);
        staging_send(&backend->staging, (float *)to + done, n * sizeof(float));
        done += n;
    }
}

static enum status table_create(struct gpu_backend *backend, struct weight *weight, struct error *error)
{
    const struct tensor *tensor = &weight->tensor;
    bool known = launch_embed_knows((int32_t)tensor->type);
    uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
    enum status status =
        allocate_weight(backend, weight, known ? tensor->size_bytes : n_items * sizeof(float), error);
    if (status != STATUS_OK)
        return status;
    weight->table = (struct device_table){.rows = weight->memory,
                                          .row_bytes = known ? (int64_t)tensor_row_bytes(tensor)
                                                             : (int64_t)(tensor->dims[0] * sizeof(float)),
                                          .n_rows = (int64_t)tensor_n_rows(tensor),
                                          .type = known ? (int32_t)tensor->type : TENSOR_F32};
    if (known)
        staging_copy(&backend->staging, weight->memory, tensor->data, tensor->size_bytes);
    else
        send_floats(backend, weight->memory, tensor, n_items);
    return STATUS_OK;
}

static enum status vector_create(struct gpu_backend *backend, struct weight *weight, struct error *error)
{
    uint64_t n_items = weight->tensor.dims[0] * tensor_n_rows(&weight->tensor);
    if (n_items > INT32_MAX)
        return no_memory(backend, &weight->tensor, n_items * sizeof(float), error);
    enum status status = allocate_weight(backend, weight, n_items * sizeof(float), error);
    if (status != STATUS_OK)
        return status;
    weight->items = (float *)(void *)weight->memory;
    weight->n_items = (int64_t)n_items;
    weight->bound.largest = output_bound_of_vector(&weight->tensor);
    send_floats(backend, weight->memory, &weight->tensor, n_items);
    return STATUS_OK;
}

// ---- create, destroy ----

enum status gpu_weight_create(struct backend *base, const struct tensor *tensor, enum weight_role role,
                              struct weight **out, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    *out = NULL;
    assert(!backend->capacity.reserved); // the first step frees the staging buffers
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    if (!traits->dequantize)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "type %s can't be computed with",
                         traits->name ? traits->name : "unknown");
    if (tensor->order)
        return error_set(
            error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
            "columns in the order of act-order can't be computed with on a GPU: give --backend cpu");
    struct weight *weight = calloc(1, sizeof *weight);
    if (!weight)
        return error_memory(error, STATUS_REFUSE, "a weight");
    weight->role = role;
    weight->tensor = *tensor;
    enum status status = role == WEIGHT_PRODUCT ? product_create(backend, weight, error)
                         : role == WEIGHT_TABLE ? table_create(backend, weight, error)
                                                : vector_create(backend, weight, error);
    if (status != STATUS_OK) {
        gpu_weight_destroy(base, weight);
        return status;
    }
    *out = weight;
    return STATUS_OK;
}

void gpu_normed_input(struct backend *base, const struct norm_items *norm)
{
    gpu_backend_of(base)->normed = norm;
}

void gpu_weight_destroy(struct backend *base, struct weight *weight)
{
    if (!weight)
        return;
    gpu_free(gpu_backend_of(base), weight->memory, weight->size_bytes);
    free(weight);
}

static uint64_t weight_size(const struct tensor *tensor, enum weight_role role)
{
    uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
    if (role == WEIGHT_VECTOR)
        return n_items * sizeof(float);
    if (role == WEIGHT_TABLE)
        return launch_embed_knows((int32_t)tensor->type) ? tensor->size_bytes : n_items * sizeof(float);
    struct tensor unseen = *tensor; // a copy without data, so only the type decides
    unseen.size_bytes = 0;
    enum tensor_type type = tiles_type(&unseen);
    if (type == TENSOR_TYPE_COUNT)
        return tensor->size_bytes; // loading will refuse the type by name
    return tiles_bytes(type, (int64_t)tensor->dims[1], (int64_t)tensor->dims[0]) * tensor->dims[2] *
               tensor->dims[3] +
           factors_bytes(tensor);
}

// The tensor's data need not be loaded. Each weight is one allocation, so its size is rounded.
uint64_t gpu_weight_bytes(struct backend *base, const struct tensor *tensor, enum weight_role role)
{
    (void)base;
    return device_block_bytes(weight_size(tensor, role));
}

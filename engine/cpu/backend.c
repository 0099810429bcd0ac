#include "engine/cpu/backend.h"

#include "engine/cpu/product/memory.h"
#include "engine/cpu/state.h"
#include "schemas/base/machine.h"
#include "engine/sampler.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- weights ----

static void weight_destroy(struct backend *base, struct weight *weight)
{
    if (!weight)
        return;
    for (int32_t i = 0; i < weight->n_packed; i++)
        packed_destroy(weight->packed[i]);
    free(weight->packed);
    free(weight->items);
    free(weight);
}

static int32_t larger_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static enum status no_memory(const struct tensor *tensor, struct error *error)
{
    char shape[64];
    tensor_shape_text(tensor, shape);
    return error_memory(error, STATUS_REFUSE, "%s items", shape);
}

static enum status product_create(struct cpu_backend *backend, struct weight *weight, struct error *error)
{
    const struct tensor *tensor = &weight->tensor;
    struct tensor slice = *tensor; // the matrix of one expert
    slice.n_dims = 2;
    slice.dims[2] = slice.dims[3] = 1;
    slice.size_bytes = tensor_row_bytes(tensor) * tensor->dims[1];
    uint64_t n_experts = tensor->dims[2] * tensor->dims[3];
    if (tensor->dims[0] > INT32_MAX / 2 || tensor->dims[1] > INT32_MAX / 2 || n_experts > INT32_MAX / 2) {
        char shape[64];
        tensor_shape_text(tensor, shape);
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "a matrix of %s is too large", shape);
    }
    weight->packed = calloc(n_experts, sizeof *weight->packed);
    if (!weight->packed)
        return no_memory(tensor, error);
    for (uint64_t expert = 0; expert < n_experts; expert++) {
        slice.data = (const unsigned char *)tensor->data +
                     expert * (tensor->matrix_stride_bytes ? tensor->matrix_stride_bytes : slice.size_bytes);
        if (tensor->scales && !tensor->one_scale)
            slice.scales = (const float *)tensor->scales + expert;
        slice.order = tensor->order ? tensor->order + expert * tensor->dims[0] : NULL;
        enum status status =
            packed_create(&weight->packed[expert], &slice, &backend->weight_memory, backend->pool, error);
        if (status != STATUS_OK)
            return status;
        weight->n_packed++;
    }
    backend->capacity.n_inputs_max = larger_of(backend->capacity.n_inputs_max, (int32_t)tensor->dims[0]);
    backend->capacity.has_orders |= tensor->order != NULL;
    if (n_experts > 1) {
        backend->capacity.n_experts_max = larger_of(backend->capacity.n_experts_max, (int32_t)n_experts);
        backend->capacity.n_expert_outputs_max =
            larger_of(backend->capacity.n_expert_outputs_max, (int32_t)tensor->dims[1]);
    }
    return STATUS_OK;
}

static enum status table_create(struct cpu_backend *backend, struct weight *weight, struct error *error)
{
    uint64_t n_cols = weight->tensor.dims[0];
    if (n_cols <= (uint64_t)backend->capacity.n_table_cols_max)
        return STATUS_OK;
    if (n_cols > INT32_MAX / 2)
        return no_memory(&weight->tensor, error);
    size_t n_rows = (size_t)pool_n_threads(backend->pool);
    float *rows = realloc(backend->buffers.table_rows, n_rows * n_cols * sizeof *rows);
    if (!rows)
        return no_memory(&weight->tensor, error);
    backend->buffers.table_rows = rows;
    backend->capacity.n_table_cols_max = (int32_t)n_cols;
    return STATUS_OK;
}

static enum status vector_create(struct weight *weight, struct error *error)
{
    const struct tensor *tensor = &weight->tensor;
    uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
    if (n_items > INT32_MAX)
        return no_memory(tensor, error);
    const uint64_t line_bytes = 64; // vectors of 16 floats cross no cache line
    weight->items = aligned_alloc(line_bytes, (n_items * sizeof *weight->items + line_bytes - 1) /
                                                  line_bytes * line_bytes);
    if (!weight->items)
        return no_memory(tensor, error);
    tensor_traits(tensor->type)->dequantize(tensor->data, weight->items, n_items);
    weight->n_items = (int64_t)n_items;
    return STATUS_OK;
}

static enum status weight_create(struct backend *base, const struct tensor *tensor, enum weight_role role,
                                 struct weight **out, struct error *error)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    *out = NULL;
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    if (!traits->dequantize)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "type %s can't be computed with",
                         traits->name ? traits->name : "unknown");
    struct weight *weight = calloc(1, sizeof *weight);
    if (!weight)
        return no_memory(tensor, error);
    weight->role = role;
    weight->tensor = *tensor;
    enum status status = role == WEIGHT_PRODUCT ? product_create(backend, weight, error)
                         : role == WEIGHT_TABLE ? table_create(backend, weight, error)
                                                : vector_create(weight, error);
    if (status != STATUS_OK) {
        weight_destroy(base, weight);
        return status;
    }
    *out = weight;
    return STATUS_OK;
}

// ---- matrices and pages ----

// Aligns rows to cache lines. Avoids strides that are a multiple of 4 KB, because all rows would map to the
// same cache sets.
static int64_t matrix_stride(int32_t n_cols)
{
    int64_t stride = ((int64_t)n_cols + 15) / 16 * 16;
    return stride % 1024 == 0 ? stride + 16 : stride;
}

static void matrix_destroy(struct backend *base, struct matrix *matrix)
{
    if (!matrix)
        return;
    memory_unmap(matrix->items, matrix->bytes);
    free(matrix);
}

static enum status matrix_create(struct backend *base, int32_t n_rows_max, int32_t n_cols,
                                 struct matrix **out, struct error *error)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    assert(n_rows_max > 0 && n_cols > 0);
    *out = NULL;
    struct matrix *matrix = calloc(1, sizeof *matrix);
    int64_t stride = matrix_stride(n_cols);
    size_t bytes = (size_t)n_rows_max;
    if (matrix && !__builtin_mul_overflow(bytes, (size_t)stride * sizeof(float), &bytes))
        matrix->items = memory_map(bytes);
    if (!matrix || !matrix->items) {
        free(matrix);
        return error_memory(error, STATUS_REFUSE, "%d rows of %d items", n_rows_max, n_cols);
    }
    matrix->n_rows_max = n_rows_max;
    matrix->n_cols = n_cols;
    matrix->stride = stride;
    matrix->bytes = bytes;
    backend->capacity.n_rows_max = larger_of(backend->capacity.n_rows_max, n_rows_max);
    *out = matrix;
    return STATUS_OK;
}

static struct layer_heads heads_of(const struct kv_shape *shape, int32_t layer)
{
    return shape->layers
               ? shape->layers[layer]
               : (struct layer_heads){shape->n_kv_heads, shape->key_dim, shape->value_dim, shape->n_heads};
}

// Assigns each layer that has pages to a group of layers with the same heads. pages.shape of a group gets
// these heads and the number of layers.
static void place_layers(struct cpu_backend *backend, const struct kv_shape *shape)
{
    for (int32_t layer = 0; layer < shape->n_layers; layer++) {
        struct layer_heads heads = heads_of(shape, layer);
        struct kv_shape *own = &backend->groups[0].pages.shape;
        int32_t group = 0;
        if (heads.n_kv_heads == 0)
            continue;
        while (group < backend->n_groups &&
               (own->n_kv_heads != heads.n_kv_heads || own->key_dim != heads.key_dim ||
                own->value_dim != heads.value_dim))
            own = &backend->groups[++group].pages.shape;
        if (group == backend->n_groups) {
            backend->n_groups++;
            *own = *shape;
            own->n_layers = 0, own->layers = NULL;
            own->n_kv_heads = heads.n_kv_heads, own->key_dim = heads.key_dim,
            own->value_dim = heads.value_dim;
        }
        backend->places[layer] = (struct page_place){group, own->n_layers++};
    }
}

static enum status kv_create(struct backend *base, const struct kv_shape *shape, struct error *error)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    assert(!backend->groups && shape->n_layers > 0);
    backend->groups = calloc((size_t)shape->n_layers + 1, sizeof *backend->groups);
    backend->places = calloc((size_t)shape->n_layers, sizeof *backend->places);
    if (!backend->groups || !backend->places)
        return error_memory(error, STATUS_REFUSE, "the pages of %d layers", shape->n_layers);
    place_layers(backend, shape);
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < backend->n_groups && status == STATUS_OK; i++) {
        struct page_group *group = &backend->groups[i];
        struct kv_shape own = group->pages.shape;
        status = pages_create(&group->pages, &own, error);
        if (status == STATUS_OK)
            status = attention_create(&group->attention, &group->pages, backend->pool,
                                      &backend->kernels.attention, error);
    }
    if (status == STATUS_OK && shape->index.n_selected > 0)
        status =
            selection_create(&backend->selection, shape, backend->pool, &backend->kernels.attention, error);
    return status;
}

static enum status kv_read(struct backend *base, int32_t layer, const int32_t *list, int32_t n_pages,
                           float *keys, float *values, struct error *error)
{
    struct page_group *group = layer_pages(cpu_backend_of(base), layer, &layer);
    const struct kv_shape *shape = &group->pages.shape;
    (void)error;
    for (int32_t i = 0; i < n_pages; i++)
        for (int32_t position = 0; position < shape->page_positions; position++) {
            pages_load(&group->pages, layer, list[i], position, keys, values);
            keys += (ptrdiff_t)shape->n_kv_heads * shape->key_dim;
            values += (ptrdiff_t)shape->n_kv_heads * shape->value_dim;
        }
    return STATUS_OK;
}

static void kv_write(struct backend *base, int32_t layer, const int32_t *list, int32_t n_pages,
                     const float *keys, const float *values)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    struct page_group *group = layer_pages(backend, layer, &layer);
    const struct kv_shape *shape = &group->pages.shape;
    for (int32_t i = 0; i < n_pages; i++)
        for (int32_t position = 0; position < shape->page_positions; position++) {
            pages_store(&group->pages, &backend->kernels.rows, layer, list[i], position, keys, values);
            keys += (ptrdiff_t)shape->n_kv_heads * shape->key_dim;
            values += (ptrdiff_t)shape->n_kv_heads * shape->value_dim;
        }
}

static enum status create_states(struct backend *base, const struct state_shape *shape, struct error *error)
{
    assert(!cpu_backend_of(base)->states.memory);
    return states_create(&cpu_backend_of(base)->states, shape, error);
}

static void copy_state(struct backend *base, int32_t to, int32_t from)
{
    states_copy(&cpu_backend_of(base)->states, to, from);
}

static uint64_t state_bytes(struct backend *base, const struct state_shape *shape)
{
    return (uint64_t)states_all_items(shape) * sizeof(float);
}

static uint64_t available_bytes(struct backend *base)
{
    return machine_available_bytes();
}

// ---- a step ----

// Reallocates an array without keeping its contents: they are valid only within a step.
static void *remake_array(void *old, size_t n_items, size_t item_bytes)
{
    free(old);
    return calloc(n_items, item_bytes);
}

static enum status experts_reserve(struct cpu_backend *backend, struct error *error)
{
    if (backend->capacity.n_experts_max == 0)
        return STATUS_OK;
    size_t n_rows = (size_t)backend->capacity.n_rows_max;
    size_t x_bytes = (size_t)matrix_stride(backend->capacity.n_inputs_max) * sizeof(float);
    size_t y_bytes = (size_t)matrix_stride(backend->capacity.n_expert_outputs_max) * sizeof(float);
    backend->buffers.gathered_x = remake_array(backend->buffers.gathered_x, n_rows, x_bytes);
    backend->buffers.gathered_y = remake_array(backend->buffers.gathered_y, n_rows, y_bytes);
    if (!backend->buffers.gathered_x || !backend->buffers.gathered_y)
        return error_memory(error, STATUS_REFUSE, "experts' rows");
    return routing_reserve(&backend->routing, backend->capacity.n_rows_max, backend->capacity.n_experts_max,
                           pool_n_threads(backend->pool), error);
}

// Allocates the scratch of the largest step. The sizes depend only on the created weights and matrices, so
// later steps allocate nothing.
static enum status reserve_rows(struct cpu_backend *backend, int32_t n_outputs, struct error *error)
{
    if (n_outputs > backend->capacity.n_results_max) {
        size_t n = (size_t)n_outputs;
        backend->buffers.results =
            remake_array(backend->buffers.results, n, sizeof *backend->buffers.results);
        backend->buffers.output_places =
            remake_array(backend->buffers.output_places, n, sizeof *backend->buffers.output_places);
        backend->buffers.place_outputs =
            remake_array(backend->buffers.place_outputs, n, sizeof *backend->buffers.place_outputs);
        backend->buffers.place_masks =
            remake_array(backend->buffers.place_masks, n, sizeof *backend->buffers.place_masks);
        backend->buffers.outputs =
            remake_array(backend->buffers.outputs, n, sizeof *backend->buffers.outputs);
        bool complete = backend->buffers.results && backend->buffers.outputs &&
                        backend->buffers.output_places && backend->buffers.place_outputs &&
                        backend->buffers.place_masks;
        backend->capacity.n_results_max = complete ? n_outputs : 0;
        if (!complete)
            return error_memory(error, STATUS_REFUSE, "%d results", n_outputs);
    }
    int32_t n_rows = backend->capacity.n_rows_max, n_inputs = larger_of(backend->capacity.n_inputs_max, 1);
    if (n_rows == backend->capacity.n_rows_reserved && n_inputs == backend->capacity.n_inputs_reserved)
        return STATUS_OK;
    prepared_finish(&backend->prepared);
    enum status status = prepared_create(&backend->prepared, n_rows, n_inputs, backend->activation_parts,
                                         pool_n_threads(backend->pool), error);
    if (status == STATUS_OK)
        status = experts_reserve(backend, error);
    for (int32_t i = 0; i < backend->n_groups && status == STATUS_OK; i++)
        status = attention_reserve(backend->groups[i].attention, n_rows, error);
    if (status == STATUS_OK)
        status = selection_reserve(&backend->selection, n_rows, error);
    if (status != STATUS_OK)
        return status;
    backend->buffers.row_sequences =
        remake_array(backend->buffers.row_sequences, (size_t)n_rows, sizeof *backend->buffers.row_sequences);
    if (!backend->buffers.row_sequences)
        return error_memory(error, STATUS_REFUSE, "steps of %d rows", n_rows);
    if (backend->capacity.has_orders)
        backend->buffers.sorted_x = remake_array(backend->buffers.sorted_x, (size_t)n_rows,
                                                 (size_t)matrix_stride(n_inputs) * sizeof(float));
    if (backend->capacity.has_orders && !backend->buffers.sorted_x)
        return error_memory(error, STATUS_REFUSE, "%d rows of %d inputs", n_rows, n_inputs);
    backend->capacity.n_rows_reserved = n_rows;
    backend->capacity.n_inputs_reserved = n_inputs;
    return STATUS_OK;
}

static void trace_steps(struct backend *base, struct step_times *times)
{
    cpu_backend_of(base)->timing.times = times;
}

// Starts a phase, which ends the previous one, because operations are synchronous.
static void start_phase(struct backend *base, enum step_phase next)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (!backend->timing.times)
        return;
    double now_us = 1e-3 * (double)clock_ns();
    backend->timing.times->us[backend->timing.phase] += now_us - backend->timing.phase_began_us;
    backend->timing.phase_began_us = now_us;
    backend->timing.phase = next;
}

struct page_copies {
    const struct step *step;
    struct pages *pages;
};

// Copies one page in one layer.
static void copy_page(void *context, int32_t item, int thread)
{
    const struct page_copies *copies = context;
    const struct page_copy *copy = &copies->step->copies[item % copies->step->n_copies];
    pages_copy(copies->pages, item / copies->step->n_copies, copy->to, copy->from);
}

static void begin_step(struct backend *base, const struct step *step)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->timing.times) {
        *backend->timing.times = (struct step_times){0};
        backend->timing.phase = PHASE_UPLOAD;
        backend->timing.phase_began_us = 1e-3 * (double)clock_ns();
    }
    assert(!backend->step && step->n_tokens <= backend->capacity.n_rows_max);
    backend->step = step;
    backend->outputs_only = false;
    backend->failed = reserve_rows(backend, step->n_outputs, &backend->error) != STATUS_OK;
    if (backend->failed)
        return;
    for (int32_t i = 0; i < step->n_outputs; i++)
        backend->buffers.output_places[i] = i;
    int32_t row = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        assert(step->sequences[i].first_row == row && step->sequences[i].n_tokens > 0);
        for (int32_t end = row + step->sequences[i].n_tokens; row < end; row++)
            backend->buffers.row_sequences[row] = i;
    }
    assert(row == step->n_tokens);
    for (int32_t i = 0; i < backend->n_groups; i++) {
        attention_begin(backend->groups[i].attention,
                        (struct attention_sequences){step->sequences, step->n_sequences});
        struct page_copies copies = {step, &backend->groups[i].pages};
        if (step->n_copies)
            spread_rows(backend, step->n_copies * copies.pages->shape.n_layers,
                        (int64_t)(copies.pages->page_bytes / sizeof(float)), copy_page, &copies);
    }
    struct page_copies copies = {step, &backend->selection.keys};
    if (step->n_copies && backend->selection.shape.n_selected)
        spread_rows(backend, step->n_copies * copies.pages->shape.n_layers,
                    (int64_t)(copies.pages->page_bytes / sizeof(float)), copy_page, &copies);
}

static enum status end_step(struct backend *base, struct sample_result *results, struct error *error)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    const struct step *step = backend->step;
    assert(step);
    start_phase(base, PHASE_DOWNLOAD);
    backend->step = NULL;
    if (backend->failed) {
        *error = backend->error;
        return error->status;
    }
    if (results && step->n_outputs > 0)
        memcpy(results, backend->buffers.results, (size_t)step->n_outputs * sizeof *results);
    start_phase(base, PHASE_UPLOAD);
    return STATUS_OK;
}

// ---- the backend table ----

static void destroy_backend(struct backend *base)
{
    if (!base)
        return;
    struct cpu_backend *backend = cpu_backend_of(base);
    for (int i = 0; backend->buffers.samplers && i < pool_n_threads(backend->pool); i++)
        sampler_destroy(backend->buffers.samplers[i]);
    free(backend->buffers.samplers);
    for (int32_t i = 0; i < backend->n_groups; i++) {
        attention_destroy(backend->groups[i].attention);
        pages_finish(&backend->groups[i].pages);
    }
    free(backend->groups);
    free(backend->places);
    states_finish(&backend->states);
    selection_finish(&backend->selection);
    prepared_finish(&backend->prepared);
    routing_finish(&backend->routing);
    free(backend->buffers.gathered_x);
    free(backend->buffers.gathered_y);
    free(backend->buffers.sorted_x);
    free(backend->buffers.table_rows);
    free(backend->buffers.row_sequences);
    free(backend->buffers.results);
    free(backend->buffers.outputs);
    free(backend->buffers.output_places);
    free(backend->buffers.place_outputs);
    free(backend->buffers.place_masks);
    memory_stack_finish(&backend->weight_memory);
    free(backend);
}

static const struct backend_device device_cpu = {.destroy = destroy_backend,
                                                 .weight_create = weight_create,
                                                 .weight_destroy = weight_destroy,
                                                 .matrix_create = matrix_create,
                                                 .matrix_destroy = matrix_destroy,
                                                 .kv_create = kv_create,
                                                 .kv_read = kv_read,
                                                 .kv_write = kv_write,
                                                 .states_create = create_states,
                                                 .state_copy = copy_state,
                                                 .state_bytes = state_bytes,
                                                 .available_bytes = available_bytes,
                                                 .trace = trace_steps};

static const struct backend_operations operations_cpu = {.begin = begin_step,
                                                         .phase = start_phase,
                                                         .embed = cpu_embed,
                                                         .attends_both_ways = true,
                                                         .norm = cpu_norm,
                                                         .products = cpu_products,
                                                         .add_low_rank = cpu_add_low_rank,
                                                         .rope = cpu_rope,
                                                         .kv_store = cpu_kv_store,
                                                         .index_store = cpu_index_store,
                                                         .computes_all = true,
                                                         .index_store_means = cpu_index_store_means,
                                                         .merge_streams = cpu_merge_streams,
                                                         .add_to_streams = cpu_add_to_streams,
                                                         .gate_streams = cpu_gate_streams,
                                                         .ngram_embed = cpu_ngram_embed,
                                                         .ngram_convolve = cpu_ngram_convolve,
                                                         .select_positions = cpu_select_positions,
                                                         .selects_blocks = true,
                                                         .attend = cpu_attend,
                                                         .activate = cpu_activate,
                                                         .rectifies = true,
                                                         .xielu = cpu_xielu,
                                                         .add = cpu_add,
                                                         .scale = cpu_scale,
                                                         .gather = cpu_gather,
                                                         .route = cpu_route,
                                                         .weighs_inputs = true,
                                                         .expert_products = cpu_expert_products,
                                                         .expert_sum = cpu_expert_sum,
                                                         .gate_rows = cpu_gate_rows,
                                                         .gate_softplus = cpu_gate_softplus,
                                                         .limit = cpu_limit,
                                                         .head_products = cpu_head_products,
                                                         .place_products = cpu_place_products,
                                                         .sum_taps = cpu_sum_taps,
                                                         .copy_columns = cpu_copy_columns,
                                                         .convolve = cpu_convolve,
                                                         .delta_rule = cpu_delta_rule,
                                                         .scan = cpu_scan,
                                                         .selective_scan = cpu_selective_scan,
                                                         .multiply_by = cpu_multiply_by,
                                                         .set_columns = cpu_set_columns,
                                                         .keep_outputs = cpu_keep_outputs,
                                                         .mix = cpu_mix,
                                                         .match_rms = cpu_match_rms,
                                                         .sparsify = cpu_sparsify,
                                                         .multiply = cpu_multiply,
                                                         .reads_masks_late = true,
                                                         .output_product = cpu_output_product,
                                                         .sample = cpu_sample,
                                                         .write = cpu_write,
                                                         .read = cpu_read,
                                                         .end = end_step};

enum status cpu_backend_create(struct backend **out, struct pool *pool, enum cpu_level level_max,
                               struct error *error)
{
    *out = NULL;
    struct cpu_backend *backend = calloc(1, sizeof *backend);
    struct sampler **samplers = calloc((size_t)pool_n_threads(pool), sizeof *samplers);
    if (!backend || !samplers) {
        free(backend);
        free(samplers);
        return error_memory(error, STATUS_REFUSE, "the CPU backend");
    }
    backend->buffers.samplers = samplers;
    backend->pool = pool;
    backend->activation_parts = 1;
    cpu_kernels_init(&backend->kernels, level_max);
    backend_init(&backend->base, &device_cpu, &operations_cpu);
    backend->base.device.name = backend->kernels.name;
    *out = &backend->base;
    return STATUS_OK;
}

void cpu_backend_set_activation_bits(struct backend *base, int bits)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    assert((bits == 8 || bits == 16) && backend->capacity.n_rows_reserved == 0);
    backend->activation_parts = bits / 8;
}

const char *cpu_backend_refused(const struct backend *base, int *refusal)
{
    const struct cpu_kernels *kernels = &((const struct cpu_backend *)(const void *)base)->kernels;
    *refusal = kernels->refused_errno;
    return kernels->refused;
}

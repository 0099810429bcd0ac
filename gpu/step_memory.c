// The memory of a step: sized for the largest one, from the created matrices and weights.
#include "gpu/state.h"

#include <stdlib.h>

static int32_t larger_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static const uint64_t NEXT_BYTES_MAX = 256 << 10;

static int32_t partial_tiles(const struct gpu_backend *backend)
{
    const struct device_facts *facts = device_facts(backend->device);
    return facts->has_wgmma ? product_partial_tiles(facts->n_multiprocessors) : 0;
}

static uint64_t partial_bytes(const struct gpu_backend *backend, int32_t n_inputs)
{
    const struct device_facts *facts = device_facts(backend->device);
    return facts->has_wgmma ? product_partial_bytes(facts->n_multiprocessors, n_inputs) : 0;
}

// Bytes for the operand of the GEMM after gated GEMMs, which write it for few rows only
// (product_converts_next; with experts: few rows per expert).
static uint64_t next_bytes(int32_t n_rows, int32_t n_inputs)
{
    uint64_t all = activation_operand_bytes(n_rows, n_inputs);
    return all < NEXT_BYTES_MAX ? all : NEXT_BYTES_MAX;
}

// Bytes of activation operands, partial sums of GEMMs, attention scratch, sampling state, and a step's input
// and outcome. The arrays of expert routing are negligible.
uint64_t gpu_scratch_bytes(struct backend *base, const struct model_shape *shape, int32_t n_rows_max,
                           int32_t n_outputs_max, int64_t n_positions)
{
    int32_t widest =
        larger_of(larger_of(shape->n_embd, shape->n_ff),
                  shape->attention.n_heads * larger_of(shape->attention.key_dim, shape->attention.value_dim));
    widest = larger_of(widest, larger_of(shape->experts.n_ff_shared, shape->experts.n_ff));
    int32_t n_pairs = n_rows_max * larger_of(shape->experts.n_used, 1);
    uint64_t step =
        (uint64_t)n_rows_max * (uint64_t)(shape->rope.n_dims * shape->rope.n_tables + 16) * sizeof(float);
    const struct gpu_backend *backend = gpu_backend_of(base);
    struct kv_shape sparse = {.n_layers = 1,
                              .n_kv_heads = shape->attention.n_kv_heads,
                              .key_dim = shape->attention.key_dim,
                              .value_dim = shape->attention.value_dim,
                              .page_positions = ATTENTION_BLOCK,
                              .n_pages = shape->n_context / ATTENTION_BLOCK + 1,
                              .index = shape->index,
                              .n_rows_most = n_rows_max};
    (void)n_positions;
    return activation_operand_bytes(n_pairs, widest) + next_bytes(n_pairs, widest) + (uint64_t)n_pairs * 24 +
           (uint64_t)(SAMPLE_SLOTS + 1) * (uint64_t)larger_of(shape->n_vocab, widest) * sizeof(int32_t) +
           8 * step + gpu_outcome_bytes(n_outputs_max) +
           attention_scratch_bytes(shape->attention.n_heads, shape->attention.value_dim, n_outputs_max,
                                   shape->n_context) +
           gpu_selection_bytes(&sparse) + partial_bytes(backend, widest);
}

static enum status fill_ones(struct gpu_backend *backend, struct error *error)
{
    size_t n = backend->memory.ones.size_bytes / sizeof(float);
    if (n == 0)
        return STATUS_OK;
    float *ones = malloc(n * sizeof *ones);
    if (!ones)
        return error_memory(error, STATUS_REFUSE, "the weights of norms");
    for (size_t i = 0; i < n; i++)
        ones[i] = 1.0f;
    device_upload_rows(backend->device, backend->memory.ones.memory, ones, 1, n * sizeof *ones,
                       n * sizeof *ones);
    enum status status = device_wait(backend->device, error);
    free(ones);
    return status;
}

// Allocates the scratch of the largest step.
enum status gpu_step_memory_reserve(struct gpu_backend *backend, struct error *error)
{
    if (backend->capacity.reserved)
        return STATUS_OK;
    staging_finish(&backend->staging);
    uint64_t rows = (uint64_t)backend->capacity.n_rows_max,
             outputs = (uint64_t)backend->capacity.n_rows_least;
    uint64_t experts = (uint64_t)backend->capacity.n_experts_max,
             vocabulary = (uint64_t)backend->capacity.n_cols_max;
    struct {
        struct device_scratch *scratch;
        uint64_t size_bytes;
        const char *what;
    } wanted[] = {
        {&backend->memory.operand_items,
         activation_operand_bytes(backend->capacity.n_rows_max, backend->capacity.n_inputs_max), "operands"},
        {&backend->memory.operand_scales, rows * sizeof(float), "operands"},
        {&backend->memory.next_items,
         next_bytes(backend->capacity.n_rows_max, backend->capacity.n_inputs_max), "operands"},
        {&backend->memory.next_scales, rows * sizeof(float), "operands"},
        {&backend->memory.arrivals, rows * sizeof(int32_t), "operands"},
        {&backend->memory.attention, gpu_attention_scratch_bytes(backend), "attention"},
        {&backend->memory.partial_sums, partial_bytes(backend, backend->capacity.n_inputs_max), "products"},
        {&backend->memory.partial_arrivals, (uint64_t)partial_tiles(backend) * sizeof(int32_t), "products"},
        {&backend->memory.counts, SAMPLE_SLOTS * vocabulary * sizeof(int32_t), "sampling"},
        {&backend->memory.states, outputs * sizeof(struct sample_state), "sampling"},
        {&backend->memory.ones, vocabulary * sizeof(float), "norms"},
        {&backend->memory.pair_experts, experts ? rows * sizeof(int32_t) : 0, "experts"},
        {&backend->memory.pair_weights, experts ? rows * sizeof(float) : 0, "experts"},
        {&backend->memory.pair_order, experts ? rows * sizeof(int32_t) : 0, "experts"},
        {&backend->memory.expert_first, experts ? (experts + 1) * sizeof(int32_t) : 0, "experts"},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == STATUS_OK; i++)
        status = gpu_scratch_reserve(backend, wanted[i].scratch, wanted[i].size_bytes, wanted[i].what, error);
    if (status == STATUS_OK)
        status = shared_prefix_init(&backend->current.shared, backend->capacity.n_rows_max,
                                    backend->capacity.n_rows_max, error);
    if (status != STATUS_OK)
        return status;
    device_zero(backend->device, backend->memory.counts.memory, backend->memory.counts.size_bytes);
    device_zero(backend->device, backend->memory.arrivals.memory, backend->memory.arrivals.size_bytes);
    if (backend->memory.partial_arrivals.memory)
        device_zero(backend->device, backend->memory.partial_arrivals.memory,
                    backend->memory.partial_arrivals.size_bytes);
    status = fill_ones(backend, error);
    backend->capacity.reserved = status == STATUS_OK;
    return status;
}

void gpu_step_memory_finish(struct gpu_backend *backend)
{
    struct device_scratch *all[] = {
        &backend->memory.upload,           &backend->memory.outcome,    &backend->memory.operand_items,
        &backend->memory.operand_scales,   &backend->memory.next_items, &backend->memory.next_scales,
        &backend->memory.arrivals,         &backend->memory.attention,  &backend->memory.partial_sums,
        &backend->memory.partial_arrivals, &backend->memory.given,      &backend->memory.counts,
        &backend->memory.states,           &backend->memory.ones,       &backend->memory.pair_experts,
        &backend->memory.pair_weights,     &backend->memory.pair_order, &backend->memory.expert_first};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_scratch_finish(backend, all[i]);
}

#include "batching/limits.h"

// From about 30 rows on a CPU's products are bound by arithmetic and not by reading the weights; twice that keeps them
// full while sequences come and go. 512 rows hold a prompt chunk of several hundred tokens beside them.
enum { SEQUENCES_DEFAULT = 64, ROWS_DEFAULT = 512, JOBS_PER_SEQUENCE = 32, JOBS_LEAST = 1024 };
// A GPU's products are bound by reading the weights up to some hundred rows, and by arithmetic only from thousands on.
enum { DEVICE_SEQUENCES_DEFAULT = 256, DEVICE_ROWS_DEFAULT = 4096 };

// Keys and values are kept as exact as the weights deserve.
static enum kv_type kv_type_for(const struct model *model)
{
    return model->layers[0].attn_k.type == TENSOR_F32 ? KV_F32 : KV_F16;
}

static int32_t at_least(int32_t value, int32_t least)
{
    return value < least ? least : value;
}

static void set_counts(struct batch_limits *batch, const struct limits_wanted *wanted)
{
    batch->page_positions = LIMITS_PAGE_POSITIONS;
    int32_t sequences = wanted->device ? DEVICE_SEQUENCES_DEFAULT : SEQUENCES_DEFAULT;
    int32_t rows = wanted->device ? DEVICE_ROWS_DEFAULT : ROWS_DEFAULT;
    batch->n_sequences_max = wanted->n_sequences_max ? wanted->n_sequences_max : sequences;
    if (batch->n_sequences_max > LIMITS_SEQUENCES_MAX)
        batch->n_sequences_max = LIMITS_SEQUENCES_MAX;
    batch->n_rows_max = wanted->n_rows_max ? wanted->n_rows_max : at_least(rows, 2 * batch->n_sequences_max);
    batch->n_rows_max = at_least(batch->n_rows_max, batch->n_sequences_max);
    if (batch->n_rows_max > LIMITS_ROWS_MAX)
        batch->n_rows_max = LIMITS_ROWS_MAX;
    int32_t jobs = at_least(batch->n_sequences_max * JOBS_PER_SEQUENCE, JOBS_LEAST);
    batch->n_jobs_max = wanted->n_jobs_max ? wanted->n_jobs_max : jobs;
    if (batch->n_jobs_max > LIMITS_JOBS_MAX)
        batch->n_jobs_max = LIMITS_JOBS_MAX;
}

// All sequences at full context would be the most that is of use; half of what is left (of a GPU's, nearly all) is the most
// that is taken unasked.
static uint64_t page_memory(const struct batch_limits *batch, const struct model *model, uint64_t one_page_bytes,
                            uint64_t bytes_left, bool device)
{
    uint64_t most = device ? bytes_left / 20 * 19 : bytes_left / 2;
    uint64_t pages_a_sequence =
        ((uint64_t)model->shape.n_context + LIMITS_PAGE_POSITIONS - 1) / LIMITS_PAGE_POSITIONS;
    uint64_t of_use = pages_a_sequence * (uint64_t)batch->n_sequences_max * one_page_bytes;
    return of_use < most ? of_use : most;
}

enum status limits_derive(struct limits_plan *plan, const struct model *model, uint64_t memory_available,
                          const struct limits_wanted *wanted, struct error *error)
{
    struct backend *backend = wanted->backend;
    *plan = (struct limits_plan){.weight_bytes =
                                     backend ? forward_weight_bytes(model, backend) : model_held_bytes(model)};
    struct batch_limits *batch = &plan->batch;
    set_counts(batch, wanted);
    plan->forward = (struct forward_limits){.n_rows_max = batch->n_rows_max,
                                            .n_outputs_max = batch->n_sequences_max,
                                            .n_sequences_max = batch->n_sequences_max,
                                            .page_positions = batch->page_positions,
                                            .kv_type = kv_type_for(model)};
    plan->matrix_bytes = forward_matrix_bytes(model, &plan->forward);
    if (backend && backend->impl->scratch_bytes)
        plan->matrix_bytes +=
            backend->impl->scratch_bytes(backend, &model->shape, batch->n_rows_max, batch->n_sequences_max);
    uint64_t fixed = plan->weight_bytes + plan->matrix_bytes;
    uint64_t one_page = forward_page_bytes(model, batch->page_positions, plan->forward.kv_type);
    uint64_t left = memory_available > fixed ? memory_available - fixed : 0;
    uint64_t bytes = wanted->page_bytes ? wanted->page_bytes : page_memory(batch, model, one_page, left, wanted->device);
    uint64_t n_pages = bytes / one_page;
    if (n_pages > INT32_MAX / 2)
        n_pages = INT32_MAX / 2;
    if (n_pages < 1 || n_pages * one_page > left)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "memory: %.1f MB are available; weights take %.1f MB, matrices of %d rows %.1f MB, and the KV "
                         "pages %.1f MB (one page of %d positions: %.2f MB); a smaller --kv-memory or --max-batch may fit",
                         (double)memory_available / 1e6, (double)plan->weight_bytes / 1e6, batch->n_rows_max,
                         (double)plan->matrix_bytes / 1e6, (double)(n_pages * one_page) / 1e6, batch->page_positions,
                         (double)one_page / 1e6);
    batch->n_pages = plan->forward.n_pages = (int32_t)n_pages;
    plan->page_bytes = n_pages * one_page;
    return STATUS_OK;
}

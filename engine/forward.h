// The forward pass, written once for all families and backends: a model bound to a backend, its weights loaded,
// its matrices and pages allocated. A step then allocates nothing.
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "engine/model/model.h"

struct forward;

struct forward_limits {
    int32_t n_rows_max;     // rows of one step
    int32_t n_outputs_max;  // logits rows of one step
    int32_t n_sequences_max;
    int32_t page_positions;
    int32_t n_pages;
    enum kv_type kv_type;
};

// Loads the weights (telling progress(context, done_bytes, total_bytes) when given). The model and the backend must outlive
// it; the backend serves one forward pass in its life, whose pages it keeps.
// Errors: those of the backend, with the tensor's name.
enum status forward_create(struct forward **forward, const struct model *model, struct backend *backend,
                           const struct forward_limits *limits,
                           void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                           void *context, struct error *error) WARN_UNUSED;
void forward_destroy(struct forward *forward);

// Bytes one page takes over all layers.
uint64_t forward_page_bytes(const struct model *model, struct backend *backend, int32_t page_positions,
                            enum kv_type kv_type);
// Bytes the backend will take for the weights.
uint64_t forward_weight_bytes(const struct model *model, struct backend *backend);
// Of them those of one layer, LAYER_BEFORE or LAYER_AFTER.
uint64_t forward_layer_bytes(const struct model *model, struct backend *backend, int32_t layer);
// Bytes of the matrices for these limits, pages not counted.
uint64_t forward_matrix_bytes(const struct model *model, const struct forward_limits *limits);

// Computes one step. step->rope is filled in here; its other fields are the caller's and valid: ids, rows and pages in
// range (asserted). With step->samples, `results` [n_outputs] get the draws; `logits` [n_outputs, n_vocab], where given, what
// was drawn from.
// Errors: STATUS_RESTART when the device failed; nothing of the step counts then.
enum status forward_step(struct forward *forward, struct step *step, struct sample_result *results, float *logits,
                         struct error *error) WARN_UNUSED;

// A step with samples in two calls, where the backend can (batching/batcher.h, struct engine): at most two are submitted and
// not collected.
bool forward_computes_ahead(const struct forward *forward);
enum status forward_submit(struct forward *forward, struct step *step, struct error *error) WARN_UNUSED;
enum status forward_collect(struct forward *forward, struct sample_result *results, struct error *error) WARN_UNUSED;

// The forward pass, written once for all model families and backends: a model bound to a backend, with loaded
// weights and allocated matrices and pages. A step allocates nothing.
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "engine/model/model.h"

struct forward;

struct forward_limits {
    int32_t n_tokens_max;  // tokens of one step
    int32_t n_outputs_max; // tokens of one step with logits
    int32_t n_sequences_max;
    int32_t page_positions;
    int32_t n_pages;
    int32_t n_state_slots; // slots of recurrent states; used by models with recurrent layers only
    enum kv_type kv_type;
    bool hidden_only; // only forward_hidden is called: no output weight, no logits
};

// Loads the weights. Calls progress(context, done_bytes, total_bytes), if given, which returns false to stop.
// The model and the backend must outlive the forward pass; a backend can be used for one forward pass only.
// Errors: the backend's errors, with the tensor's name; STATUS_RESTART if progress returned false.
enum status forward_create(struct forward **forward, const struct model *model, struct backend *backend,
                           const struct forward_limits *limits,
                           bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                           void *context, struct error *error) WARN_UNUSED;
void forward_destroy(struct forward *forward);

// Bytes of one page in all layers.
uint64_t forward_page_bytes(const struct model *model, struct backend *backend, int32_t page_positions,
                            enum kv_type kv_type);
// The same of the layers with pages [first, end), by their numbers among these layers.
uint64_t forward_share_bytes(const struct model *model, struct backend *backend, int32_t page_positions,
                             enum kv_type kv_type, int32_t first, int32_t end);
// Bytes of one slot of recurrent states in all layers; 0: the model has none, or the backend refuses such
// models.
uint64_t forward_state_bytes(const struct model *model, struct backend *backend);
// Bytes of the weights in the backend's memory.
uint64_t forward_weight_bytes(const struct model *model, struct backend *backend);
// Bytes of one layer's weights, or of LAYER_BEFORE or LAYER_AFTER.
uint64_t forward_layer_bytes(const struct model *model, struct backend *backend, int32_t layer);
// The part of these bytes that is its routed experts'.
uint64_t forward_experts_bytes(const struct model *model, struct backend *backend, int32_t layer);
// Bytes of the matrices for these limits, without pages.
uint64_t forward_matrix_bytes(const struct model *model, const struct forward_limits *limits);

// Computes one step. Sets step->rope; the caller sets the other fields, with ids, rows, pages and slots in
// range (asserted). With step->samples, `results` [n_outputs] are set to the sampled tokens. `logits` [n_outputs,
// n_vocab] are set if not NULL. Errors: STATUS_RESTART if the device failed; the results are then invalid.
enum status forward_step(struct forward *forward, struct step *step, struct sample_result *results,
                         float *logits, struct error *error) WARN_UNUSED;

// Computes one step up to the norm before the output weight: `hidden` [n_outputs, n_embd]. No samples;
// otherwise as forward_step. Requires limits.hidden_only.
enum status forward_hidden(struct forward *forward, struct step *step, float *hidden,
                           struct error *error) WARN_UNUSED;

// Computes texts whose tokens attend in both directions (shape.bidirectional), as forward_hidden does, or one
// text of any number of tokens: beyond limits.n_tokens_max layer by layer, in chunks of rows. `hidden` holds
// [n_tokens, n_embd] for such a text, of which the output rows are set; else [n_outputs, n_embd].
enum status forward_text(struct forward *forward, struct step *step, float *hidden,
                         struct error *error) WARN_UNUSED;

// Between steps: copies the recurrent state of slot `from` to slot `to`, for models with recurrent layers.
void forward_copy_state(struct forward *forward, int32_t to, int32_t from);

// A step with samples in several calls, for asynchronous backends (struct step_executor in batching/batcher.h). At
// most two steps are submitted and not yet collected. With step->samples_apart, forward_submit_sampling
// follows before the next step is submitted.
bool forward_computes_ahead(const struct forward *forward);
enum status forward_submit(struct forward *forward, struct step *step, struct error *error) WARN_UNUSED;
enum status forward_submit_sampling(struct forward *forward, struct step *step,
                                    struct error *error) WARN_UNUSED;
enum status forward_collect(struct forward *forward, struct sample_result *results,
                            struct error *error) WARN_UNUSED;

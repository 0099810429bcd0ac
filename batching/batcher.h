// The batcher: continuous batching with chunked prefill on one device. It owns the window (the waiting
// queue), the prefix tree, the KV pages and the running sequences. One round prepares new jobs (arrivals.h),
// schedules a step (scheduler.c), computes it and finishes the sequences that met a stop rule. A finished
// sequence's slot is filled in the next round. Prompts are computed in chunks, in the same steps as decode
// tokens. When no page is free, the youngest sequence is preempted: its pages are freed and it is computed
// again later, to the same bytes.
//
// With an asynchronous executor (`submit` and `collect`) a round schedules and submits step i + 1 while step i
// runs, then takes step i's results. The newest token of a decoding sequence is unknown at that time; the
// step refers to it as an output of the previous step. A stop token is therefore seen one step late, and the
// extra token computed for its sequence is discarded. A page may be reassigned while a submitted step still
// reads it, because steps run in submission order.
//
// A mask depends on the newest token. A step with masks is submitted without its sampling: the masks are
// filled when step i's results have been taken, while step i + 1 runs, and then its sampling is submitted. If
// tokens are forced after a token of step i (batching/constrained.h), the sequence's draw in step i + 1 is
// discarded.
// Thread: engine.
#pragma once

#include "batching/job_batcher.h"
#include "batching/sequence.h"
#include "engine/session.h"
#include "schemas/base/pool.h"
#include "schemas/dataset_share.h"
#include "schemas/figures.h"

#include <stdbool.h>

struct batcher;

struct batch_limits {
    int32_t n_sequences_max; // in one step (vLLM: max_num_seqs)
    int32_t n_tokens_max;    // tokens in one step, prefill and decode together (vLLM: max_num_batched_tokens)
    int32_t n_jobs_max;      // waiting and running
    int32_t n_pages;
    int32_t page_positions;
    // Slots of recurrent states (struct state_shape of engine/backend.h); 0: the model has no recurrent layers.
    // A running sequence holds one, the others hold snapshots (batching/snapshots.h). There are no drafts.
    int32_t n_state_slots;
    // Draft tokens in one step (batching/drafts.c). Their rows are separate sequences of the step, with
    // outputs of their own in addition to the outputs of the running sequences. 0: no speculation.
    int32_t n_drafts_max;
};

// Computes steps: forward_step bound to a model, or an executor for tests. It calls step->await_masks before it
// reads a sample's mask.
struct step_executor {
    void *context;
    enum status (*step)(void *context, struct step *step, struct sample_result *results, struct error *error);
    // `step` in several calls, for an asynchronous device; all NULL otherwise. `submit` reads everything the
    // step points to. The step and its arrays must not change until `collect` returns; the memory that
    // samples and sequences point to may. At most two steps are submitted and not yet collected; they are
    // collected in order of submission. The last one may never be collected. After an error no step is
    // submitted.
    enum status (*submit)(void *context, struct step *step, struct error *error);
    // Submits the sampling of the last submitted step, if it has samples_apart; called before the next
    // `submit`. Reads the masks, which `submit` does not. An output whose draw is discarded may have no mask.
    enum status (*submit_sampling)(void *context, struct step *step, struct error *error);
    enum status (*collect)(void *context, struct step *step, struct sample_result *results,
                           struct error *error);
    // Moves out the findings of the steps since the last call (engine/session.h). NULL: no findings.
    void (*take_findings)(void *context, struct step_findings *findings);
};

struct batcher_config {
    struct step_executor executor;
    struct pool *pool;                     // prepares prompts; may be the engine's pool
    struct prompt_environment environment; // batcher_create sets the page limits, except page_bytes
    struct batch_limits limits;
    // Hashes of the contents of the adapter sets 1.. (engine/model/adapter.h); read by batcher_create.
    struct {
        const uint64_t *hashes; // [n]
        int32_t n;
    } adapters;
    const struct dataset_shares *shares; // weights of datasets; the caller keeps them. NULL: equal weights
    // For tests: draft this many tokens of each sequence in a step, whatever they cost. 0: draft what pays.
    int32_t n_drafts_fixed;
    // Compiles a constraint on a compile thread; NULL: constraint_compile. Tests pass a function that blocks.
    void (*compile)(struct compiled_constraint *entry, struct constraint_cache *cache);
    int64_t (*wall_clock_us)(void); // since 1970 UTC, for deadlines; NULL: clock_wall_us
};

enum status batcher_create(struct batcher **batcher, const struct batcher_config *config,
                           struct error *error) WARN_UNUSED;
// The batcher must be empty: finish or release its jobs first.
void batcher_destroy(struct batcher *batcher);

// Takes ownership of the job. The batcher must not be full.
void batcher_take(struct batcher *batcher, struct job *job);
bool batcher_is_full(const struct batcher *batcher);
bool batcher_is_empty(const struct batcher *batcher);
// Cancels the unfinished jobs for which job_is_named() is true; they finish in the next round.
void batcher_cancel(struct batcher *batcher, struct text dataset, struct text job_id, int64_t until_s);

// One round. Finished jobs, including failed and cancelled ones, are appended to `finished` and belong to the
// caller. `figures` describes the step that ended; n_tokens is 0 if none did. An error is a fault of the
// engine or the host (STATUS_RESTART; ERROR_OUT_OF_MEMORY), never of a job: `finished` is valid, the other
// jobs must be released.
enum status batcher_round(struct batcher *batcher, struct job_list *finished, struct step_figures *figures,
                          struct error *error) WARN_UNUSED;

// The engine's take_findings for the round's step.
void batcher_take_findings(struct batcher *batcher, struct step_findings *findings);

// Returns unfinished jobs as they were received, without results: the waiting jobs, or with `running_too` all
// jobs. Waits for a long job that is being prepared.
void batcher_release(struct batcher *batcher, bool running_too, struct job_list *released);

// batcher_release for the waiting jobs of some partitions, except a long job that is being prepared.
void batcher_release_partitions(struct batcher *batcher, const struct partition_ids *ids,
                                struct job_list *released);

// The batcher for the engine thread.
struct job_batcher *batcher_base(struct batcher *batcher);
void batcher_report_prefixes(const struct batcher *batcher, struct prefix_report *report);

// The batcher: many jobs, one device. It holds the window, the prefix tree, the pages and the running sequences, and
// works in rounds: prepare newcomers, admit while places, rows and pages last, one step of the engine, finish what is
// done. A finished sequence's place is filled in the next round; prompts are cut into chunks that share a step with
// decoding rows. When pages run out the youngest sequence gives its own back and starts over later, to the same bytes.
//
// With an engine that computes ahead a round plans and submits a step while the one before is computed, and then takes that
// one's results. A sequence's newest token is unknown then, and its row says whose output it will be. That it was the last
// one is learnt when the row after it is under way: that row's result is thrown away. A page may have a new owner while a step
// that knew the old one is under way: steps are computed in the order in which they were submitted.
// Thread: engine.
#pragma once

#include "batching/sequence.h"
#include "engine/pool.h"
#include "schemas/figures.h"

#include <stdbool.h>

struct batcher;

struct batch_limits {
    int32_t n_sequences_max; // in one step
    int32_t n_rows_max;      // in one step, decoding and prompt rows together
    int32_t n_jobs_max;      // held, waiting and running
    int32_t n_pages;
    int32_t page_positions;
};

// Computes steps: forward_step bound to a model, or a test's own engine.
struct engine {
    void *context;
    enum status (*step)(void *context, struct step *step, struct sample_result *results, struct error *error);
    // Where the device computes by itself (else NULL, both): step in two calls. `submit` reads all that the step points to; the
    // step and its arrays stay untouched until `wait`, what samples and sequences point to need not. At most two are under
    // way, waited for in order; one that is under way at the end is never waited for. After an error nothing is under way.
    enum status (*submit)(void *context, struct step *step, struct error *error);
    enum status (*wait)(void *context, struct step *step, struct sample_result *results, struct error *error);
    // What checking the last step showed; step 0: nothing. NULL: nothing is checked.
    void (*take_check)(void *context, struct check_figures *check);
};

struct batcher_config {
    struct engine engine;
    struct pool *pool;              // for preparing; the engine may use the same one
    struct prompt_environment environment; // limits of pages are filled in, but for page_bytes
    struct batch_limits limits;
    int64_t (*wall_clock_us)(void); // since 1970 UTC, for deadlines; NULL: the machine's
};

// A list of jobs by their `next`, oldest first.
struct job_list {
    struct job *first, *last;
    size_t n_jobs;
};

void job_list_append(struct job_list *list, struct job *job);
struct job *job_list_take(struct job_list *list); // NULL: empty

enum status batcher_create(struct batcher **batcher, const struct batcher_config *config, struct error *error)
    WARN_UNUSED;
// It must hold no job: finish, or release them.
void batcher_destroy(struct batcher *batcher);

// Takes the job over. It must not be full.
void batcher_take(struct batcher *batcher, struct job *job);
bool batcher_is_full(const struct batcher *batcher);
bool batcher_is_empty(const struct batcher *batcher);
// Cancels the unfinished jobs that job_is_named() tells; they finish in the next round.
void batcher_cancel(struct batcher *batcher, struct text dataset, struct text job_id, int64_t until);

// One round. Finished jobs (failed and cancelled ones too) are appended to `finished` and are the caller's. `figures` are
// of the step; n_rows 0: none ended. An error is the engine's or the host's (STATUS_RESTART; ERROR_OUT_OF_MEMORY), never a job's:
// `finished` is valid all the same; release the other jobs and restart.
enum status batcher_round(struct batcher *batcher, struct job_list *finished, struct step_figures *figures,
                          struct error *error) WARN_UNUSED;

// What the engine's check of the round's step showed (struct engine).
void batcher_take_check(struct batcher *batcher, struct check_figures *check);

// Gives jobs back as they came, results empty: those that only wait, or all of them.
void batcher_release(struct batcher *batcher, bool running_too, struct job_list *released);

void batcher_report_prefixes(const struct batcher *batcher, struct prefix_report *report);

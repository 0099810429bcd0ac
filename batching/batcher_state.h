// The batcher's private state, for batcher.c (jobs in and out, the round), arrivals.c (their preparation),
// scheduler.c (the scheduler: admission, preemption, the tokens of a step), drafts.c (draft tokens) and
// prefix_report.c only.
#pragma once

#include "batching/batcher.h"
#include "batching/prepare_thread.h"
#include "batching/scoring.h"
#include "batching/speculation.h"
#include "batching/row_cost.h"
#include "batching/window.h"

// Sequences to which tokens were proposed in a step.
struct step_drafts {
    struct sequence **sequences; // [n], room for n_outputs_max(); NULL: it has ended
    int32_t n, n_in_step;        // n_in_step: with rows, which are sequences of the step
    int32_t first_output;        // outputs from here on are draft tokens'
    int32_t n_rows, n_accepted;
};

// A step under construction or submitted, with its arrays of n_tokens_max tokens or n_outputs_max() entries.
struct scheduled_step {
    struct step step;
    int32_t *tokens, *positions, *output_rows;
    struct step_sequence *sequences;
    // [n_outputs] the sequence that each output belongs to; NULL: it has ended. A sequence may have several
    struct sequence **output_sequences;
    struct sample_request *samples;
    // [n_outputs_max()] settings of the outputs that score a token
    struct scoring *scorings;
    // [n_outputs_max(), token_mask_words(n_vocab)] of the outputs of constrained sequences; NULL: none so far
    uint32_t *masks;
    int32_t n_masked; // of the outputs: those with one of `masks`
    struct step_drafts drafts;
    int32_t prefill_tokens, decode_tokens, n_preempted;
};

// Fills the masks of one constraint's outputs in a step, sequentially: they share its recognizer.
struct mask_task {
    struct pool_task task;
    const struct scheduled_step *scheduled;
    const struct compiled_constraint *constraint;
};

// The jobs that the batcher owns.
struct batcher_jobs {
    struct list prompts; // waiting and running, by their link, oldest first
    int32_t n;
    struct job_list arrived;   // not prepared yet
    struct prompt **preparing; // [n_jobs_max]
    // See arrivals.h. The prompt that `thread` prepares and owns, but for its job's names and result.error
    struct prompt *long_one;
    struct prepare_thread *thread; // NULL: no job was long yet
};

struct batcher_pipeline {
    struct scheduled_step slots[2];
    struct scheduled_step *building;  // one of `slots`
    struct scheduled_step *under_way; // the other one, submitted and not collected; NULL: none
    struct sample_result *results;    // [n_outputs_max()]
};

struct batcher_masks {
    struct mask_task *tasks; // [n_outputs_max()] a task a constraint; allocated with the masks
    int32_t n_started;       // and not waited for
    uint32_t *own;           // [token_mask_words(n_vocab)] of a draft token's output, when it is confirmed
};

struct batcher_faults {
    bool any_prompt;   // a prompt's error was set outside a step
    struct error host; // out of memory: the round fails with it; STATUS_OK: none
};

// The first fault of the host counts.
static inline void faults_note_memory(struct batcher_faults *faults, const char *doing)
{
    if (faults->host.status == STATUS_OK)
        (void)error_set(&faults->host, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                        "%s: out of memory; unfinished jobs are released", doing);
}

struct batcher {
    struct batcher_config config;
    struct page_stack pages;
    struct prefix_tree tree;
    struct window window;
    struct batcher_jobs jobs;
    struct sequence **running; // [2 n_sequences_max] by admission; half may wait for their last token
    int32_t n_running;
    int64_t n_admissions;
    struct batcher_faults faults;
    int64_t next_deadline_s; // no later than the earliest deadline of any prompt; 0: none
    double answer_tokens;    // moving average length of finished answers; 0: none finished yet
    struct batcher_pipeline pipeline;
    struct constraint_cache constraints;
    struct batcher_masks masks;
    int32_t n_forced; // tokens forced since the last step with results
    struct speculation speculation;
    struct row_cost cost;
};

// Outputs and sequences of one step, with those of draft tokens.
static inline int32_t n_outputs_max(const struct batch_limits *limits)
{
    return limits->n_sequences_max + limits->n_drafts_max;
}

// Fills b->building with tokens of the running sequences, then of newly admitted ones. scheduler.c.
void scheduler_build_step(struct batcher *b);
// Removes a sequence from the batch (freeing its pages) or from the window, and drops its outputs.
// scheduler.c.
void scheduler_remove(struct batcher *b, struct sequence *sequence);
// Discards what a step draws for it. scheduler.c.
void scheduler_drop_outputs(struct scheduled_step *scheduled, const struct sequence *sequence);
// Adds an output to the step, drawn as the sequence's token `index`, before which all are known. scheduler.c.
int32_t scheduler_add_output(struct scheduled_step *scheduled, struct sequence *sequence, int32_t row,
                             int32_t index);
// Takes pages for n_positions, for which the block table has room, without preempting others. False: no page
// is free. scheduler.c.
bool scheduler_grow(struct batcher *b, struct sequence *sequence, int64_t n_positions);

// Adds rows of draft tokens to b->building, which is otherwise complete. drafts.c.
void drafts_add(struct batcher *b);
// Whether the output of a step with results is the sequence's next one. drafts.c.
bool drafts_count_output(struct batcher *b, const struct scheduled_step *done, int32_t output);
// Takes what the step's draft tokens have come to, of a sequence that ends or of all that are left. drafts.c.
void drafts_settle_sequence(struct batcher *b, struct scheduled_step *done, struct sequence *sequence);
void drafts_settle(struct batcher *b, struct scheduled_step *done);

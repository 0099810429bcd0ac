// The batcher's private state. Included by batcher.c (jobs in and out, the round), arrivals.c (preparation),
// scheduler.c (admission, preemption, the tokens of a step), drafts.c (draft tokens) and prefix_report.c
// only.
#pragma once

#include "batching/batcher.h"
#include "batching/prepare_thread.h"
#include "batching/scoring.h"
#include "batching/speculation.h"
#include "batching/row_cost.h"
#include "batching/window.h"

// The sequences of a step for which draft tokens were proposed.
struct step_drafts {
    struct sequence **sequences; // [n], room for n_outputs_max(); NULL: ended meanwhile
    int32_t n, n_in_step;        // n_in_step: sequences with draft rows in the step
    int32_t first_output;        // outputs of draft tokens start here
    int32_t n_rows, n_accepted;
};

// A step under construction or submitted, with its arrays of n_tokens_max tokens or n_outputs_max() entries.
struct scheduled_step {
    struct step step;
    int32_t *tokens, *positions, *output_rows;
    struct step_sequence *sequences;
    struct page_copy *copies; // room for one for each sequence, and for one that is not admitted after all
    // [n_outputs] sequence of each output; one sequence may have several outputs. NULL: it has ended
    struct sequence **output_sequences;
    struct sample_request *samples;
    // [n_outputs_max()] settings of the outputs that score a token
    struct scoring *scorings;
    // [n_outputs_max(), token_mask_words(n_vocab)] masks of constrained outputs; NULL: not allocated yet
    uint32_t *masks;
    int32_t n_masked; // outputs that use one of `masks`
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
    // The prompt that `thread` prepares and owns (arrivals.h), except its job's names and result.error
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
    struct mask_task *tasks; // [n_outputs_max()] one per constraint; allocated with the masks
    int32_t n_started;       // tasks started and not waited for
    uint32_t *sampled;       // of the environment; NULL: the model may sample all tokens
    uint32_t *own;           // [token_mask_words(n_vocab)] to recompute the mask of a draft token's output
};

struct batcher_faults {
    bool any_prompt;   // a prompt's error was set outside a step
    struct error host; // out of memory: the round fails with it; STATUS_OK: none
};

// Keeps the first host fault.
static inline void faults_note_memory(struct batcher_faults *faults, const char *doing)
{
    if (faults->host.status == STATUS_OK)
        (void)error_set(&faults->host, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                        "%s: out of memory; unfinished jobs are released", doing);
}

struct batcher {
    struct job_batcher base; // first: batcher_base.c casts
    struct batcher_config config;
    struct page_stack pages;
    struct page_stack slots; // free slots of recurrent states; empty without recurrent layers
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
    bool has_streams; // a job with a `stream` was taken
    int32_t n_forced; // tokens forced since the last step that had results
    struct speculation speculation;
    struct row_cost cost;
};

// Maximum number of outputs, and of sequences, in one step, including draft tokens.
static inline int32_t n_outputs_max(const struct batch_limits *limits)
{
    return limits->n_sequences_max + limits->n_drafts_max;
}

// Fills b->building with tokens of the running sequences, then of newly admitted ones. scheduler.c.
void scheduler_build_step(struct batcher *b);
// Removes a sequence from the batch (freeing its pages) or from the window, and drops its outputs.
// scheduler.c.
void scheduler_remove(struct batcher *b, struct sequence *sequence);
// Discards the draws of the sequence in the step. scheduler.c.
void scheduler_drop_outputs(struct scheduled_step *scheduled, const struct sequence *sequence);
// Adds an output that draws the sequence's token `index`; all earlier tokens are known. scheduler.c.
int32_t scheduler_add_output(struct scheduled_step *scheduled, struct sequence *sequence, int32_t row,
                             int32_t index);
// Allocates pages for n_positions without preempting other sequences. The block table must have room. False:
// no page is free. scheduler.c.
bool scheduler_grow(struct batcher *b, struct sequence *sequence, int64_t n_positions);

// Adds draft rows to b->building, which is otherwise complete. drafts.c.
void drafts_add(struct batcher *b);
// True: the output of a finished step draws the sequence's next token. drafts.c.
bool drafts_count_output(struct batcher *b, const struct scheduled_step *done, int32_t output);
// Counts the accepted draft tokens of a step: of a sequence that ends, or of all remaining sequences.
// drafts.c.
void drafts_settle_sequence(struct batcher *b, struct scheduled_step *done, struct sequence *sequence);
void drafts_settle(struct batcher *b, struct scheduled_step *done);

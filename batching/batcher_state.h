// The batcher's private state, for batcher.c (jobs in and out, the round), arrivals.c (their preparation),
// scheduler.c (the scheduler: admission, preemption, the tokens of a step) and prefix_report.c only.
#pragma once

#include "batching/batcher.h"
#include "batching/prepare_thread.h"
#include "batching/scoring.h"
#include "batching/window.h"

// A step under construction or submitted, with its arrays of n_tokens_max tokens or n_sequences_max entries.
struct scheduled_step {
    struct step step;
    int32_t *tokens, *positions, *output_rows;
    struct step_sequence *sequences;
    // [n_outputs] the sequence that each output belongs to; NULL: it has ended. A sequence may have several
    struct sequence **output_sequences;
    struct sample_request *samples;
    // [n_sequences_max] settings of the outputs that score a token
    struct scoring *scorings;
    // [n_sequences_max, token_mask_words(n_vocab)] of the outputs of constrained sequences; NULL: none so far
    uint32_t *masks;
    int32_t prefill_tokens, decode_tokens, n_preempted;
};

// Fills the masks of one constraint's outputs in b->building, sequentially: they share its recognizer.
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
    struct sample_result *results;    // [n_sequences_max]
};

struct batcher_masks {
    struct mask_task *tasks; // [n_sequences_max] a task a constraint; allocated with the masks
    int32_t n_started;       // and not waited for
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
};

// Fills b->building with tokens of the running sequences, then of newly admitted ones. scheduler.c.
void scheduler_build_step(struct batcher *b);
// Removes a sequence from the batch (freeing its pages) or from the window. Tokens that submitted steps draw
// for it are discarded. scheduler.c.
void scheduler_remove(struct batcher *b, struct sequence *sequence);

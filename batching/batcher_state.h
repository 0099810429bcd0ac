// The batcher's own state, shared by its three files: batcher.c (jobs in and out, the round), planner.c (admission and
// the step's rows), prefix_report.c. Nobody else includes it.
#pragma once

#include "batching/batcher.h"
#include "batching/window.h"

// A step and its arrays of n_rows_max or n_sequences_max.
struct planned_step {
    struct step step;
    int32_t *tokens, *positions, *output_rows;
    struct step_sequence *sequences;
    struct sequence **drawing; // [n_outputs] who gets which result; NULL: nobody any more
    struct sample_request *samples;
    int32_t prefill_rows, decode_rows, n_preempted;
};

struct batcher {
    struct batcher_config config;
    struct page_stack pages;
    struct prefix_tree tree;
    struct window window;
    struct prompt *oldest, *youngest; // every prompt held
    int32_t n_jobs;
    struct job_list arrived;          // taken and not yet prepared
    struct prompt **preparing;        // [n_jobs_max]
    struct sequence **running;        // [2 n_sequences_max], in order of admission; half of them may only wait for their last token
    int32_t n_running;
    int64_t n_admissions;
    bool any_failed;                  // some prompt has its error set outside a step
    struct error host_fault;          // memory ran out: the round ends with it, and jobs are released; status OK: none
    int64_t next_deadline;            // the earliest of the prompts', or one that is gone; 0: none
    double answer_tokens;             // moving mean of finished answers; 0: none yet
    struct planned_step steps[2];
    struct planned_step *building;    // one of them
    struct planned_step *under_way;   // the other one, submitted and not waited for; NULL: none
    struct sample_result *results;    // [n_sequences_max]
};

// Fills b->building with the running sequences' rows, then with those of newly admitted ones. planner.c.
void planner_plan(struct batcher *b);
// Takes a sequence out of wherever it is: the batch, giving its pages back, or the window. What steps draw for it goes to nobody.
// planner.c.
void planner_stop(struct batcher *b, struct sequence *sequence);
// Sets b->host_fault, of which the first is kept. batcher.c.
void batcher_note_fault(struct batcher *b, const char *doing);
int64_t planner_now_us(void); // monotonic: for the figures only

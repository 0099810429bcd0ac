// Figures of steps and of the prefix cache, from the engine thread to the store. They never affect a result.
#pragma once

#include "schemas/text.h"

#include <stdint.h>

// One step of the engine.
struct step_figures {
    int64_t finished_us;    // since 1970 UTC
    int32_t n_sequences;    // in the step
    int32_t n_tokens;       // prefill and decode
    int32_t prefill_tokens; // prompt tokens
    int32_t decode_tokens;  // answer tokens
    int32_t n_generated;    // tokens drawn or forced
    int32_t n_forced;       // of them: a constraint left no choice, none was drawn
    int32_t n_drafted;      // draft tokens, of decode_tokens
    int32_t n_accepted;     // of them: drawn or forced
    int32_t n_preempted;    // preempted sequences, to be computed again
    int32_t n_waiting;      // sequences in the window
    int32_t pages_used, pages_total;
    int64_t prepare_us; // rendering and tokenizing new jobs
    int64_t plan_us;    // scheduling
    int64_t compute_us; // in the engine
    int64_t finish_us;  // stop rules, text, results
};

// A step that was computed a second time by another backend (--check-cpu), and the difference between the
// two.
struct check_figures {
    int64_t step;                        // its number, from 1; 0: nothing to report
    int32_t n_sequences, n_sequences_of; // compared, of how many
    int32_t n_draws, n_draws_apart;      // tokens compared, and those that differ
    double difference;                   // the largest between two logits
    double magnitude;                    // of the logit there
    double squared_error;                // the sum of squared differences over that of squares
};

enum { PREFIX_REPORT_MAX = 16, PREFIX_TEXT_BYTES = 256 };

struct prefix_report_entry {
    uint64_t hash;
    int32_t n_tokens;
    int64_t n_hits; // since the worker started
    int64_t tokens_saved;
    char text[PREFIX_TEXT_BYTES]; // its beginning, valid UTF-8
};

// Totals since the worker started.
struct prefix_report {
    int64_t n_lookups, n_hits, tokens_looked_up, tokens_saved, n_evictions;
    int32_t pages_shared, pages_idle;
    int32_t n_entries;
    struct prefix_report_entry entries[PREFIX_REPORT_MAX]; // most tokens saved first
};

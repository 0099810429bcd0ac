// Figures of steps and of the prefix cache, from the engine thread to the store. They never affect a result.
#pragma once

#include "schemas/base/text.h"

#include <stdint.h>

// One step of the engine.
struct step_figures {
    int64_t finished_us;    // since 1970 UTC
    int32_t n_sequences;    // sequences in the step
    int32_t n_tokens;       // prefill and decode
    int32_t prefill_tokens; // prompt tokens
    int32_t decode_tokens;  // answer tokens
    int32_t n_generated;    // tokens drawn or forced
    int32_t n_forced;       // tokens of n_generated that a constraint forced, without a draw
    int32_t n_drafted;      // draft tokens among decode_tokens
    int32_t n_accepted;     // accepted draft tokens
    int32_t n_preempted;    // preempted sequences, which are recomputed
    int32_t n_waiting;      // sequences in the window
    int32_t pages_used, pages_total;
    int64_t prepare_us; // rendering and tokenizing new jobs
    int64_t plan_us;    // scheduling
    int64_t compute_us; // forward pass and sampling in the engine
    int64_t finish_us;  // stop rules, text, results
};

// Comparison of a step with the same step computed by another backend (--check-cpu).
struct check_figures {
    int64_t step;                        // number of the step, from 1; 0: nothing to report
    int32_t n_sequences, n_sequences_of; // sequences compared; sequences in the step
    int32_t n_draws, n_draws_apart;      // tokens compared; tokens that differ
    double difference;                   // largest difference between two logits
    double magnitude;                    // magnitude of the logit with that difference
    double squared_error;                // sum of squared differences / sum of squares
};

enum { PREFIX_REPORT_MAX = 16, PREFIX_TEXT_BYTES = 256 };

struct prefix_report_entry {
    uint64_t hash;
    int32_t n_tokens;
    int64_t n_hits; // hits since the worker started
    int64_t tokens_saved;
    char text[PREFIX_TEXT_BYTES]; // beginning of the prefix, valid UTF-8
};

// Totals since the worker started.
struct prefix_report {
    int64_t n_lookups, n_hits, tokens_looked_up, tokens_saved, n_evictions;
    int32_t pages_shared, pages_idle;
    int32_t n_entries;
    struct prefix_report_entry entries[PREFIX_REPORT_MAX]; // most tokens saved first
};

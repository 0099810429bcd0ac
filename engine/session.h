// Runs and observes the steps of one forward pass: compares them with a second backend (engine/cross_check.h)
// and measures the times of their phases. Findings are kept until session_take_findings, so that the caller
// can report them elsewhere (the batcher returns them with its round; the main thread logs them).
// Thread: engine, between session_init and session_finish.
#pragma once

#include "engine/cross_check.h"
#include "schemas/figures.h"

// Size and times of a step, measured on the device. n_tokens is 0 if the step was not measured.
struct step_trace {
    int64_t number; // number of the step, from 0
    int32_t n_sequences, n_tokens, n_outputs;
    int32_t n_first_tokens; // outputs that are the first token of an answer
    double ended_us;        // microseconds since session_init
    double since_last_us;   // microseconds since the end of the previous step
    struct step_times times;
};

struct step_findings {
    struct check_figures check; // step is 0 if not checked, or if an earlier step had a larger difference
    struct step_trace trace;
};

// Sums over the checked steps.
struct check_totals {
    int64_t n_steps, n_checked, n_outputs, n_draws, n_draws_apart; // n_steps: all steps, checked or not
    double difference, squared_error;                              // maxima over the steps
};

struct session_options {
    struct forward *forward;
    struct cross_check *check;                    // NULL: steps are not checked
    int64_t check_every;                          // checks each check_every-th step
    struct backend *timed;                        // measures the steps for findings.trace; NULL: not measured
    void (*before_step)(const struct step *step); // called before each step is computed; NULL: none
};

// The caller provides the storage, at a fixed address.
struct session {
    struct session_options options;
    struct check_totals totals;
    int64_t n_unchecked; // steps since the last one checked
    struct step_findings findings;
    struct step_times times; // times of the last step that ended
    int64_t n_traced;
    double opened_us, ended_us;
};

// The objects that the options point to must outlive the session.
void session_init(struct session *session, const struct session_options *options);
void session_finish(struct session *session); // a zeroed session is fine
// Measures the steps from here on, as options.timed does from the start.
void session_time(struct session *session, struct backend *timed);

// Does the work of forward_step, and observes it. Errors: as forward_step and cross_check_step.
enum status session_step(struct session *session, struct step *step, struct sample_result *results,
                         struct error *error) WARN_UNUSED;
// Do the work of forward_submit, forward_submit_sampling and forward_collect, and observe it. If steps are
// checked, session_computes_ahead returns false: a checked step ends before the next one begins.
bool session_computes_ahead(const struct session *session);
enum status session_submit(struct session *session, struct step *step, struct error *error) WARN_UNUSED;
enum status session_submit_sampling(struct session *session, struct step *step,
                                    struct error *error) WARN_UNUSED;
enum status session_collect(struct session *session, const struct step *step, struct sample_result *results,
                            struct error *error) WARN_UNUSED;
// Moves out the findings since the last call.
void session_take_findings(struct session *session, struct step_findings *findings);

#include "engine/session.h"

#include "schemas/base/clock.h"

static double now_us(void)
{
    return 1e-3 * (double)clock_ns();
}

void session_init(struct session *session, const struct session_options *options)
{
    *session = (struct session){.options = *options};
    session->opened_us = session->ended_us = now_us();
    if (options->timed)
        session_time(session, options->timed);
}

void session_time(struct session *session, struct backend *timed)
{
    session->options.timed = timed;
    session->ended_us = now_us();
    timed->device.trace(timed, &session->times);
}

void session_finish(struct session *session)
{
    struct backend *timed = session->options.timed;
    if (timed)
        timed->device.trace(timed, NULL);
    *session = (struct session){0};
}

// --- Times ---

static void trace_step(struct session *session, const struct step *step)
{
    if (!session->options.timed)
        return;
    int32_t n_first = 0;
    for (int32_t i = 0; step->samples && i < step->n_outputs; i++)
        n_first += step->samples[i].index == 0 && !step->samples[i].scores;
    double ended_us = now_us();
    session->findings.trace = (struct step_trace){.number = session->n_traced++,
                                                  .n_sequences = step->n_sequences,
                                                  .n_tokens = step->n_tokens,
                                                  .n_outputs = step->n_outputs,
                                                  .n_first_tokens = n_first,
                                                  .ended_us = ended_us - session->opened_us,
                                                  .since_last_us = ended_us - session->ended_us,
                                                  .times = session->times};
    session->ended_us = ended_us;
}

// --- The check ---

// Returns a buffer for the logits of a step to check; NULL: this step is not checked. A step without outputs
// has nothing to compare, so the next step with outputs is checked instead.
static float *logits_to_check(struct session *session, const struct step *step)
{
    if (!session->options.check)
        return NULL;
    session->totals.n_steps++;
    if (++session->n_unchecked < session->options.check_every || step->n_outputs == 0)
        return NULL;
    session->n_unchecked = 0;
    return cross_check_logits(session->options.check);
}

static enum status check_the_step(struct session *session, const struct step *step,
                                  const struct sample_result *results, struct error *error)
{
    struct cross_check_result result;
    struct check_totals *totals = &session->totals;
    enum status status = cross_check_step(session->options.check, step, results, &result, error);
    if (status != STATUS_OK || result.n_outputs == 0)
        return status;
    bool first = totals->n_checked++ == 0;
    totals->n_outputs += result.n_outputs;
    totals->n_draws += result.n_draws;
    totals->n_draws_apart += result.n_draws_apart;
    totals->squared_error =
        result.squared_error > totals->squared_error ? result.squared_error : totals->squared_error;
    if (!first && result.difference <= totals->difference)
        return STATUS_OK;
    totals->difference = result.difference;
    session->findings.check = (struct check_figures){.step = totals->n_steps,
                                                     .n_sequences = result.n_sequences,
                                                     .n_sequences_of = step->n_sequences,
                                                     .n_draws = result.n_draws,
                                                     .n_draws_apart = result.n_draws_apart,
                                                     .difference = result.difference,
                                                     .magnitude = result.magnitude,
                                                     .squared_error = result.squared_error};
    return STATUS_OK;
}

// --- Steps ---

enum status session_step(struct session *session, struct step *step, struct sample_result *results,
                         struct error *error)
{
    if (session->options.before_step)
        session->options.before_step(step);
    float *logits = logits_to_check(session, step);
    enum status status = forward_step(session->options.forward, step, results, logits, error);
    if (status == STATUS_OK)
        trace_step(session, step);
    return status == STATUS_OK && logits ? check_the_step(session, step, results, error) : status;
}

bool session_computes_ahead(const struct session *session)
{
    return forward_computes_ahead(session->options.forward) && !session->options.check;
}

enum status session_submit(struct session *session, struct step *step, struct error *error)
{
    if (session->options.before_step)
        session->options.before_step(step);
    return forward_submit(session->options.forward, step, error);
}

enum status session_submit_sampling(struct session *session, struct step *step, struct error *error)
{
    return forward_submit_sampling(session->options.forward, step, error);
}

enum status session_collect(struct session *session, const struct step *step, struct sample_result *results,
                            struct error *error)
{
    enum status status = forward_collect(session->options.forward, results, error);
    if (status == STATUS_OK)
        trace_step(session, step);
    return status;
}

void session_take_findings(struct session *session, struct step_findings *findings)
{
    *findings = session->findings;
    session->findings = (struct step_findings){0};
}

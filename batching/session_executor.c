#include "batching/session_executor.h"

static enum status compute_step(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    return session_step(context, step, results, error);
}

static enum status submit_step(void *context, struct step *step, struct error *error)
{
    return session_submit(context, step, error);
}

static enum status submit_sampling(void *context, struct step *step, struct error *error)
{
    return session_submit_sampling(context, step, error);
}

static enum status collect_step(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    return session_collect(context, step, results, error);
}

static void take_findings(void *context, struct step_findings *findings)
{
    session_take_findings(context, findings);
}

struct step_executor session_executor_bind(struct session *session, bool ahead)
{
    struct step_executor executor = {.context = session,
                                     .step = compute_step,
                                     .take_findings = take_findings};
    if (ahead && session_computes_ahead(session)) {
        executor.submit = submit_step;
        executor.submit_sampling = submit_sampling;
        executor.collect = collect_step;
    }
    return executor;
}

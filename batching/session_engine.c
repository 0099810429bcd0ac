#include "batching/session_engine.h"

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

struct engine session_engine_bind(struct session *session, bool ahead)
{
    struct engine engine = {.context = session, .step = compute_step, .take_findings = take_findings};
    if (ahead && session_computes_ahead(session)) {
        engine.submit = submit_step;
        engine.submit_sampling = submit_sampling;
        engine.collect = collect_step;
    }
    return engine;
}

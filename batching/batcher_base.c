// The batcher of batcher.h as the engine thread runs it.
#include "batching/batcher_state.h"

static void take(struct job_batcher *base, struct job *job)
{
    batcher_take((struct batcher *)base, job);
}

static bool is_empty(const struct job_batcher *base)
{
    return batcher_is_empty((const struct batcher *)base);
}

static void cancel(struct job_batcher *base, struct text dataset, struct text job_id, int64_t until_s)
{
    batcher_cancel((struct batcher *)base, dataset, job_id, until_s);
}

static enum status compute_round(struct job_batcher *base, struct job_list *finished,
                                 struct step_figures *figures, struct error *error)
{
    return batcher_round((struct batcher *)base, finished, figures, error);
}

static void take_findings(struct job_batcher *base, struct step_findings *findings)
{
    batcher_take_findings((struct batcher *)base, findings);
}

static void release(struct job_batcher *base, bool running_too, struct job_list *released)
{
    batcher_release((struct batcher *)base, running_too, released);
}

static void release_partitions(struct job_batcher *base, const struct partition_ids *ids,
                               struct job_list *released)
{
    batcher_release_partitions((struct batcher *)base, ids, released);
}

static void report_prefixes(const struct job_batcher *base, struct prefix_report *report)
{
    batcher_report_prefixes((const struct batcher *)base, report);
}

struct job_batcher *batcher_base(struct batcher *batcher)
{
    static const struct job_batcher_impl impl = {
        take, is_empty, cancel, compute_round, take_findings, release, release_partitions, report_prefixes};
    batcher->base.impl = &impl;
    return &batcher->base;
}

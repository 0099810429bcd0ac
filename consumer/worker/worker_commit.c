// Finished jobs are committed in groups, then recorded; released jobs return to the queue.
#include "consumer/worker/worker_state.h"

#include "consumer/observe/log.h"
#include "consumer/queue/fault.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <string.h>

// A group that exceeds the commit's time limit is retried in halves. A job that failed alone is committed
// after the others.
static void commit_less(struct worker *worker, size_t n)
{
    worker->commits.jobs_max = n > 1 ? n / 2 : 1;
    if (n == 1)
        job_list_append(&worker->jobs.finished, job_list_take(&worker->jobs.finished));
}

// Jobs whose results were refused are committed after the others.
static void put_refused_last(struct worker *worker)
{
    struct job_list refused = {0}, others = {0};
    for (struct job *job; (job = job_list_take(&worker->jobs.finished));)
        job_list_append(job->source.refusals > 0 ? &refused : &others, job);
    worker_append_list(&others, &refused);
    worker->jobs.finished = others;
}

static bool is_refusal(enum status status, const struct error *error)
{
    return status == STATUS_RETRY && error->code == ERROR_RESULT_REFUSED;
}

static struct commit_advice ask_transport(const struct worker *worker)
{
    const struct transport_impl *impl = worker->config->transport->impl;
    struct commit_advice advice = {0};
    if (impl->commit_advice)
        impl->commit_advice(worker->config->transport, &advice);
    return advice;
}

// Chooses the group of the next commit: the first finished jobs, or one job whose result was refused before.
static size_t choose_group(struct worker *worker)
{
    size_t n = 0, n_max = ask_transport(worker).jobs_max;
    if (n_max == 0 || n_max > worker->commits.jobs_max)
        n_max = worker->commits.jobs_max;
    for (struct job *job = worker->jobs.finished.first; job && n < n_max; job = job->next) {
        if (n > 0 && job->source.refusals > 0)
            break;
        worker->commits.group[n++] = job;
        if (job->source.refusals > 0)
            break;
    }
    return n;
}

size_t worker_commit_jobs_max(const struct worker *worker)
{
    int32_t n = worker->config->n_jobs_max;
    return n < WORKER_COMMIT_JOBS ? (size_t)n : WORKER_COMMIT_JOBS;
}

static void commit_more(struct worker *worker)
{
    size_t most = worker_commit_jobs_max(worker);
    worker->commits.jobs_max = worker->commits.jobs_max < most / 2 ? worker->commits.jobs_max * 2 : most;
}

static void count_published(struct worker_progress *totals, const struct job *job)
{
    const struct result *result = &job->result;
    totals->n_done += result->status == RESULT_DONE;
    totals->n_failed += result->status != RESULT_DONE;
    totals->n_cancelled += result->status == RESULT_CANCELLED;
    totals->n_may_pass += result->status == RESULT_FAILED && error_may_pass(result->error.code);
    totals->prompt_tokens += result->prompt_tokens;
    totals->cached_tokens += job->figures.cached_tokens;
    totals->n_duplicates += job->figures.is_duplicate;
    if (result->status != RESULT_FAILED)
        return;
    memcpy(totals->last_error, result->error.text, sizeof totals->last_error);
    utf8_make_printable(totals->last_error); // it may quote the job
}

void worker_job_left(struct worker *worker, const struct job *job, bool published)
{
    gate_remove(&worker->gate, job);
    worker->records.n_suspects -= job->source.crashes > 0;
    metrics_job_left(worker->config->metrics, job, published);
    worker->jobs.n_in_flight--;
    worker->jobs.n_bytes -= (int64_t)job->source.bytes.charged;
    assert(worker->jobs.n_bytes >= 0);
}

// After the commit. Moves the published jobs to the front of the group and returns their number; the others
// are freed.
static size_t finish_group(struct worker *worker, size_t n, int64_t took_us)
{
    struct spans *spans = worker->config->spans;
    int64_t now_us = spans ? clock_wall_us() : 0;
    const bool *is_published = worker->commits.is_published;
    size_t n_committed = 0;
    struct job_list without = {0};
    for (size_t i = 0; i < n; i++) {
        struct job *job = job_list_take(&worker->jobs.finished);
        assert(job == worker->commits.group[i]);
        duplicates_leave(&worker->duplicates, job, &without); // its followers were answered
        bool has_result = is_published[i] && !job->source.is_repeated;
        worker_job_left(worker, job, has_result);
        worker->figures.totals->n_repeated += is_published[i] && job->source.is_repeated;
        worker->config->metrics->jobs.n_repeated += is_published[i] && job->source.is_repeated;
        if (has_result) {
            if (spans)
                spans_add(spans, job, job->source.finished_us, now_us - took_us, now_us);
            count_published(worker->figures.totals, job);
            worker->commits.group[n_committed++] = job;
        } else {
            job_reserve_give(&worker->jobs.reserve, job);
        }
    }
    assert(without.n_jobs == 0);
    return n_committed;
}

int64_t worker_commit_linger_ms(int64_t took_us)
{
    int64_t linger_ms = took_us * WORKER_LINGER_COMMITS / 1000;
    return linger_ms < WORKER_COMMIT_LINGER_MS ? linger_ms : WORKER_COMMIT_LINGER_MS;
}

// Publishes finished jobs. They remain in `finished` until the commit has succeeded.
enum status worker_commit(struct worker *worker, struct error *error)
{
    const struct worker_config *config = worker->config;
    size_t n = choose_group(worker);
    memset(worker->commits.is_published, 0, n * sizeof *worker->commits.is_published);
    if (config->model_check.run && config->model_check.run(config->model_check.context, error) != STATUS_OK)
        return error->status;
    int64_t began_us = clock_us();
    turn_watch_at(&worker->watch, "the transport to commit results");
    enum status status = config->transport->impl->commit(config->transport, worker->commits.group, n,
                                                         worker->commits.is_published, error);
    turn_watch_at(&worker->watch, "the transport");
    if (is_refusal(status, error))
        put_refused_last(worker);
    else if (status == STATUS_RETRY)
        commit_less(worker, n);
    worker->commits.is_isolating = is_refusal(status, error) && n > 1;
    if (status != STATUS_OK)
        return status;
    commit_more(worker);
    int64_t took_us = clock_us() - began_us;
    metrics_commit(config->metrics, took_us);
    worker->commits.linger_ms = worker_commit_linger_ms(took_us);
    size_t n_committed = finish_group(worker, n, took_us);
    ahead_committed(&worker->ahead, (int64_t)n, clock_ms());
    worker->polls.has_room_again = true;
    worker->commits.finished_since_ms = clock_ms();
    fault_point(FAULT_PUBLISHED);
    worker_figures_record_committed(worker, n_committed);
    for (size_t i = 0; i < n_committed; i++)
        job_reserve_give(&worker->jobs.reserve, worker->commits.group[i]);
    return STATUS_OK;
}

int64_t worker_commit_not_before_ms(const struct worker *worker)
{
    return ask_transport(worker).not_before_ms;
}

void worker_commit_give_up(struct worker *worker)
{
    if (worker->stop.mode < LEAVING || !worker->engine.ended || worker->jobs.finished.n_jobs == 0)
        return;
    int64_t not_before_ms = worker_commit_not_before_ms(worker);
    if (not_before_ms <= worker->stop.leaving_since_ms + WORKER_QUOTA_MS)
        return;
    log_write(LOG_WARNING,
              "%zu finished jobs are released, because a quota of the broker allows no commit for another "
              "%.0f s: they will run again",
              worker->jobs.finished.n_jobs, (double)(not_before_ms - clock_ms()) / 1000);
    worker_append_list(&worker->jobs.released, &worker->jobs.finished);
}

bool worker_commit_is_due(const struct worker *worker)
{
    size_t n = worker->jobs.finished.n_jobs;
    if (n == 0 || clock_ms() < worker->commits.retry.at_ms ||
        clock_ms() < worker_commit_not_before_ms(worker))
        return false;
    // The other half of the jobs keeps the engine busy during the commit.
    size_t half = (size_t)worker->ahead.limit / 2;
    return n >= WORKER_COMMIT_JOBS || n >= half || worker->engine.ended ||
           (size_t)worker->jobs.n_in_flight == n ||
           (worker->gate.n_engine == 0 && worker->gate.alone.n_jobs) || worker->gate.alone_engine ||
           clock_ms() - worker->commits.finished_since_ms >= worker->commits.linger_ms;
}

enum status worker_release_jobs(struct worker *worker, struct error *error)
{
    const struct transport_impl *impl = worker->config->transport->impl;
    for (const struct job *job = worker->jobs.released.first; job; job = job->next)
        duplicates_leave(&worker->duplicates, job, &worker->jobs.released);
    while (worker->jobs.released.n_jobs) {
        size_t n = 0;
        for (struct job *job = worker->jobs.released.first; job && n < (size_t)worker->config->n_jobs_max;
             job = job->next)
            worker->commits.group[n++] = job;
        enum status status = impl->release(worker->config->transport, worker->commits.group, n, error);
        if (status != STATUS_OK)
            return status;
        for (size_t i = 0; i < n; i++) {
            struct job *job = job_list_take(&worker->jobs.released);
            worker_job_left(worker, job, false);
            job_reserve_give(&worker->jobs.reserve, job);
        }
    }
    return STATUS_OK;
}

// The worker's figures: for the metrics page, the store, the log and the progress line.
#include "consumer/worker/worker_state.h"

#include "consumer/observe/log.h"
#include "consumer/worker/check_log.h"
#include "schemas/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 256, PROGRESS_INTERVAL_MS = 200, COMPACT_INTERVAL_MS = 10000 };

void worker_figures_take(struct worker *worker, const struct round *round)
{
    if (round->prefixes) {
        worker->config->metrics->prefixes = worker->figures.prefixes = *round->prefixes;
        worker->figures.has_prefixes = true;
    }
    check_log(&round->findings.check);
    trace_write(worker->config->trace, &round->findings.trace);
    if (round->figures.n_tokens == 0)
        return;
    metrics_step(worker->config->metrics, &round->figures);
    worker->figures.totals->generated_tokens += round->figures.n_generated;
    worker->figures.totals->prefill_tokens += round->figures.prefill_tokens;
    // If the store is unavailable for long, the oldest figures are lost, never a job.
    if (worker->figures.n_steps == WORKER_STEPS_KEPT_MAX)
        memmove(worker->figures.steps, worker->figures.steps + 1,
                --worker->figures.n_steps * sizeof *worker->figures.steps);
    worker->figures.steps[worker->figures.n_steps++] = round->figures;
}

struct store *worker_find_store(const struct worker *worker)
{
    const struct worker_config *config = worker->config;
    return config->records.find_store ? config->records.find_store(config->records.context)
                                      : config->records.store;
}

// The results of a commit to Kafka that are kept in the store to answer equal requests.
struct kept_results {
    struct text *results; // [n_jobs], NULL: none
    struct buffer records;
};

static bool is_kept(const struct job *job)
{
    return digest_is_set(&job->request_hash) && !job->figures.is_duplicate &&
           job->result.status == RESULT_DONE;
}

// Out of memory: no result is kept.
static void keep_results(struct kept_results *kept, struct job *const *jobs, size_t n_jobs)
{
    size_t n = 0;
    for (size_t i = 0; i < n_jobs; i++)
        n += is_kept(jobs[i]);
    kept->results = n ? calloc(n_jobs, sizeof *kept->results) : NULL;
    if (!kept->results)
        return;
    for (size_t i = 0; i < n_jobs; i++) {
        size_t before = kept->records.size;
        if (is_kept(jobs[i]))
            result_encode(jobs[i], ENCODING_JSON, &kept->records);
        kept->results[i].size = kept->records.size - before;
    }
    size_t at = 0;
    for (size_t i = 0; i < n_jobs; at += kept->results[i++].size)
        kept->results[i].data = kept->records.data + at;
    if (kept->records.failed) {
        free(kept->results);
        kept->results = NULL;
    }
}

enum status worker_figures_record(struct worker *worker, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    const struct worker_config *config = worker->config;
    struct store *store = worker_find_store(worker);
    if (!store)
        return STATUS_OK;
    struct partition_figures figures[PARTITIONS_MAX];
    struct partition_row rows[PARTITIONS_MAX];
    size_t n = config->transport->impl->figures(config->transport, figures, PARTITIONS_MAX);
    n = n < PARTITIONS_MAX ? n : PARTITIONS_MAX;
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++)
        if (!figures[i].is_past) // else the row is the next owner's
            rows[n_rows++] =
                (struct partition_row){figures[i].topic,         figures[i].partition,
                                       figures[i].position,      figures[i].committed,
                                       figures[i].end,           figures[i].n_in_flight,
                                       figures[i].n_map_covered, .deleted = figures[i].n_deleted};
    size_t n_recorded = config->records.jobs_need_recording ? n_jobs : 0;
    struct kept_results kept = {0};
    keep_results(&kept, jobs, n_recorded);
    struct store_record news = {.jobs = (const struct job *const *)jobs,
                                .n_jobs = n_recorded,
                                .results = kept.results,
                                .steps = worker->figures.steps,
                                .n_steps = worker->figures.n_steps,
                                .prefixes = worker->figures.has_prefixes ? &worker->figures.prefixes : NULL,
                                .partitions = rows,
                                .n_partitions = n_rows};
    worker->figures.recorded_ms = clock_ms();
    enum status status = store_record(store, &news, error);
    buffer_finish(&kept.records);
    free(kept.results);
    // While another process locks the store, waits once in full, then only briefly, so that group events are
    // handled.
    if (config->records.jobs_need_recording)
        store_set_patience(store, status == STATUS_OK ? STORE_TURN_MS : STORE_TURN_MS / 10);
    if (status == STATUS_OK) {
        worker->figures.n_steps = 0;
        worker->figures.has_prefixes = false;
        worker->figures.retry = (struct retry){0};
    }
    return status;
}

void worker_figures_record_committed(struct worker *worker, size_t n_jobs)
{
    struct worker_figures *figures = &worker->figures;
    struct error error;
    bool is_recorded = worker_figures_record(worker, worker->commits.group, n_jobs, &error) == STATUS_OK;
    if (is_recorded && figures->n_lost > 0)
        log_write(LOG_WARNING, "the store takes figures again: those of %lld committed results are lost",
                  (long long)figures->n_lost);
    if (is_recorded) {
        figures->n_lost = figures->warned_ms = 0;
        return;
    }
    figures->n_lost += worker->config->records.jobs_need_recording ? (int64_t)n_jobs : 0;
    if (figures->warned_ms && clock_ms() - figures->warned_ms < WORKER_WARN_AGAIN_MS)
        return;
    log_write(LOG_WARNING, "%s; the results are committed, their figures are not", error.text);
    figures->warned_ms = clock_ms();
}

// Compacts a bounded number of rows per call, so that jobs continue in between.
void worker_figures_compact(struct worker *worker)
{
    const struct worker_config *config = worker->config;
    if (config->records.retain_s == 0 || clock_ms() < worker->figures.compact_at_ms)
        return;
    struct store *store = worker_find_store(worker);
    if (!store)
        return;
    bool more = false;
    struct error error;
    if (store_compact(store, clock_wall_us() - (int64_t)config->records.retain_s * 1000000,
                      !config->records.retains_answers, &more, &error) != STATUS_OK)
        log_write(LOG_DEBUG, "%s; old rows stay for now", error.text);
    worker->figures.compact_at_ms = clock_ms() + (more ? WORKER_RECORD_INTERVAL_MS : COMPACT_INTERVAL_MS);
}

void worker_figures_show(struct worker *worker, bool last)
{
    worker->figures.totals->n_in_flight = worker->jobs.n_in_flight;
    if (!worker->config->progress.show ||
        (!last && clock_ms() - worker->figures.progress_ms < PROGRESS_INTERVAL_MS))
        return;
    worker->figures.progress_ms = clock_ms();
    worker->config->progress.show(worker->config->progress.context, worker->figures.totals);
}

void worker_figures_publish(struct worker *worker)
{
    const struct worker_config *config = worker->config;
    if (!config->exporter.publish || clock_ms() - worker->figures.published_ms < WORKER_BEAT_MS)
        return;
    config->metrics->jobs.n_held = (int64_t)worker->gate.held.n_jobs;
    if (config->spans)
        config->metrics->jobs.n_spans_dropped = spans_dropped(config->spans);
    config->exporter.publish(config->exporter.context);
    worker->figures.published_ms = clock_ms();
}

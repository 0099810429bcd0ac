// Queries for display: the progress of datasets, the work of workers, the lag.
#include "schemas/base/clock.h"
#include "store/workers.h"

// Reads the number in a statement's only row.
static enum status read_number(struct store *store, sqlite3_stmt *select, int64_t *n, struct error *error)
{
    int code = sqlite3_step(select);
    *n = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "counting jobs", error);
}

static enum status count_running(struct store *store, struct text dataset, int64_t *n, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT count(*) FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
                           " WHERE queue.worker IS NOT NULL AND dataset = ?",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    return read_number(store, select, n, error);
}

// Counts failures. Recent ones are few, and the index jobs_failed finds them. Older ones are counted in
// compacted_failures.
static enum status count_failed(struct store *store, struct text dataset, const char *code, int64_t *n,
                                struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT total(jobs) FROM failures WHERE dataset = ? AND error_code = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_text(select, 2, text_from_string(code));
    return read_number(store, select, n, error);
}

enum status store_progress(struct store *store, struct text dataset,
                           void (*receive)(void *context, const struct dataset_progress *progress),
                           void *context, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT p.dataset, submitted, done, failed, cancelled, jobs_per_second, seconds_left, is_cancelled,"
        " d.prompt_tokens, d.completion_tokens, d.cached_tokens, duplicates, d.duplicate_prompt_tokens +"
        " d.duplicate_completion_tokens + d.duplicate_row_tokens, is_total_unknown"
        " FROM progress p JOIN datasets d USING (dataset) WHERE ?1 IS NULL OR p.dataset = ?1"
        " ORDER BY d.submitted_at_us, p.dataset",
        error);
    if (!select)
        return error->status;
    if (dataset.size)
        bind_text(select, 1, dataset);
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        struct dataset_progress progress = {
            .dataset = column_text(select, 0),
            .submitted = sqlite3_column_int64(select, 1),
            .done = sqlite3_column_int64(select, 2),
            .failed = sqlite3_column_int64(select, 3),
            .cancelled = sqlite3_column_int64(select, 4),
            .jobs_per_second = sqlite3_column_double(select, 5),
            .seconds_left =
                sqlite3_column_type(select, 6) == SQLITE_NULL ? -1 : sqlite3_column_double(select, 6),
            .is_cancelled = sqlite3_column_int(select, 7) != 0,
            .prompt_tokens = sqlite3_column_int64(select, 8),
            .completion_tokens = sqlite3_column_int64(select, 9),
            .cached_tokens = sqlite3_column_int64(select, 10),
            .duplicates.n_jobs = sqlite3_column_int64(select, 11),
            .duplicates.n_tokens = sqlite3_column_int64(select, 12),
            .is_total_unknown = sqlite3_column_int(select, 13) != 0,
        };
        status = count_running(store, progress.dataset, &progress.running, error);
        if (status == STATUS_OK && progress.failed)
            status =
                count_failed(store, progress.dataset, error_code_name(ERROR_DEADLINE), &progress.late, error);
        if (status == STATUS_OK && progress.failed)
            status = count_failed(store, progress.dataset, error_code_name(ERROR_CRASHED), &progress.crashed,
                                  error);
        if (status == STATUS_OK)
            receive(context, &progress);
    }
    sqlite3_reset(select);
    if (status == STATUS_OK && code != SQLITE_DONE)
        status = database_error(&store->database, "reading progress", error);
    return status;
}

enum status store_waiting(struct store *store, struct text dataset,
                          void (*receive)(void *context, const struct waiting_jobs *jobs), void *context,
                          struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT dataset, queue.priority, sum(queue.worker IS NULL), sum(queue.worker IS NOT NULL),"
        " sum(queue.deadline_us <= ?2), sum(crashes > 0) FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
        " WHERE ?1 IS NULL OR dataset = ?1 GROUP BY dataset, queue.priority"
        " ORDER BY dataset, queue.priority DESC",
        error);
    if (!select)
        return error->status;
    if (dataset.size)
        bind_text(select, 1, dataset);
    bind_integer(select, 2, clock_wall_us());
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        receive(context, &(struct waiting_jobs){.dataset = column_text(select, 0),
                                                .priority = sqlite3_column_int(select, 1),
                                                .waiting = sqlite3_column_int64(select, 2),
                                                .running = sqlite3_column_int64(select, 3),
                                                .late = sqlite3_column_int64(select, 4),
                                                .suspects = sqlite3_column_int64(select, 5)});
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "reading what waits", error);
}

enum status store_suspects(struct store *store, struct text dataset, size_t n_max,
                           void (*receive)(void *context, const struct suspect_job *job), void *context,
                           struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT dataset, custom_id, crashes, attempts,"
        " CASE WHEN queue.worker IS NULL THEN 0 ELSE suspect_state END"
        " FROM queue CROSS JOIN jobs ON jobs.id = queue.job WHERE crashes > 0 AND (?1 IS NULL"
        " OR dataset = ?1) ORDER BY crashes DESC, queue.job LIMIT ?2",
        error);
    if (!select)
        return error->status;
    if (dataset.size)
        bind_text(select, 1, dataset);
    bind_integer(select, 2, (int64_t)n_max);
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        receive(context, &(struct suspect_job){.dataset = column_text(select, 0),
                                               .custom_id = column_text(select, 1),
                                               .crashes = sqlite3_column_int(select, 2),
                                               .attempts = sqlite3_column_int(select, 3),
                                               .state = (enum suspect_state)sqlite3_column_int(select, 4)});
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "reading suspects", error);
}

static enum status count_alive(struct store *store, int64_t *n, struct error *error)
{
    *n = 0;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT id FROM workers WHERE stopped_at_us IS NULL", error);
    if (!select)
        return error->status;
    enum status status = workers_open_locks(store, error);
    return status == STATUS_OK ? workers_count_alive(store, select, n, error) : status;
}

enum status store_totals(struct store *store, struct store_totals *totals, struct error *error)
{
    *totals = (struct store_totals){0};
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT total(n_steps), total(prefill_tokens), total(generated_tokens), total(busy_us),"
        " total(n_sequence_steps) / max(total(n_steps), 1),"
        " total(prefix_hits) / max(total(prefix_lookups), 1),"
        " total(tokens_saved) / max(total(prefix_tokens), 1),"
        " count(*) = 0 AND EXISTS (SELECT 1 FROM mirrored WHERE partition >= 0) FROM workers",
        error);
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW) {
        totals->n_steps = sqlite3_column_int64(select, 0);
        totals->prefill_tokens = sqlite3_column_int64(select, 1);
        totals->generated_tokens = sqlite3_column_int64(select, 2);
        totals->busy_us = sqlite3_column_int64(select, 3);
        totals->mean_batch = sqlite3_column_double(select, 4);
        totals->prefix_hit_share = sqlite3_column_double(select, 5);
        totals->tokens_saved_share = sqlite3_column_double(select, 6);
        totals->is_mirror = sqlite3_column_int(select, 7) != 0;
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW ? count_alive(store, &totals->n_workers_alive, error)
                              : database_error(&store->database, "reading totals", error);
}

enum status store_fleet(struct store *store,
                        void (*receive)(void *context, const struct fleet_worker *worker), void *context,
                        struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT worker, f.n_done, f.n_failed, f.n_cancelled, prompt_tokens, completion_tokens, cached_tokens,"
        " jobs_per_second, last_finished_at_us"
        " FROM fleet f JOIN fleet_throughput USING (worker) ORDER BY worker",
        error);
    if (!select)
        return error->status;
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        receive(context, &(struct fleet_worker){.worker = column_text(select, 0),
                                                .done = sqlite3_column_int64(select, 1),
                                                .failed = sqlite3_column_int64(select, 2),
                                                .cancelled = sqlite3_column_int64(select, 3),
                                                .prompt_tokens = sqlite3_column_int64(select, 4),
                                                .completion_tokens = sqlite3_column_int64(select, 5),
                                                .cached_tokens = sqlite3_column_int64(select, 6),
                                                .jobs_per_second = sqlite3_column_double(select, 7),
                                                .last_finished_at_us = sqlite3_column_int64(select, 8)});
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "reading the fleet", error);
}

enum status store_lag(struct store *store, struct store_lag *lag, struct error *error)
{
    *lag = (struct store_lag){0};
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT count(*), count(owner) + count(worker), total(jobs_behind), total(map_covered) FROM lag",
        error);
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW) {
        lag->n_partitions = sqlite3_column_int64(select, 0);
        lag->n_owned = sqlite3_column_int64(select, 1);
        lag->jobs_behind = sqlite3_column_int64(select, 2);
        lag->map_covered = sqlite3_column_int64(select, 3);
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "reading the lag", error);
}

enum status store_unfinished(struct store *store, int n_max,
                             void (*receive)(void *context, struct text dataset, int64_t n), void *context,
                             struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT dataset, n_submitted - n_done - n_failed - n_cancelled FROM datasets"
                           " WHERE n_submitted > n_done + n_failed + n_cancelled ORDER BY dataset LIMIT ?",
                           error);
    if (!select)
        return error->status;
    bind_integer(select, 1, n_max);
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        receive(context, column_text(select, 0), sqlite3_column_int64(select, 1));
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "counting jobs", error);
}

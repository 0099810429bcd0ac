// Compacts rows. Each call selects rows as a range or a small set, adds them to the sums and deletes them, in
// one transaction. So no figure is counted twice or lost, whenever the process dies.
#include "store/compact.h"

#include "store/removal.h"
#include "schemas/base/clock.h"

enum { SURPLUS_STEPS_LEAST = 1000 }; // fewer are not worth the statements

// Runs a statement with up to two integers bound.
static enum status run_statement(struct store *store, sqlite3_stmt *statement, int64_t first, int64_t second,
                                 struct error *error)
{
    if (!statement)
        return error->status;
    bind_integer(statement, 1, first);
    if (sqlite3_bind_parameter_count(statement) > 1)
        bind_integer(statement, 2, second);
    return database_run(&store->database, statement, error);
}

static enum status read_integer(struct store *store, sqlite3_stmt *select, int64_t *value,
                                struct error *error)
{
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    *value = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for old rows", error);
}

// ---- steps ----

static enum status compact_steps_to(struct store *store, int64_t last_id, struct error *error)
{
    struct database *database = &store->database;
    enum status status = run_statement(
        store,
        database_statement(
            database,
            "INSERT INTO hours SELECT finished_at_us / 3600000000 AS hour, count(*), sum(n_sequences),"
            " sum(n_tokens), sum(prefill_tokens), sum(decode_tokens), sum(generated), sum(preempted),"
            " sum(prepare_ms), sum(plan_ms), sum(compute_ms), sum(finish_ms), sum(forced),"
            " sum(drafted), sum(accepted) FROM steps"
            " WHERE id <= ? GROUP BY 1 ON CONFLICT (hour) DO UPDATE SET steps = steps + excluded.steps,"
            " sequence_steps = sequence_steps + excluded.sequence_steps,"
            " n_tokens = n_tokens + excluded.n_tokens, prefill_tokens ="
            " prefill_tokens + excluded.prefill_tokens, decode_tokens = decode_tokens +"
            " excluded.decode_tokens, generated = generated + excluded.generated, preempted = preempted +"
            " excluded.preempted, prepare_ms = prepare_ms + excluded.prepare_ms, plan_ms = plan_ms +"
            " excluded.plan_ms, compute_ms = compute_ms + excluded.compute_ms, finish_ms = finish_ms +"
            " excluded.finish_ms, forced = forced + excluded.forced, drafted = drafted + excluded.drafted,"
            " accepted = accepted + excluded.accepted",
            error),
        last_id, 0, error);
    if (status != STATUS_OK)
        return status;
    return run_statement(store, database_statement(database, "DELETE FROM steps WHERE id <= ?", error),
                         last_id, 0, error);
}

// Uses two subqueries: SQLite answers a query with only min() or only max() from one end of the table, but a
// query with both reads the whole table.
enum status compact_surplus_steps(struct store *store, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT iif(last - first + 1 - ?1 >= ?2, last - ?1, 0)"
        " FROM (SELECT (SELECT min(id) FROM steps) AS first, (SELECT max(id) FROM steps) AS last)",
        error);
    if (!select)
        return error->status;
    int64_t last_id;
    BIND_INTEGERS(select, 1, STORE_STEPS_KEPT, SURPLUS_STEPS_LEAST);
    enum status status = read_integer(store, select, &last_id, error);
    return status == STATUS_OK && last_id ? compact_steps_to(store, last_id, error) : status;
}

// Compacts old steps: among the oldest STORE_COMPACT_ROWS, all up to the last one that is old enough. Ids are
// in order of time unless the clock was set.
static enum status compact_old_steps(struct store *store, int64_t before_us, bool *more, struct error *error)
{
    sqlite3_stmt *select = database_statement(&store->database,
                                              "SELECT coalesce(max(id), 0) FROM (SELECT id, finished_at_us"
                                              " FROM steps ORDER BY id LIMIT ?2) WHERE finished_at_us < ?1",
                                              error);
    if (!select)
        return error->status;
    int64_t last_id;
    BIND_INTEGERS(select, 1, before_us, STORE_COMPACT_ROWS);
    enum status status = read_integer(store, select, &last_id, error);
    if (status != STATUS_OK || last_id == 0)
        return status;
    status = compact_steps_to(store, last_id, error);
    *more = *more || sqlite3_changes(store->database.sqlite) >= STORE_COMPACT_ROWS;
    return status;
}

// ---- jobs ----

// Compacts the jobs in temp.compacting.
static enum status compact_chosen_jobs(struct store *store, struct error *error)
{
    struct database *database = &store->database;
    static const char *const sums =
        "INSERT INTO dataset_hours SELECT dataset, finished_at_us / 3600000000 AS hour, sum(status = 'done'),"
        " sum(status = 'failed'), sum(status = 'cancelled'), total(prompt_tokens), total(completion_tokens),"
        " total(cached_tokens), sum(constrained_by IS NOT NULL) FROM jobs WHERE id IN (SELECT id"
        " FROM temp.compacting) GROUP BY 1, 2 ON CONFLICT (dataset, hour) DO UPDATE"
        " SET done = done + excluded.done, failed = failed + excluded.failed,"
        " cancelled = cancelled + excluded.cancelled, prompt_tokens = prompt_tokens + excluded.prompt_tokens,"
        " completion_tokens = completion_tokens + excluded.completion_tokens,"
        " cached_tokens = cached_tokens + excluded.cached_tokens,"
        " constrained = constrained + excluded.constrained";
    static const char *const failures =
        "INSERT INTO compacted_failures SELECT dataset, error_code, count(*), min(custom_id), error FROM "
        "jobs WHERE id IN (SELECT id FROM temp.compacting) AND error_code IS NOT NULL GROUP BY 1, 2 ON "
        "CONFLICT (dataset, error_code) DO UPDATE SET jobs = jobs + excluded.jobs, example = min(example, "
        "excluded.example), message = iif(excluded.example < example, excluded.message, message)";
    static const char *const marks =
        "UPDATE datasets SET compacted_at_us = coalesce(compacted_at_us, ?) WHERE dataset IN"
        " (SELECT dataset FROM jobs WHERE id IN (SELECT id FROM temp.compacting))";
    static const char *const deletions[] = {
        "DELETE FROM stored_records WHERE job IN (SELECT id FROM temp.compacting)",
        "DELETE FROM stored_results WHERE job IN (SELECT id FROM temp.compacting)",
        "DELETE FROM jobs WHERE id IN (SELECT id FROM temp.compacting)",
        // of datasets without jobs, also under the name of store/dataset_name.h for earlier answers
        ("DELETE FROM frames WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.dataset = frames.dataset"
         " OR jobs.dataset BETWEEN frames.dataset || '~before' AND frames.dataset || '~before' || char(127))")};
    enum status status = database_execute(database, sums, error);
    if (status == STATUS_OK)
        status = database_execute(database, failures, error);
    if (status == STATUS_OK)
        status = run_statement(store, database_statement(database, marks, error), clock_wall_us(), 0, error);
    for (size_t i = 0; i < sizeof deletions / sizeof *deletions && status == STATUS_OK; i++)
        status = database_execute(database, deletions[i], error);
    return status;
}

// Selects jobs whose answers are stored in a results topic, by age and by number.
static const char old_jobs_of_topics[] =
    "INSERT INTO temp.compacting SELECT id FROM jobs WHERE topic IS NOT NULL AND finished_at_us < ?1"
    " ORDER BY finished_at_us LIMIT ?2";
static const char surplus_jobs_of_topics[] =
    "INSERT INTO temp.compacting SELECT id FROM jobs WHERE topic IS NOT NULL AND finished_at_us IS NOT NULL"
    " AND id <= (SELECT max(id) FROM jobs) - ?1 ORDER BY id LIMIT ?2";
// Selects jobs whose answers are only in this store, once they were collected and the dataset has no
// unfinished job.
static const char collected_jobs[] =
    "INSERT INTO temp.compacting SELECT id FROM datasets d CROSS JOIN jobs USING (dataset)"
    " WHERE collected_at_us < ?1 AND last_finished_at_us < ?1"
    " AND n_submitted = n_done + n_failed + n_cancelled AND finished_at_us IS NOT NULL LIMIT ?2";

// Keeps answers that equal requests may use: see removal_promote.
static enum status promote_copies(struct store *store, struct error *error)
{
    enum status status = removal_begin(store, error);
    if (status == STATUS_OK)
        status = database_execute(&store->database,
                                  "INSERT INTO temp.removed_jobs SELECT id FROM temp.compacting", error);
    return status == STATUS_OK ? removal_promote(store, error) : status;
}

// Compacts the jobs that `choose` selects: it fills temp.compacting with ids of finished jobs. Parameter ?1
// is the time, ?2 the maximum number.
static enum status compact_jobs(struct store *store, const char *choose, int64_t before_us, bool *more,
                                struct error *error)
{
    bool is_answers = choose == collected_jobs;
    struct database *database = &store->database;
    enum status status = database_execute(database, "DELETE FROM temp.compacting", error);
    if (status == STATUS_OK)
        status = run_statement(store, database_statement(database, choose, error), before_us,
                               STORE_COMPACT_ROWS, error);
    int n_chosen = sqlite3_changes(database->sqlite);
    *more = *more || n_chosen >= STORE_COMPACT_ROWS;
    if (status == STATUS_OK && n_chosen && is_answers)
        status = promote_copies(store, error);
    return status == STATUS_OK && n_chosen ? compact_chosen_jobs(store, error) : status;
}

enum status store_compact(struct store *store, int64_t before_us, bool with_answers, bool *more,
                          struct error *error)
{
    struct database *database = &store->database;
    *more = false;
    enum status status =
        database_execute(database,
                         "CREATE TEMP TABLE IF NOT EXISTS compacting (id INTEGER PRIMARY KEY) STRICT", error);
    if (status == STATUS_OK)
        status = database_begin(database, error);
    if (status != STATUS_OK)
        return status;
    status = compact_old_steps(store, before_us, more, error);
    if (status == STATUS_OK)
        status = compact_jobs(store, old_jobs_of_topics, before_us, more, error);
    if (status == STATUS_OK)
        status = compact_jobs(store, surplus_jobs_of_topics, STORE_JOBS_KEPT, more, error);
    if (status == STATUS_OK && with_answers)
        status = compact_jobs(store, collected_jobs, before_us, more, error);
    if (status == STATUS_OK)
        status = run_statement(
            store,
            database_statement(
                database,
                "DELETE FROM prefixes WHERE worker IN (SELECT id FROM workers WHERE seen_at_us < ?)", error),
            before_us, 0, error);
    return database_end(database, status, error);
}

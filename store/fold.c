// The rows to go are chosen into a range or a small set, added to the sums and deleted, all in one
// transaction: no figure is counted twice and none is lost, whenever the process dies.
#include "store/fold.h"

#include "schemas/clock.h"

enum { SURPLUS_STEPS_LEAST = 1000 }; // fewer are not worth the statements

// Runs a statement with up to two integers bound.
static enum status run(struct store *store, sqlite3_stmt *statement, int64_t first, int64_t second,
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

static enum status fold_steps_to(struct store *store, int64_t last_id, struct error *error)
{
    struct database *database = &store->database;
    enum status status = run(
        store,
        database_statement(
            database,
            "INSERT INTO hours SELECT finished_at / 3600000000 AS hour, count(*), sum(size), sum(n_rows),"
            " sum(prefill_tokens), sum(decode_tokens), sum(generated), sum(preempted), sum(prepare_ms),"
            " sum(plan_ms), sum(compute_ms), sum(finish_ms) FROM batches WHERE id <= ? GROUP BY 1"
            " ON CONFLICT (hour) DO UPDATE SET steps = steps + excluded.steps, sequence_steps ="
            " sequence_steps + excluded.sequence_steps, n_rows = n_rows + excluded.n_rows, prefill_tokens ="
            " prefill_tokens + excluded.prefill_tokens, decode_tokens = decode_tokens +"
            " excluded.decode_tokens, generated = generated + excluded.generated, preempted = preempted +"
            " excluded.preempted, prepare_ms = prepare_ms + excluded.prepare_ms, plan_ms = plan_ms +"
            " excluded.plan_ms, compute_ms = compute_ms + excluded.compute_ms, finish_ms = finish_ms +"
            " excluded.finish_ms",
            error),
        last_id, 0, error);
    if (status != STATUS_OK)
        return status;
    return run(store, database_statement(database, "DELETE FROM batches WHERE id <= ?", error), last_id, 0,
               error);
}

enum status fold_surplus_steps(struct store *store, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT iif(max(id) - min(id) + 1 - ?1 >= ?2, max(id) - ?1, 0) FROM batches",
                           error);
    if (!select)
        return error->status;
    int64_t last_id;
    BIND_INTEGERS(select, 1, STORE_BATCHES_KEPT, SURPLUS_STEPS_LEAST);
    enum status status = read_integer(store, select, &last_id, error);
    return status == STATUS_OK && last_id ? fold_steps_to(store, last_id, error) : status;
}

// Steps are written in the order of time, but for clocks that are set: the first young one ends the slice.
static enum status fold_old_steps(struct store *store, int64_t before_us, bool *more, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT coalesce(max(id), 0) FROM (SELECT id, finished_at FROM batches ORDER BY id LIMIT ?2) WHERE finished_at < ?1",
        error);
    if (!select)
        return error->status;
    int64_t last_id;
    BIND_INTEGERS(select, 1, before_us, STORE_FOLD_ROWS);
    enum status status = read_integer(store, select, &last_id, error);
    if (status != STATUS_OK || last_id == 0)
        return status;
    status = fold_steps_to(store, last_id, error);
    *more = *more || sqlite3_changes(store->database.sqlite) >= STORE_FOLD_ROWS;
    return status;
}

// ---- jobs ----

// The jobs in temp.folding.
static enum status fold_chosen_jobs(struct store *store, struct error *error)
{
    struct database *database = &store->database;
    static const char *const sums =
        "INSERT INTO dataset_hours SELECT dataset, finished_at / 3600000000 AS hour, sum(status = 'done'),"
        " sum(status = 'failed'), sum(status = 'cancelled'), total(prompt_tokens), total(completion_tokens),"
        " total(cached_tokens) FROM jobs WHERE id IN (SELECT id FROM temp.folding) GROUP BY 1, 2"
        " ON CONFLICT (dataset, hour) DO UPDATE SET done = done + excluded.done, failed = failed + excluded.failed,"
        " cancelled = cancelled + excluded.cancelled, prompt_tokens = prompt_tokens + excluded.prompt_tokens,"
        " completion_tokens = completion_tokens + excluded.completion_tokens,"
        " cached_tokens = cached_tokens + excluded.cached_tokens";
    static const char *const failures =
        "INSERT INTO folded_failures SELECT dataset, error_code, count(*), min(custom_id), error FROM jobs"
        " WHERE id IN (SELECT id FROM temp.folding) AND error_code IS NOT NULL GROUP BY 1, 2"
        " ON CONFLICT (dataset, error_code) DO UPDATE SET jobs = jobs + excluded.jobs,"
        " example = min(example, excluded.example),"
        " message = iif(excluded.example < example, excluded.message, message)";
    static const char *const marks = "UPDATE datasets SET folded_at = coalesce(folded_at, ?) WHERE dataset IN"
                                     " (SELECT dataset FROM jobs WHERE id IN (SELECT id FROM temp.folding))";
    static const char *const deletions[] = {"DELETE FROM records WHERE job IN (SELECT id FROM temp.folding)",
                                            "DELETE FROM results WHERE job IN (SELECT id FROM temp.folding)",
                                            "DELETE FROM jobs WHERE id IN (SELECT id FROM temp.folding)"};
    enum status status = database_execute(database, sums, error);
    if (status == STATUS_OK)
        status = database_execute(database, failures, error);
    if (status == STATUS_OK)
        status = run(store, database_statement(database, marks, error), clock_wall_us(), 0, error);
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = database_execute(database, deletions[i], error);
    return status;
}

// `choose` fills temp.folding with ids of finished jobs; ?1 is the time, ?2 how many at most.
static enum status fold_jobs(struct store *store, const char *choose, int64_t before_us, bool *more,
                             struct error *error)
{
    struct database *database = &store->database;
    enum status status = database_execute(database, "DELETE FROM temp.folding", error);
    if (status == STATUS_OK)
        status = run(store, database_statement(database, choose, error), before_us, STORE_FOLD_ROWS, error);
    int n_chosen = sqlite3_changes(database->sqlite);
    *more = *more || n_chosen >= STORE_FOLD_ROWS;
    return status == STATUS_OK && n_chosen ? fold_chosen_jobs(store, error) : status;
}

// Answers that stand in a results topic: by age, and by number.
static const char old_jobs_of_topics[] =
    "INSERT INTO temp.folding SELECT id FROM jobs WHERE topic IS NOT NULL AND finished_at < ?1 ORDER BY finished_at LIMIT ?2";
static const char surplus_jobs_of_topics[] =
    "INSERT INTO temp.folding SELECT id FROM jobs WHERE topic IS NOT NULL AND finished_at IS NOT NULL"
    " AND id <= (SELECT max(id) FROM jobs) - ?1 ORDER BY id LIMIT ?2";
// Answers that stand here: when somebody has them, and no job of the dataset is to come.
static const char collected_jobs[] =
    "INSERT INTO temp.folding SELECT id FROM datasets d CROSS JOIN jobs USING (dataset) WHERE collected_at < ?1"
    " AND last_finished_at < ?1 AND n_submitted = n_done + n_failed + n_cancelled AND finished_at IS NOT NULL LIMIT ?2";

enum status store_fold(struct store *store, int64_t before_us, bool *more, struct error *error)
{
    struct database *database = &store->database;
    *more = false;
    enum status status =
        database_execute(database, "CREATE TEMP TABLE IF NOT EXISTS folding (id INTEGER PRIMARY KEY) STRICT",
                         error);
    if (status == STATUS_OK)
        status = database_begin(database, error);
    if (status != STATUS_OK)
        return status;
    status = fold_old_steps(store, before_us, more, error);
    if (status == STATUS_OK)
        status = fold_jobs(store, old_jobs_of_topics, before_us, more, error);
    if (status == STATUS_OK)
        status = fold_jobs(store, surplus_jobs_of_topics, STORE_JOBS_KEPT, more, error);
    if (status == STATUS_OK)
        status = fold_jobs(store, collected_jobs, before_us, more, error);
    if (status == STATUS_OK)
        status =
            run(store,
                database_statement(
                    database,
                    "DELETE FROM prefixes WHERE worker IN (SELECT id FROM workers WHERE seen_at < ?)", error),
                before_us, 0, error);
    return database_end(database, status, error);
}

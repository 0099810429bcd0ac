#include "store/table_rows.h"

#include "store/hashed_jobs.h"
#include "store/removal.h"
#include "store/workers.h"

void store_set_rows(struct store *store, const struct job_set *rows)
{
    store->rows = rows;
}

static enum status select_others(struct store *store, sqlite3_stmt *select, const struct job_set *rows,
                                 int64_t *n_removed, struct error *error)
{
    int code = SQLITE_DONE;
    bool any_runs = false;
    enum status status = removal_begin(store, error);
    *n_removed = 0;
    while (status == STATUS_OK && !any_runs && (code = sqlite3_step(select)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(select, 0);
        any_runs = sqlite3_column_int(select, 1);
        if (job_set_has(rows, id))
            continue;
        status = removal_add(store, id, error);
        ++*n_removed;
    }
    sqlite3_reset(select);
    if (any_runs)
        *n_removed = 0;
    return status != STATUS_OK || any_runs || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "looking for other rows", error);
}

enum status table_rows_remove(struct store *store, sqlite3_stmt *select, struct text dataset,
                              const struct job_set *rows, int64_t *n_removed, struct error *error)
{
    enum status status = select_others(store, select, rows, n_removed, error);
    return status == STATUS_OK && *n_removed ? removal_end(store, dataset, error) : status;
}

enum status table_rows_remove_others(struct store *store, struct text dataset, struct error *error)
{
    int64_t n_removed;
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT id, 0 FROM jobs WHERE dataset = ? AND finished_at_us IS NOT NULL", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    return table_rows_remove(store, select, dataset, store->rows, &n_removed, error);
}

enum status store_claim_rows(struct store *store, const struct job_set *rows, struct error *error)
{
    enum status status =
        database_execute(&store->database, "CREATE TEMP TABLE claimed_rows (job INTEGER PRIMARY KEY)", error);
    for (int64_t id = 0; status == STATUS_OK && id < (int64_t)rows->n_bytes * 8; id++) {
        if (!job_set_has(rows, id))
            continue;
        sqlite3_stmt *insert =
            database_statement(&store->database, "INSERT INTO temp.claimed_rows VALUES (?)", error);
        if (!insert)
            return error->status;
        bind_integer(insert, 1, id);
        status = database_run(&store->database, insert, error);
    }
    store->claims_rows = status == STATUS_OK;
    return status;
}

enum status store_count_rows(struct store *store, struct text dataset, const struct job_set *rows,
                             int64_t *n_finished, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT queue.job FROM queue CROSS JOIN jobs ON jobs.id = queue.job WHERE dataset = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code;
    *n_finished = rows->n;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        *n_finished -= job_set_has(rows, sqlite3_column_int64(select, 0));
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "counting rows", error);
}

enum status store_place_rows(struct store *store, const int64_t *jobs, const int64_t *indexes, size_t n,
                             struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        sqlite3_stmt *update =
            database_statement(&store->database,
                               "UPDATE jobs SET job_index = ?2 WHERE id = ?1 AND job_index IS NOT ?2", error);
        if (!update)
            status = error->status;
        else
            BIND_INTEGERS(update, 1, jobs[i], indexes[i]);
        if (status == STATUS_OK)
            status = database_run(&store->database, update, error);
    }
    return database_end(&store->database, status, error);
}

static enum status clear_places(struct store *store, struct text dataset, const struct job_set *rows,
                                struct error *error)
{
    int64_t n_others;
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT id, 0 FROM jobs WHERE dataset = ? AND job_index IS NOT NULL", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status = select_others(store, select, rows, &n_others, error);
    if (status != STATUS_OK || !n_others)
        return status;
    return database_execute(
        &store->database, "UPDATE jobs SET job_index = NULL WHERE id IN (SELECT job FROM temp.removed_jobs)",
        error);
}

enum status store_clear_places(struct store *store, struct text dataset, const struct job_set *rows,
                               struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = clear_places(store, dataset, rows, error);
    return database_end(&store->database, status, error);
}

bool store_others_hold_rows(const struct store *store, struct text dataset)
{
    return workers_others_hold_dataset(store, dataset);
}

enum status store_is_cancelled(struct store *store, int64_t id, bool *is_cancelled, struct error *error)
{
    int64_t found = 0;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT status = 'cancelled' FROM jobs WHERE id = ?", error);
    if (!select)
        return error->status;
    bind_integer(select, 1, id);
    enum status status =
        database_read_integer(&store->database, select, 0, &found, "looking for a cancelled job", error);
    *is_cancelled = found;
    return status;
}

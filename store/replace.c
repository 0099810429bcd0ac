// Replaces the submitted lines of a dataset by the lines of a changed file.
#include "schemas/base/clock.h"
#include "store/database.h"
#include "store/dataset_name.h"
#include "store/removal.h"
#include "store/submit.h"

#include <stdlib.h>

static enum status run_for(struct store *store, const char *sql, struct text dataset, struct error *error)
{
    sqlite3_stmt *statement = database_statement(&store->database, sql, error);
    if (!statement)
        return error->status;
    bind_text(statement, 1, dataset);
    return database_run(&store->database, statement, error);
}

static enum status check_running(struct store *store, struct text dataset, struct error *error)
{
    int64_t n_running;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT count(*) FROM queue CROSS JOIN jobs ON jobs.id = queue.job WHERE queue.worker IS NOT NULL"
        " AND dataset = ?",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status =
        database_read_integer(&store->database, select, 0, &n_running, "counting jobs", error);
    if (status != STATUS_OK || !n_running)
        return status;
    return error_set(error, STATUS_RETRY, ERROR_STORE,
                     "%s: dataset %.*s: its file has changed, and workers compute %lld of its jobs: try again"
                     " when they have stopped",
                     store->database.path, (int)dataset.size, dataset.data, (long long)n_running);
}

enum status store_replace_begin(struct store *store, struct text dataset, struct error *error)
{
    static const char names[] = "CREATE TEMP TABLE IF NOT EXISTS replaced_lines (custom_id TEXT PRIMARY KEY,"
                                " job INTEGER NOT NULL) WITHOUT ROWID";
    enum status status = store_check_arithmetic(store, dataset, false, error); // frees jobs of dead workers
    if (status == STATUS_OK)
        status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = check_running(store, dataset, error);
    if (status == STATUS_OK)
        status = database_execute(&store->database, names, error);
    if (status == STATUS_OK)
        status = database_execute(&store->database, "DELETE FROM temp.replaced_lines", error);
    if (status == STATUS_OK)
        status = run_for(store,
                         "INSERT OR IGNORE INTO temp.replaced_lines (custom_id, job) SELECT custom_id, id"
                         " FROM jobs WHERE dataset = ?",
                         dataset, error);
    if (status == STATUS_OK) // frees the job_ids, which new lines may get
        status =
            run_for(store, "UPDATE jobs SET job_id = char(0xE000) || id, job_index = NULL WHERE dataset = ?",
                    dataset, error);
    return status == STATUS_OK ? STATUS_OK : database_end(&store->database, status, error);
}

// Finds an old line with the same custom_id. *id becomes its job if the records are equal, else 0. *is_named
// becomes true if an old line has the custom_id.
static enum status find_line(struct store *store, const struct submission *submission, int64_t *id,
                             bool *is_named, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT r.job, whole_record(s.record, s.frame, NULL, NULL) FROM temp.replaced_lines r"
        " CROSS JOIN stored_records s USING (job)"
        " WHERE custom_id = ?",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, submission->custom_id);
    int code = sqlite3_step(select);
    bool is_same = code == SQLITE_ROW &&
                   job_records_equal(column_blob(select, 1), submission->record, submission->encoding);
    *is_named = code == SQLITE_ROW;
    *id = is_same ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a line", error);
}

#define RESULT_TEXT "SELECT CAST(whole_record(record, frame, ?2, ?7) AS TEXT) AS text"

static enum status keep_line(struct store *store, struct text dataset, const struct submission *submission,
                             int64_t id, struct error *error)
{
    static const char *const statements[] = {
        "UPDATE jobs SET job_id = ?2, job_index = ?3, priority = ?4, deadline_us = ?5 WHERE id = ?1",
        "UPDATE queue SET priority = ?4, deadline_us = coalesce(?5, 9223372036854775807) WHERE job = ?1",
        "UPDATE stored_records SET record = ?6, frame = ?8 WHERE job = ?1",
        // where a frame refers to the ids, they have changed with the job's row
        ("UPDATE stored_results SET (record, frame) = (SELECT CAST(json_replace(text, '$.job_id', ?2,"
         " '$.custom_id', ?7, '$.index', ?3) AS BLOB), NULL FROM (" RESULT_TEXT
         ")) WHERE job = ?1 AND (SELECT"
         " text ->> '$.job_id' IS NOT ?2 OR text ->> '$.custom_id' IS NOT ?7 OR text ->> '$.index' IS NOT ?3"
         " FROM (" RESULT_TEXT "))"),
        "DELETE FROM temp.replaced_lines WHERE custom_id = ?7"};
    struct stored_record stored;
    enum status status = submission_shrink(store, dataset, submission, &stored, error);
    for (size_t i = 0; i < sizeof statements / sizeof *statements && status == STATUS_OK; i++) {
        sqlite3_stmt *statement = database_statement(&store->database, statements[i], error);
        if (!statement)
            return error->status;
        // Binding a parameter that the statement does not have fails without effect.
        bind_integer(statement, 1, id);
        bind_text(statement, 2, submission->job_id);
        BIND_INTEGERS(statement, 3, submission->index, submission->priority);
        bind_nonzero(statement, 5, clock_us_of_s(submission->deadline_s));
        bind_blob(statement, 6, stored.bytes);
        bind_text(statement, 7, submission->custom_id);
        bind_nonzero(statement, 8, stored.frame);
        status = database_run(&store->database, statement, error);
    }
    return status;
}

enum status store_replace_lines(struct store *store, struct text dataset,
                                const struct submission *submissions, size_t n,
                                struct replacement *replacement, struct error *error)
{
    struct submission *others = calloc(n, sizeof *others);
    size_t n_others = 0, n_added = 0;
    enum status status = STATUS_OK;
    if (!others)
        return error_memory(error, STATUS_RETRY, "replacing %zu lines", n);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        int64_t id = 0;
        bool is_named = false;
        status = find_line(store, &submissions[i], &id, &is_named, error);
        if (status == STATUS_OK && id)
            status = keep_line(store, dataset, &submissions[i], id, error);
        else
            others[n_others++] = submissions[i];
        replacement->n_kept += status == STATUS_OK && id;
        replacement->n_changed += status == STATUS_OK && is_named && !id;
    }
    if (status == STATUS_OK && n_others)
        status = submit_jobs(store, dataset, others, n_others, &n_added, NULL, error);
    replacement->n_new += (int64_t)n_added;
    free(others);
    return status;
}

// Selects jobs of lines that were removed or changed: they have no job_index.
#define GONE     "dataset = ?1 AND job_index IS NULL"
#define WHOLE    "whole_record(record, frame, NULL, NULL)"
#define ANSWERED GONE " AND status = 'done' AND request_hash IS NOT NULL"

static enum status move_answers(struct store *store, struct text dataset, struct error *error)
{
    char name[BEFORE_NAME_BYTES];
    sqlite3_stmt *update =
        database_statement(&store->database, "UPDATE jobs SET dataset = ?2 WHERE " ANSWERED, error);
    if (!update)
        return error->status;
    bind_text(update, 1, dataset);
    bind_text(update, 2, dataset_name_before(dataset, name));
    return database_run(&store->database, update, error);
}

static enum status remove_gone(struct store *store, struct text dataset, struct replacement *replacement,
                               struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT count(*) FROM jobs WHERE " GONE, error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status =
        database_read_integer(&store->database, select, 0, &replacement->n_gone, "counting lines", error);
    if (status == STATUS_OK)
        status = move_answers(store, dataset, error);
    if (status == STATUS_OK)
        status = removal_begin(store, error);
    if (status == STATUS_OK)
        status =
            run_for(store, "INSERT INTO temp.removed_jobs SELECT id FROM jobs WHERE " GONE, dataset, error);
    if (status == STATUS_OK)
        status = removal_end(store, dataset, error);
    replacement->n_gone -= replacement->n_changed;
    return status;
}

// Refuses a file that contains no old line. Compares lines by their records, because a moved line without a
// custom_id gets a new custom_id from its number.
static enum status check_is_same(struct store *store, struct text dataset, struct replacement *replacement,
                                 struct error *error)
{
    int64_t n_same;
    if (replacement->n_kept)
        return STATUS_OK;
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT EXISTS (SELECT 1 FROM jobs JOIN stored_records ON job = id WHERE " GONE
                           " AND " WHOLE " IN"
                           " (SELECT " WHOLE " FROM jobs JOIN stored_records ON job = id WHERE dataset = ?1"
                           " AND job_index IS NOT NULL))",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status =
        database_read_integer(&store->database, select, 0, &n_same, "comparing lines", error);
    replacement->is_other = status == STATUS_OK && !n_same;
    return replacement->is_other ? error_set(error, STATUS_REFUSE, ERROR_STORE,
                                             "%s: dataset %.*s: no line is one submitted before",
                                             store->database.path, (int)dataset.size, dataset.data)
                                 : status;
}

static enum status set_mark(struct store *store, struct text dataset, const struct dataset_mark *upto,
                            struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database,
                           "UPDATE datasets SET fingerprint = ?, n_lines = ?, complete = 1 WHERE dataset = ?",
                           error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, (int64_t)upto->hash, upto->n_lines);
    bind_text(update, 3, dataset);
    return database_run(&store->database, update, error);
}

enum status store_replace_end(struct store *store, struct text dataset, const struct dataset_mark *upto,
                              enum status status, struct replacement *replacement, struct error *error)
{
    if (status == STATUS_OK)
        status = check_is_same(store, dataset, replacement, error);
    if (status == STATUS_OK)
        status = remove_gone(store, dataset, replacement, error);
    if (status == STATUS_OK)
        status = set_mark(store, dataset, upto, error);
    return database_end(&store->database, status, error);
}

enum status store_replace_forget(struct store *store, struct text dataset, struct error *error)
{
    char name[BEFORE_NAME_BYTES];
    struct text before = dataset_name_before(dataset, name);
    int64_t n_jobs;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT count(*) FROM jobs WHERE dataset = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, before);
    enum status status =
        database_read_integer(&store->database, select, 0, &n_jobs, "counting answers", error);
    if (status != STATUS_OK || !n_jobs)
        return status;
    status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = removal_begin(store, error);
    if (status == STATUS_OK)
        status = removal_add_dataset(store, before, error);
    if (status == STATUS_OK)
        status = removal_delete(store, error);
    return database_end(&store->database, status, error);
}

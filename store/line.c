// Submitted lines: reading their records and results, and removing the last one.
#include "store/database.h"
#include "store/hashed_jobs.h"

// Finds a line by its number, because its job_id contains the name that the dataset had at submission. The
// line is the dataset's first row after *after with that number or a higher one, or it does not exist.
enum status store_submitted(struct store *store, struct text dataset, int64_t line, int64_t *after,
                            void (*receive)(void *context, struct text record), void *context, bool *found,
                            struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT whole_record(record, frame, NULL, NULL), jobs.id, job_index FROM jobs NOT INDEXED"
        " CROSS JOIN stored_records r ON r.job = jobs.id"
        " WHERE jobs.id > ?1 AND job_index >= ?2 AND dataset = ?3 ORDER BY jobs.id LIMIT 1",
        error);
    if (!select)
        return error->status;
    BIND_INTEGERS(select, 1, *after, line);
    bind_text(select, 3, dataset);
    int code = sqlite3_step(select);
    *found = code == SQLITE_ROW && sqlite3_column_int64(select, 2) == line;
    if (*found) {
        *after = sqlite3_column_int64(select, 1);
        receive(context, column_blob(select, 0));
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "reading a submitted line", error);
}

enum status store_each_record(struct store *store, struct text dataset,
                              enum status (*receive)(void *context, const struct stored_request *request,
                                                     struct error *error),
                              void *context, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT jobs.id, job_id, whole_record(record, frame, NULL, NULL), status = 'queued' FROM jobs NOT"
        " INDEXED CROSS JOIN stored_records r ON r.job = jobs.id WHERE dataset = ? ORDER BY jobs.id",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        struct stored_request request = {sqlite3_column_int64(select, 0), column_text(select, 1),
                                         column_blob(select, 2), sqlite3_column_int(select, 3)};
        status = receive(context, &request, error);
    }
    sqlite3_reset(select);
    return status != STATUS_OK || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "reading jobs", error);
}

enum status store_request_record(struct store *store, int64_t id, struct buffer *record, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT whole_record(record, frame, NULL, NULL) FROM stored_records WHERE job = ?",
                           error);
    if (!select)
        return error->status;
    bind_integer(select, 1, id);
    int code = sqlite3_step(select);
    buffer_clear(record);
    if (code == SQLITE_ROW)
        buffer_add_text(record, column_blob(select, 0));
    sqlite3_reset(select);
    if (code == SQLITE_DONE)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: job %lld has no record",
                         store->database.path, (long long)id);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "reading a job", error);
}

static enum status find_job(struct store *store, struct text dataset, int64_t line, int64_t *id,
                            bool *has_failed, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT id, status = 'failed' FROM jobs WHERE dataset = ? AND job_index = ?"
                           " AND status IN ('queued', 'failed')",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_integer(select, 2, line);
    int code = sqlite3_step(select);
    *id = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    *has_failed = code == SQLITE_ROW && sqlite3_column_int(select, 1);
    sqlite3_reset(select);
    if (code == SQLITE_ROW)
        return STATUS_OK;
    if (code != SQLITE_DONE)
        return database_error(&store->database, "looking for a job", error);
    return error_set(error, STATUS_RETRY, ERROR_STORE,
                     "%s: dataset %.*s: a worker computes line %lld; try again", store->database.path,
                     (int)dataset.size, dataset.data, (long long)line);
}

static enum status delete_job(struct store *store, int64_t id, struct error *error)
{
    static const char *const statements[] = {"DELETE FROM queue WHERE job = ?",
                                             "DELETE FROM stored_results WHERE job = ?",
                                             "DELETE FROM stored_records WHERE job = ?",
                                             "DELETE FROM jobs WHERE id = ?"};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && status == STATUS_OK; i++) {
        sqlite3_stmt *statement = database_statement(&store->database, statements[i], error);
        if (!statement)
            return error->status;
        bind_integer(statement, 1, id);
        status = database_run(&store->database, statement, error);
    }
    return status;
}

static enum status move_back(struct store *store, struct text dataset, const struct dataset_mark *from,
                             const struct dataset_mark *back_to, bool has_failed, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database,
                           "UPDATE datasets SET fingerprint = ?1, n_lines = ?2, complete = 0,"
                           " n_submitted = n_submitted - 1, n_failed = n_failed - ?3, collected_at_us = NULL"
                           " WHERE dataset = ?4 AND fingerprint = ?5 AND n_lines = ?6",
                           error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, (int64_t)back_to->hash, back_to->n_lines, has_failed);
    bind_text(update, 4, dataset);
    BIND_INTEGERS(update, 5, (int64_t)from->hash, from->n_lines);
    enum status status = database_run(&store->database, update, error);
    if (status != STATUS_OK || sqlite3_changes(store->database.sqlite))
        return status;
    return error_set(error, STATUS_RETRY, ERROR_STORE,
                     "%s: dataset %.*s: another process has submitted to it meanwhile; try again",
                     store->database.path, (int)dataset.size, dataset.data);
}

enum status store_remove_line(struct store *store, struct text dataset, int64_t line,
                              const struct dataset_mark *from, const struct dataset_mark *back_to,
                              struct error *error)
{
    int64_t id;
    bool has_failed;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = find_job(store, dataset, line, &id, &has_failed, error);
    if (status == STATUS_OK)
        status = delete_job(store, id, error);
    if (status == STATUS_OK)
        status = move_back(store, dataset, from, back_to, has_failed, error);
    return database_end(&store->database, status, error);
}

enum status store_collect_part(struct store *store, struct text dataset,
                               enum status (*receive)(void *context, const struct partial_job *job,
                                                      struct error *error),
                               void *context, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT whole_record(record, frame, job_id, custom_id), job_id, custom_id, job_index, is_table,"
        " status = 'running' FROM jobs LEFT JOIN stored_results r ON r.job = jobs.id JOIN datasets USING (dataset)"
        " WHERE dataset = ? ORDER BY job_index, id",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    int64_t n = 0;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        bool has_result = sqlite3_column_type(select, 0) != SQLITE_NULL;
        bool has_index = sqlite3_column_type(select, 3) != SQLITE_NULL;
        struct partial_job job = {.record = has_result ? column_blob(select, 0) : (struct text){0},
                                  .job_id = column_text(select, 1),
                                  .custom_id = column_text(select, 2),
                                  .index = has_index ? sqlite3_column_int64(select, 3) : -1,
                                  .is_row = sqlite3_column_int(select, 4),
                                  .is_running = sqlite3_column_int(select, 5)};
        n++;
        status = receive(context, &job, error);
    }
    sqlite3_reset(select);
    if (status == STATUS_OK && code != SQLITE_DONE)
        return database_error(&store->database, "collecting results", error);
    if (status == STATUS_OK && !n)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: dataset %.*s has no jobs",
                         store->database.path, (int)dataset.size, dataset.data);
    return status;
}

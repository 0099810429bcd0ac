// The embedded queue: claiming, releasing and collecting jobs. store/submit.c submits them.
#include "schemas/base/clock.h"
#include "store/dataset_arithmetic.h"
#include "store/dataset_name.h"
#include "store/finish.h"
#include "store/claim.h"
#include "store/hashed_jobs.h"
#include "store/table_rows.h"
#include "store/workers.h"

#include <stdlib.h>

// ---- claiming ----

// CROSS JOIN makes SQLite scan `queue`, which has only unfinished jobs, and look up each job in `jobs`, which
// has all jobs.

static enum status next_claiming_worker(struct store *store, int64_t after, int64_t *worker,
                                        struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT min(worker) FROM queue WHERE worker > ?", error);
    if (!select)
        return error->status;
    bind_integer(select, 1, after);
    *worker = -1;
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW && sqlite3_column_type(select, 0) != SQLITE_NULL)
        *worker = sqlite3_column_int64(select, 0);
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "looking for workers", error);
}

// Counts a worker's crash for the jobs that may have caused it. If one job was computed alone, only that job.
// Otherwise one more crash for each suspect that was being computed, and a first crash for each other job of
// the worker.
static enum status blame_jobs_of(struct store *store, int64_t worker, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE queue SET crashes = CASE WHEN suspect_state > 0 THEN crashes + 1 ELSE max(crashes, 1) END,"
        " suspect_state = 0 WHERE worker = ?1 AND (suspect_state = 2 OR NOT EXISTS"
        " (SELECT 1 FROM queue WHERE worker = ?1 AND suspect_state = 2))",
        error);
    if (!update)
        return error->status;
    bind_integer(update, 1, worker);
    return database_run(&store->database, update, error);
}

static enum status free_jobs_of(struct store *store, int64_t worker, struct error *error)
{
    struct database *database = &store->database;
    sqlite3_stmt *jobs = database_statement(database,
                                            "UPDATE jobs SET status = 'queued', worker = NULL WHERE id IN"
                                            " (SELECT job FROM queue WHERE worker = ?)",
                                            error);
    sqlite3_stmt *queue =
        jobs ? database_statement(database,
                                  "UPDATE queue SET worker = NULL, suspect_state = 0 WHERE worker = ?", error)
             : NULL;
    if (!queue)
        return error->status;
    bind_integer(jobs, 1, worker);
    bind_integer(queue, 1, worker);
    enum status status = database_run(database, jobs, error);
    return status == STATUS_OK ? database_run(database, queue, error) : status;
}

// Releases the jobs of dead workers. Jobs of cancelled datasets are finished as cancelled.
static enum status free_jobs_of_the_dead(struct store *store, struct error *error)
{
    bool any = false;
    enum status status = workers_open_locks(store, error); // not open yet in a process that is no worker
    if (status == STATUS_OK)
        status = store_keep_lock(store, error);
    if (status != STATUS_OK)
        return status;
    for (int64_t worker = 0;;) {
        status = next_claiming_worker(store, worker, &worker, error);
        if (status != STATUS_OK || worker < 0)
            return status == STATUS_OK && any ? finish_cancelled_datasets(store, error) : status;
        enum worker_state state;
        status = worker_state(store, worker, &state, error);
        if (status != STATUS_OK)
            return status;
        if (state == WORKER_ALIVE)
            continue;
        any = true;
        store->claiming.n_workers = 0; // the number of workers changed: count again
        if (state == WORKER_DEAD)
            status = blame_jobs_of(store, worker, error);
        if (status == STATUS_OK)
            status = free_jobs_of(store, worker, error);
        if (status != STATUS_OK)
            return status;
    }
}

// Lists the ids as a JSON array, so that one statement changes all of them: opening a table's indexes costs
// as much as changing a row.
static enum status list_ids(const int64_t *ids, size_t n, struct buffer *list, struct error *error)
{
    buffer_add_byte(list, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            buffer_add_byte(list, ',');
        buffer_add_integer(list, ids[i]);
    }
    buffer_add_byte(list, ']');
    return list->failed ? error_memory(error, STATUS_RETRY, "claiming %zu jobs", n) : STATUS_OK;
}

static enum status mark_claimed(struct store *store, const int64_t *ids, size_t n, struct error *error)
{
    struct database *database = &store->database;
    sqlite3_stmt *queue = database_statement(
        database, "UPDATE OR FAIL queue SET worker = ? WHERE job IN (SELECT value FROM json_each(?))", error);
    sqlite3_stmt *job =
        queue ? database_statement(
                    database,
                    "UPDATE OR FAIL jobs SET status = 'running', worker = ?, attempts = attempts + 1 "
                    "WHERE id IN (SELECT value FROM json_each(?))",
                    error)
              : NULL;
    if (!job)
        return error->status;
    struct buffer list = {0};
    enum status status = list_ids(ids, n, &list, error);
    bind_integer(queue, 1, store->worker);
    bind_text(queue, 2, (struct text){list.data, list.size});
    if (status == STATUS_OK)
        status = database_run(database, queue, error);
    bind_integer(job, 1, store->worker);
    bind_text(job, 2, (struct text){list.data, list.size});
    if (status == STATUS_OK)
        status = database_run(database, job, error);
    buffer_finish(&list);
    return status;
}

// The queries that read free jobs in one order: the most urgent first, or the oldest first.
static sqlite3_stmt *select_free(struct store *store, struct text dataset, bool oldest, size_t n_max,
                                 struct error *error)
{
    static const char *const queries[2][3] = {
        {"SELECT job, " CLAIM_RECORD_BYTES
         " FROM queue WHERE worker IS NULL ORDER BY priority DESC, deadline_us, dataset_number, job LIMIT ?",
         NULL, // by turns
         "SELECT job, " CLAIM_RECORD_BYTES " FROM temp.claimed_rows CROSS JOIN queue USING (job)"
         " WHERE worker IS NULL ORDER BY priority DESC, deadline_us, job LIMIT ?"},
        {"SELECT job, " CLAIM_RECORD_BYTES
         " FROM queue INDEXED BY queue_free WHERE worker IS NULL ORDER BY job LIMIT ?",
         "SELECT job, " CLAIM_RECORD_BYTES
         " FROM queue INDEXED BY queue_free WHERE worker IS NULL AND dataset_number = ?2"
         " ORDER BY job LIMIT ?1",
         "SELECT job, " CLAIM_RECORD_BYTES " FROM temp.claimed_rows CROSS JOIN queue USING (job)"
         " WHERE worker IS NULL ORDER BY job LIMIT ?"}};
    int which = store->claims_rows ? 2 : dataset.size > 0;
    int64_t number = 0;
    if (which == 1 && claim_number_of(store, dataset, &number, error) != STATUS_OK)
        return NULL;
    sqlite3_stmt *select = database_statement(&store->database, queries[oldest][which], error);
    if (!select)
        return NULL;
    bind_integer(select, 1, (int64_t)n_max);
    if (which == 1)
        bind_integer(select, 2, number);
    return select;
}

// Chooses free jobs in one order, until their records have *bytes_left bytes. Adds them to `ids` and *n.
static enum status choose_in_order(struct store *store, struct text dataset, bool oldest, size_t n_max,
                                   int64_t *bytes_left, int64_t *ids, size_t *n, struct error *error)
{
    sqlite3_stmt *select = select_free(store, dataset, oldest, n_max, error);
    if (!select)
        return error->status;
    int code = SQLITE_DONE;
    while (*bytes_left > 0 && (code = sqlite3_step(select)) == SQLITE_ROW) {
        ids[(*n)++] = sqlite3_column_int64(select, 0);
        *bytes_left -= sqlite3_column_int64(select, 1);
    }
    sqlite3_reset(select);
    return code == SQLITE_DONE || code == SQLITE_ROW
               ? STATUS_OK
               : database_error(&store->database, "claiming jobs", error);
}

// Claims the chosen jobs that their datasets' limits allow, one after the other. *n becomes their number.
static enum status claim_within_limits(struct store *store, int64_t *ids, size_t *n, struct error *error)
{
    size_t n_chosen = *n;
    enum status status = STATUS_OK;
    *n = 0;
    for (size_t i = 0; status == STATUS_OK && i < n_chosen; i++) {
        sqlite3_stmt *select =
            database_statement(&store->database, "SELECT dataset_number FROM queue WHERE job = ?", error);
        if (!select)
            return error->status;
        bind_integer(select, 1, ids[i]);
        int64_t dataset = 0, room = 0;
        status = database_read_integer(&store->database, select, 0, &dataset, "claiming a job", error);
        if (status == STATUS_OK)
            status = claim_room_of(store, dataset, &room, error);
        if (status != STATUS_OK || room == 0)
            continue;
        ids[(*n)++] = ids[i];
        status = mark_claimed(store, &ids[*n - 1], 1, error);
    }
    return status;
}

enum claim_order { BY_TURNS, BY_URGENCY, BY_AGE };

static enum status claim_some(struct store *store, struct text dataset, enum claim_order order, size_t n_max,
                              int64_t *bytes_left, int64_t *ids, size_t *n, struct error *error)
{
    size_t n_chosen = 0;
    bool oldest = order == BY_AGE;
    enum status status =
        order == BY_TURNS
            ? claim_choose_by_turns(store, dataset, n_max, bytes_left, ids + *n, &n_chosen, error)
            : choose_in_order(store, dataset, oldest, n_max, bytes_left, ids + *n, &n_chosen, error);
    if (status == STATUS_OK) {
        const struct dataset_shares *shares = store->claiming.shares;
        status = oldest && shares && dataset_shares_have_limits(shares)
                     ? claim_within_limits(store, ids + *n, &n_chosen, error)
                     : mark_claimed(store, ids + *n, n_chosen, error);
    }
    *n += n_chosen;
    return status;
}

static enum status claim_free(struct store *store, struct text dataset, size_t n_max, int64_t bytes_max,
                              int64_t *ids, size_t *n, struct error *error)
{
    int64_t before = store->n_claimed, after = before + (int64_t)n_max;
    size_t n_oldest = (size_t)(after / STORE_OLDEST_EVERY - before / STORE_OLDEST_EVERY);
    bool needs_turns = false, oldest_is_first = false;
    enum status status =
        store->claims_rows ? STATUS_OK : claim_needs_turns(store, dataset, &needs_turns, error);
    if (status == STATUS_OK && needs_turns && n_oldest)
        status = claim_oldest_is_first(store, &oldest_is_first, error);
    if (oldest_is_first)
        n_oldest = 0;
    if (status == STATUS_OK && n_max > n_oldest)
        status = claim_some(store, dataset, needs_turns ? BY_TURNS : BY_URGENCY, n_max - n_oldest, &bytes_max,
                            ids, n, error);
    if (status == STATUS_OK && n_oldest)
        status = claim_some(store, dataset, BY_AGE, n_oldest, &bytes_max, ids, n, error);
    store->n_claimed += (int64_t)*n;
    return status;
}

static struct claimed_job claimed_job(sqlite3_stmt *row)
{
    bool has_index = sqlite3_column_type(row, 6) != SQLITE_NULL;
    return (struct claimed_job){.id = sqlite3_column_int64(row, 9),
                                .record = column_blob(row, 0),
                                .encoding = (enum encoding)sqlite3_column_int(row, 1),
                                .attempts = sqlite3_column_int(row, 2) - 1,
                                .dataset = column_text(row, 3),
                                .job_id = column_text(row, 4),
                                .custom_id = column_text(row, 5),
                                .index = has_index ? sqlite3_column_int64(row, 6) : -1,
                                .submitted_at_us = sqlite3_column_int64(row, 7),
                                .crashes = sqlite3_column_int(row, 8)};
}

// Reads the claimed jobs in the order of `ids`. Called after the claim is committed and the write lock
// released: decoding the records is slower than claiming them.
static enum status read_claimed(struct store *store, const int64_t *ids, size_t n,
                                void (*receive)(void *context, const struct claimed_job *job), void *context,
                                size_t *n_read, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT whole_record(record, frame, NULL, NULL), encoding, attempts, dataset, job_id, custom_id, job_index, submitted_at_us,"
        " crashes, jobs.id FROM json_each(?) AS list CROSS JOIN queue ON queue.job = list.value"
        " CROSS JOIN stored_records r ON r.job = queue.job CROSS JOIN jobs ON jobs.id = queue.job",
        error);
    if (!select)
        return error->status;
    struct buffer list = {0};
    enum status status = list_ids(ids, n, &list, error);
    bind_text(select, 1, (struct text){list.data, list.size});
    int code = SQLITE_ROW;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        struct claimed_job job = claimed_job(select);
        if (job.id != ids[*n_read]) // a job of the list is missing
            break;
        receive(context, &job);
        ++*n_read;
    }
    sqlite3_reset(select);
    buffer_finish(&list);
    if (status == STATUS_OK && (code != SQLITE_DONE || *n_read < n))
        return database_error(&store->database, "reading a claimed job", error);
    return status;
}

// Releases claimed jobs that could not be read: no other worker would release them while this worker lives.
// STATUS_RESTART: they cannot be released; ending the process frees them.
static enum status release_unread(struct store *store, const int64_t *ids, size_t n, enum status status,
                                  struct error *error)
{
    struct error fault;
    if (store_release(store, ids, n, &fault) == STATUS_OK)
        return status;
    return error->status = STATUS_RESTART;
}

enum status store_claim(struct store *store, struct text dataset, size_t n_max, int64_t bytes_max,
                        void (*receive)(void *context, const struct claimed_job *job), void *context,
                        size_t *n_claimed, struct error *error)
{
    *n_claimed = 0;
    int64_t *ids = malloc((n_max ? n_max : 1) * sizeof *ids);
    if (!ids)
        return error_memory(error, STATUS_RETRY, "claiming %zu jobs", n_max);
    enum status status = database_begin(&store->database, error);
    if (status == STATUS_OK) {
        status = free_jobs_of_the_dead(store, error);
        if (status == STATUS_OK)
            status = dataset_arithmetic_bind(store, dataset, false, error);
        if (status == STATUS_OK)
            status = claim_limit_apply(store, dataset, &n_max, error);
        if (status == STATUS_OK)
            status = claim_free(store, dataset, n_max, bytes_max, ids, n_claimed, error);
        status = database_end(&store->database, status, error);
    }
    // Uses one read transaction. Without it each statement would lock and unlock the file, two system calls
    // per job.
    size_t n_read = 0;
    bool read = status == STATUS_OK && *n_claimed > 0;
    if (read)
        status = database_execute(&store->database, "BEGIN", error);
    if (read && status == STATUS_OK) {
        status = read_claimed(store, ids, *n_claimed, receive, context, &n_read, error);
        status = database_end(&store->database, status, error);
    }
    if (read && status != STATUS_OK && n_read < *n_claimed)
        status = release_unread(store, ids + n_read, *n_claimed - n_read, status, error);
    *n_claimed = n_read;
    free(ids);
    return status;
}

enum status store_check_arithmetic(struct store *store, struct text dataset, bool force_new,
                                   struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = free_jobs_of_the_dead(store, error);
    if (status == STATUS_OK)
        status = dataset_arithmetic_bind(store, dataset, force_new, error);
    return database_end(&store->database, status, error);
}

static enum status keep_rows(struct store *store, struct text dataset, const struct job_set *rows,
                             int64_t *n_removed, struct error *error)
{
    enum status status = free_jobs_of_the_dead(store, error);
    if (status == STATUS_OK && workers_others_hold_dataset(store, dataset))
        return STATUS_OK;
    sqlite3_stmt *select =
        status == STATUS_OK
            ? database_statement(&store->database,
                                 "SELECT queue.job, queue.worker IS NOT NULL FROM queue CROSS JOIN jobs ON"
                                 " jobs.id = queue.job WHERE dataset = ? ORDER BY queue.worker IS NULL",
                                 error)
            : NULL;
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    return table_rows_remove(store, select, dataset, rows, n_removed, error);
}

enum status store_hold_rows(struct store *store, struct text dataset, struct error *error)
{
    return workers_hold_dataset(store, dataset, error);
}

enum status store_keep_rows(struct store *store, struct text dataset, const struct job_set *rows,
                            int64_t *n_removed, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    *n_removed = 0;
    if (status != STATUS_OK)
        return status;
    status = keep_rows(store, dataset, rows, n_removed, error);
    return database_end(&store->database, status, error);
}

enum status store_release(struct store *store, const int64_t *ids, size_t n, struct error *error)
{
    struct database *database = &store->database;
    enum status status = database_begin(database, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *queue = database_statement(
        database, "UPDATE queue SET worker = NULL, suspect_state = 0 WHERE job = ? AND worker = ?", error);
    sqlite3_stmt *job =
        queue ? database_statement(database,
                                   "UPDATE jobs SET status = 'queued', worker = NULL, attempts = attempts - 1"
                                   " WHERE id = ? AND worker = ?",
                                   error)
              : NULL;
    status = job ? STATUS_OK : error->status;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        BIND_INTEGERS(queue, 1, ids[i], store->worker);
        status = database_run(database, queue, error);
        if (status != STATUS_OK || sqlite3_changes(database->sqlite) == 0)
            continue;
        BIND_INTEGERS(job, 1, ids[i], store->worker);
        status = database_run(database, job, error);
    }
    return database_end(database, status, error);
}

enum status store_suspect(struct store *store, const int64_t *ids, size_t n, enum suspect_state state,
                          struct error *error)
{
    struct database *database = &store->database;
    enum status status = database_begin(database, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *update =
        database_statement(database, "UPDATE queue SET suspect_state = ? WHERE job = ? AND worker = ?",
                           error);
    status = update ? STATUS_OK : error->status;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        BIND_INTEGERS(update, 1, (int)state, ids[i], store->worker);
        status = database_run(database, update, error);
    }
    return database_end(database, status, error);
}

enum status store_queue_is_drained(struct store *store, struct text dataset, bool *drained,
                                   struct error *error)
{
    static const char *const queries[] = {
        "SELECT NOT EXISTS (SELECT 1 FROM queue)",
        ("SELECT NOT EXISTS (SELECT 1 FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
         " WHERE jobs.dataset = ?)"),
        "SELECT NOT EXISTS (SELECT 1 FROM temp.claimed_rows CROSS JOIN queue USING (job))"};
    int which = store->claims_rows ? 2 : dataset.size > 0;
    sqlite3_stmt *select = database_statement(&store->database, queries[which], error);
    if (!select)
        return error->status;
    if (which == 1)
        bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    *drained = code == SQLITE_ROW && sqlite3_column_int(select, 0);
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "looking for jobs", error);
}

// ---- collecting ----

enum status store_collect(struct store *store, struct text dataset,
                          enum status (*receive)(void *context, struct text record, struct error *error),
                          void *context, int64_t *n_missing, struct error *error)
{
    sqlite3_stmt *known =
        database_statement(&store->database,
                           "SELECT n_submitted, compacted_at_us FROM datasets WHERE dataset = ?", error);
    sqlite3_stmt *select =
        known ? database_statement(
                    &store->database,
                    "SELECT whole_record(record, frame, job_id, custom_id) FROM jobs JOIN stored_results r"
                    " ON r.job = jobs.id WHERE dataset = ?"
                    " ORDER BY job_index, id",
                    error)
              : NULL;
    if (!select)
        return error->status;
    bind_text(known, 1, dataset);
    int found = sqlite3_step(known);
    if (found != SQLITE_ROW) {
        sqlite3_reset(known);
        if (found != SQLITE_DONE)
            return database_error(&store->database, "looking for the dataset", error);
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %.*s",
                         store->database.path, (int)dataset.size, dataset.data);
    }
    *n_missing = sqlite3_column_int64(known, 0);
    bool compacted = sqlite3_column_type(known, 1) != SQLITE_NULL;
    sqlite3_reset(known);
    if (compacted)
        return error_set(
            error, STATUS_REFUSE, ERROR_STORE,
            "%s: dataset %.*s was collected long ago, and its results were removed since (--retain)",
            store->database.path, (int)dataset.size, dataset.data);
    bind_text(select, 1, dataset);
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        *n_missing -= 1;
        status = receive(context, column_blob(select, 0), error);
    }
    sqlite3_reset(select);
    if (status == STATUS_OK && code != SQLITE_DONE)
        status = database_error(&store->database, "collecting results", error);
    return status;
}

enum status store_collected(struct store *store, struct text dataset, struct error *error)
{
    if (store->read_only)
        return STATUS_OK;
    sqlite3_stmt *update = database_statement(&store->database,
                                              "UPDATE datasets SET collected_at_us = ? WHERE dataset = ?"
                                              " AND n_submitted = n_done + n_failed + n_cancelled",
                                              error);
    if (!update)
        return error->status;
    bind_integer(update, 1, clock_wall_us());
    bind_text(update, 2, dataset);
    return database_run(&store->database, update, error);
}

enum status store_answers_begin(struct store *store, struct error *error)
{
    return database_execute(&store->database, "BEGIN", error);
}

enum status store_answers_end(struct store *store, enum status status, struct error *error)
{
    return sqlite3_get_autocommit(store->database.sqlite) ? status
                                                          : database_end(&store->database, status, error);
}

enum status store_answer(struct store *store, int64_t id, struct buffer *record, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT whole_record(record, frame, job_id, custom_id) FROM stored_results JOIN"
                           " jobs ON jobs.id = job WHERE job = ?",
                           error);
    if (!select)
        return error->status;
    bind_integer(select, 1, id);
    return database_read_blob(&store->database, select, record, "reading an answer", error);
}

enum status store_is_finished(struct store *store, struct text dataset, struct text job_id, bool *is_finished,
                              struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT 1 FROM jobs WHERE dataset = ? AND job_id = ? AND finished_at_us IS NOT NULL", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_text(select, 2, job_id);
    int64_t found = 0;
    enum status status =
        database_read_integer(&store->database, select, 0, &found, "looking for a result", error);
    *is_finished = found;
    return status;
}

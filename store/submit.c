// Submits jobs to the embedded queue, and keeps the progress of submitting a dataset's file.
#include "schemas/base/clock.h"
#include "store/dataset_name.h"
#include "store/hashed_jobs.h"
#include "store/submit.h"
#include "store/workers.h"

#include <string.h>

static enum status ensure_dataset(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO datasets (dataset, submitted_at_us, number)"
        " VALUES (?, ?, (SELECT coalesce(max(number), 0) + 1 FROM datasets WHERE number IS NOT NULL))"
        " ON CONFLICT (dataset) DO UPDATE SET number = excluded.number WHERE number IS NULL",
        error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, dataset);
    bind_integer(insert, 2, clock_wall_us());
    enum status status = database_run(&store->database, insert, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT cancelled_at_us IS NOT NULL, compacted_at_us IS NOT NULL FROM datasets WHERE dataset = ?",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    bool found = code == SQLITE_ROW;
    bool cancelled = found && sqlite3_column_int(select, 0),
         compacted = found && sqlite3_column_int(select, 1);
    sqlite3_reset(select);
    if (!found)
        return database_error(&store->database, "looking for the dataset", error);
    if (compacted)
        return error_set(error, STATUS_REFUSE, ERROR_STORE,
                         "%s: dataset %.*s is finished and old, its jobs were"
                         " removed (--retain): submit under another name",
                         store->database.path, (int)dataset.size, dataset.data);
    if (cancelled)
        return error_set(
            error, STATUS_REFUSE, ERROR_CANCELLED,
            "%s: dataset %.*s was cancelled: \"sheaf dataset reopen %.*s --store %s\" queues its jobs again,"
            " or submit under another name",
            store->database.path, (int)dataset.size, dataset.data, (int)dataset.size, dataset.data,
            store->database.path);
    return STATUS_OK;
}

// Returns the id for the first added job. 0 means SQLite's next id. Otherwise the highest ids belonged to
// deleted jobs, and must not be used again.
static enum status first_id(struct store *store, int64_t *id, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT coalesce((SELECT iif(last > (SELECT coalesce(max(id), 0)"
                           " FROM jobs), last + 1, 0) FROM deleted_jobs), 0)",
                           error);
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    *id = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK
                              : database_error(&store->database, "reading the last job's id", error);
}

enum { SUBMIT_ROWS = 16 };

// Records stay whole if one has another encoding than JSON.
static enum status shrink_group(struct store *store, struct text dataset,
                                const struct submission *submissions, size_t n, struct stored_record *stored,
                                struct error *error)
{
    const struct frame_source source = {FRAME_OF_REQUESTS, dataset};
    struct whole_record whole[SUBMIT_ROWS];
    bool are_json = true;
    for (size_t i = 0; i < n; i++) {
        whole[i] = (struct whole_record){.record = submissions[i].record};
        stored[i] = (struct stored_record){.bytes = submissions[i].record};
        are_json = are_json && submissions[i].encoding == ENCODING_JSON;
    }
    return are_json ? frames_shrink(store, &source, whole, n, stored, error) : STATUS_OK;
}

enum status submission_shrink(struct store *store, struct text dataset, const struct submission *submission,
                              struct stored_record *stored, struct error *error)
{
    return shrink_group(store, dataset, submission, 1, stored, error);
}

static enum status insert_record(struct store *store, struct text dataset,
                                 const struct submission *submission, int64_t id, struct error *error)
{
    struct stored_record stored;
    enum status status = submission_shrink(store, dataset, submission, &stored, error);
    sqlite3_stmt *record =
        status == STATUS_OK
            ? database_statement(
                  &store->database,
                  "INSERT INTO stored_records (job, record, encoding, frame) VALUES (?, ?, ?, ?)", error)
            : NULL;
    if (!record)
        return error->status;
    bind_integer(record, 1, id);
    bind_blob(record, 2, stored.bytes);
    bind_integer(record, 3, submission->encoding);
    bind_nonzero(record, 4, stored.frame);
    return database_run(&store->database, record, error);
}

static enum status find_id(struct store *store, struct text dataset, struct text job_id, int64_t *id,
                           struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT id FROM jobs WHERE dataset = ? AND job_id = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_text(select, 2, job_id);
    int code = sqlite3_step(select);
    *id = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "looking for a job", error);
}

// Jobs that this transaction has added. Their ids are the highest.
struct added {
    int64_t next;  // id for the first job; 0: SQLite's next id
    int64_t first; // lowest id; 0: none
    size_t n;
};

static void count_added(struct added *added, int64_t first, size_t n)
{
    if (n && !added->first)
        added->first = first;
    added->n += n;
}

static enum status submit_one(struct store *store, struct text dataset, const struct submission *submission,
                              int64_t now_us, struct added *added, int64_t *id, struct error *error)
{
    struct database *database = &store->database;
    sqlite3_stmt *job =
        database_statement(database,
                           "INSERT INTO jobs (dataset, job_id, custom_id, job_index, status, submitted_at_us,"
                           " priority, deadline_us, id) VALUES (?, ?, ?, ?, 'queued', ?, ?, ?, ?)"
                           " ON CONFLICT (dataset, job_id) DO NOTHING",
                           error);
    if (!job)
        return error->status;
    bind_text(job, 1, dataset);
    bind_text(job, 2, submission->job_id);
    bind_text(job, 3, submission->custom_id);
    if (submission->index >= 0)
        bind_integer(job, 4, submission->index);
    BIND_INTEGERS(job, 5, now_us, submission->priority);
    bind_nonzero(job, 7, clock_us_of_s(submission->deadline_s));
    bind_nonzero(job, 8, added->n ? 0 : added->next);
    enum status status = database_run(database, job, error);
    if (status != STATUS_OK)
        return status;
    if (sqlite3_changes(database->sqlite) == 0)
        return find_id(store, dataset, submission->job_id, id, error);
    *id = sqlite3_last_insert_rowid(database->sqlite);
    count_added(added, *id, 1);
    return insert_record(store, dataset, submission, *id, error);
}

// ---- several jobs per statement, which opens the table and its indexes once ----

#define FOUR_OF(row)    row ", " row ", " row ", " row
#define SIXTEEN_OF(row) FOUR_OF(row) ", " FOUR_OF(row) ", " FOUR_OF(row) ", " FOUR_OF(row)

// Inserts jobs. *n_new becomes the number of jobs that did not exist before; their ids are the highest.
static enum status insert_jobs(struct store *store, struct text dataset,
                               const struct submission jobs[SUBMIT_ROWS], int64_t now_us, int *n_new,
                               struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT OR FAIL INTO jobs (dataset, submitted_at_us, status, job_id, custom_id, job_index, priority,"
        " deadline_us) VALUES " SIXTEEN_OF("(?1, ?2, 'queued', ?, ?, ?, ?, ?)") " ON CONFLICT (dataset,"
                                                                                " job_id) DO NOTHING",
        error);
    *n_new = 0;
    if (!insert)
        return error->status;
    bind_text(insert, 1, dataset);
    bind_integer(insert, 2, now_us);
    for (int i = 0, parameter = 3; i < SUBMIT_ROWS; i++, parameter += 5) {
        bind_text(insert, parameter, jobs[i].job_id);
        bind_text(insert, parameter + 1, jobs[i].custom_id);
        if (jobs[i].index >= 0)
            bind_integer(insert, parameter + 2, jobs[i].index);
        bind_integer(insert, parameter + 3, jobs[i].priority);
        bind_nonzero(insert, parameter + 4, clock_us_of_s(jobs[i].deadline_s));
    }
    enum status status = database_run(&store->database, insert, error);
    if (status == STATUS_OK)
        *n_new = sqlite3_changes(store->database.sqlite);
    return status;
}

static enum status insert_records(struct store *store, struct text dataset,
                                  const struct submission jobs[SUBMIT_ROWS], const int64_t ids[SUBMIT_ROWS],
                                  struct error *error)
{
    struct stored_record stored[SUBMIT_ROWS];
    enum status status = shrink_group(store, dataset, jobs, SUBMIT_ROWS, stored, error);
    sqlite3_stmt *insert =
        status == STATUS_OK
            ? database_statement(
                  &store->database,
                  "INSERT OR FAIL INTO stored_records (job, record, encoding, frame) VALUES " SIXTEEN_OF(
                      "(?, ?, ?, ?)"),
                  error)
            : NULL;
    if (!insert)
        return error->status;
    for (int i = 0, parameter = 1; i < SUBMIT_ROWS; i++, parameter += 4) {
        bind_integer(insert, parameter, ids[i]);
        bind_blob(insert, parameter + 1, stored[i].bytes);
        bind_integer(insert, parameter + 2, jobs[i].encoding);
        bind_nonzero(insert, parameter + 3, stored[i].frame);
    }
    return database_run(&store->database, insert, error);
}

// Finds the new jobs if some existed before or are listed twice. New jobs have the ids from `first` on, in
// the order of `jobs`.
static enum status separate_new(struct store *store, struct text dataset,
                                const struct submission jobs[SUBMIT_ROWS], int64_t first,
                                int64_t ids[SUBMIT_ROWS], struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < SUBMIT_ROWS; i++) {
        status = find_id(store, dataset, jobs[i].job_id, &ids[i], error);
        if (status == STATUS_OK && ids[i] == first) {
            status = insert_record(store, dataset, &jobs[i], ids[i], error);
            first++;
        }
    }
    return status;
}

static enum status submit_rows(struct store *store, struct text dataset,
                               const struct submission jobs[SUBMIT_ROWS], int64_t now_us, struct added *added,
                               int64_t ids[SUBMIT_ROWS], struct error *error)
{
    int n_new;
    enum status status = insert_jobs(store, dataset, jobs, now_us, &n_new, error);
    if (status != STATUS_OK)
        return status;
    int64_t first = n_new ? sqlite3_last_insert_rowid(store->database.sqlite) - n_new + 1 : INT64_MAX;
    count_added(added, first, (size_t)n_new);
    if (n_new < SUBMIT_ROWS)
        return separate_new(store, dataset, jobs, first, ids, error);
    for (int i = 0; i < SUBMIT_ROWS; i++)
        ids[i] = first + i;
    return insert_records(store, dataset, jobs, ids, error);
}

static enum status queue_added(struct store *store, struct text dataset, int64_t first, struct error *error)
{
    sqlite3_stmt *queue = database_statement(
        &store->database,
        "INSERT OR FAIL INTO queue (job, priority, deadline_us, dataset_number) SELECT id, priority,"
        " coalesce(deadline_us, 9223372036854775807), (SELECT number FROM datasets WHERE dataset = ?2)"
        " FROM jobs WHERE id >= ?1 ORDER BY id",
        error);
    if (!queue)
        return error->status;
    bind_integer(queue, 1, first);
    bind_text(queue, 2, dataset);
    return database_run(&store->database, queue, error);
}

// Finds frames for the jobs that will be submitted.
static enum status prepare_frames(struct store *store, struct text dataset,
                                  const struct submission *submissions, size_t n, struct error *error)
{
    const struct frame_source source = {FRAME_OF_REQUESTS, dataset};
    struct whole_record samples[FRAME_SAMPLES];
    for (size_t i = 0; n >= FRAME_SAMPLES && i < FRAME_SAMPLES; i++) {
        const struct submission *submission = &submissions[i * (n - 1) / (FRAME_SAMPLES - 1)];
        if (submission->encoding != ENCODING_JSON)
            return STATUS_OK;
        samples[i] = (struct whole_record){.record = submission->record};
    }
    return n >= FRAME_SAMPLES ? frames_prepare(store, &source, samples, error) : STATUS_OK;
}

enum status submit_jobs(struct store *store, struct text dataset, const struct submission *submissions,
                        size_t n, size_t *n_added, int64_t *ids, struct error *error)
{
    int64_t now_us = clock_wall_us();
    struct added added = {0};
    enum status status = ensure_dataset(store, dataset, error);
    if (status == STATUS_OK)
        status = first_id(store, &added.next, error);
    if (status == STATUS_OK)
        status = prepare_frames(store, dataset, submissions, n, error);
    for (size_t i = 0, n_rows; status == STATUS_OK && i < n; i += n_rows) {
        int64_t some[SUBMIT_ROWS];
        n_rows = n - i < SUBMIT_ROWS || (added.next && !added.n) ? 1 : SUBMIT_ROWS;
        status = n_rows == 1 ? submit_one(store, dataset, &submissions[i], now_us, &added, some, error)
                             : submit_rows(store, dataset, &submissions[i], now_us, &added, some, error);
        if (status == STATUS_OK && ids)
            memcpy(ids + i, some, n_rows * sizeof *ids);
    }
    *n_added = added.n;
    if (status == STATUS_OK && added.n)
        status = queue_added(store, dataset, added.first, error);
    if (status != STATUS_OK || !added.n)
        return status;
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE datasets SET n_submitted = n_submitted + ?, collected_at_us = NULL WHERE dataset = ?", error);
    if (!update)
        return error->status;
    bind_integer(update, 1, (int64_t)*n_added);
    bind_text(update, 2, dataset);
    return database_run(&store->database, update, error);
}

static enum status mark_table(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database,
                           "UPDATE datasets SET is_table = 1 WHERE dataset = ? AND is_table = 0", error);
    if (!update)
        return error->status;
    bind_text(update, 1, dataset);
    return database_run(&store->database, update, error);
}

enum status store_submit_requests(struct store *store, struct text dataset,
                                  const struct submission *submissions, size_t n, int64_t *ids,
                                  size_t *n_added, struct error *error)
{
    *n_added = 0;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = submit_jobs(store, dataset, submissions, n, n_added, ids, error);
    if (status == STATUS_OK && ids)
        status = mark_table(store, dataset, error);
    return database_end(&store->database, status, error);
}

enum status store_submit(struct store *store, struct text dataset, const struct submission *submissions,
                         size_t n, size_t *n_added, struct error *error)
{
    return store_submit_requests(store, dataset, submissions, n, NULL, n_added, error);
}

// ---- progress of a dataset's submission ----

static enum status read_mark(struct store *store, struct text dataset, struct dataset_mark *mark,
                             bool *complete, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT fingerprint, n_lines, complete, is_table FROM datasets WHERE dataset = ?",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    *mark = (struct dataset_mark){0};
    *complete = false;
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW && sqlite3_column_type(select, 0) == SQLITE_INTEGER) {
        bool by_lines = sqlite3_column_type(select, 1) == SQLITE_INTEGER;
        *mark = (struct dataset_mark){by_lines ? sqlite3_column_int64(select, 1) : STORE_WHOLE_FILE,
                                      (uint64_t)sqlite3_column_int64(select, 0), false};
        *complete = sqlite3_column_int(select, 2);
    } else if (code == SQLITE_ROW) {
        mark->is_of_requests = sqlite3_column_int(select, 3);
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for the dataset", error);
}

static enum status move_mark(struct store *store, struct text dataset, const struct dataset_mark *from,
                             const struct dataset_mark *upto, struct error *error)
{
    struct dataset_mark now;
    bool complete;
    enum status status = read_mark(store, dataset, &now, &complete, error);
    if (status != STATUS_OK)
        return status;
    if (now.n_lines != from->n_lines || now.hash != from->hash)
        return error_set(error, STATUS_RETRY, ERROR_STORE,
                         "%s: dataset %.*s: another process has submitted to it meanwhile; try again",
                         store->database.path, (int)dataset.size, dataset.data);
    sqlite3_stmt *update =
        database_statement(&store->database,
                           "UPDATE datasets SET fingerprint = ?, n_lines = ? WHERE dataset = ?", error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, (int64_t)upto->hash, upto->n_lines);
    bind_text(update, 3, dataset);
    return database_run(&store->database, update, error);
}

enum status store_submit_lines(struct store *store, struct text dataset, const struct submission *submissions,
                               size_t n, const struct dataset_mark *from, const struct dataset_mark *upto,
                               size_t *n_added, struct error *error)
{
    *n_added = 0;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = submit_jobs(store, dataset, submissions, n, n_added, NULL, error);
    if (status == STATUS_OK)
        status = move_mark(store, dataset, from, upto, error);
    return database_end(&store->database, status, error);
}

enum status store_dataset_begin(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error)
{
    bool complete = false;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = dataset_name_check_queue(store, dataset, error);
    if (status == STATUS_OK)
        status = ensure_dataset(store, dataset, error);
    if (status == STATUS_OK)
        status = read_mark(store, dataset, mark, &complete, error);
    if (status == STATUS_OK && mark->n_lines == STORE_WHOLE_FILE && !complete)
        status = error_set(
            error, STATUS_REFUSE, ERROR_STORE,
            "%s: dataset %.*s: an older version of sheaf began to submit it and did not end: submit under"
            " another name, or start with a new store",
            store->database.path, (int)dataset.size, dataset.data);
    return database_end(&store->database, status, error);
}

enum status store_dataset_complete(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database, "UPDATE datasets SET complete = 1 WHERE dataset = ?", error);
    if (!update)
        return error->status;
    bind_text(update, 1, dataset);
    return database_run(&store->database, update, error);
}

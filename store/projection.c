#include "store/projection.h"

#include "schemas/base/clock.h"

// Binds identity and source to parameters first..first+9.
static void bind_identity(sqlite3_stmt *statement, int first, const struct published_job *published)
{
    const struct job *job = published->job;
    bind_text(statement, first, job->dataset);
    bind_text(statement, first + 1, job->job_id);
    bind_text(statement, first + 2, job->custom_id);
    if (job->index >= 0)
        bind_integer(statement, first + 3, job->index);
    bind_integer(statement, first + 4, job->figures.attempts);
    bind_nonzero(statement, first + 5, clock_us_of_s(job->created_s));
    bind_text(statement, first + 6, job->source.topic);
    bind_integer(statement, first + 7, job->source.partition);
    bind_integer(statement, first + 8, job->source.offset);
    bind_text(statement, first + 9, published->made_by);
}

// Makes the row of a failed job a queued one: the job was sent again as a dead letter and has a new result.
static enum status reopen_redriven(struct store *store, const struct job *job, struct dataset_totals *totals,
                                   struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE jobs SET status = 'queued', error_code = NULL, error = NULL, finished_at_us = NULL"
        " WHERE dataset = ?1 AND job_id = ?2 AND status = 'failed'",
        error);
    if (!update)
        return error->status;
    bind_text(update, 1, job->dataset);
    bind_text(update, 2, job->job_id);
    enum status status = database_run(&store->database, update, error);
    if (status != STATUS_OK || sqlite3_changes(store->database.sqlite) == 0)
        return status;
    struct dataset_total *total = totals_of(totals, job->dataset, error);
    if (!total)
        return error->status;
    total->n_failed--;
    return STATUS_OK;
}

// Finishes a job that already has a row, because it was mirrored before it ended.
static enum status end_job(struct store *store, const struct published_job *published,
                           struct dataset_totals *totals, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE jobs SET custom_id = ?3, job_index = ?4, attempts = ?5,"
        " submitted_at_us = coalesce(?6, submitted_at_us), topic = ?7, partition = ?8, offset = ?9,"
        " made_by = ?10, status = ?11, error_code = ?12, error = ?13, finish_reason = ?14,"
        " prompt_tokens = ?15, completion_tokens = ?16, cached_tokens = ?17, queued_us = ?18,"
        " prefill_us = ?19, decode_us = ?20, worker = ?21, finished_at_us = ?22, constrained_by = ?23,"
        " forced_tokens = ?24, is_duplicate = ?25, request_hash = ?26, drafted_tokens = ?27,"
        " accepted_tokens = ?28, open_hash = ?29, max_tokens = ?30, reasoning_tokens = ?31"
        " WHERE dataset = ?1 AND job_id = ?2 AND status IN ('queued', 'running')",
        error);
    if (!update)
        return error->status;
    bind_identity(update, 1, published);
    bind_outcome(update, 11, store, published->job, published->finished_at_us);
    enum status status = STATUS_OK;
    if (published->job->source.redriven)
        status = reopen_redriven(store, published->job, totals, error);
    if (status == STATUS_OK)
        status = database_run(&store->database, update, error);
    if (status != STATUS_OK || sqlite3_changes(store->database.sqlite) == 0)
        return status;
    return totals_add(totals, published->job, false, published->finished_at_us, error);
}

// OR FAIL is safe because the caller rolls back after an error. It spares SQLite a statement journal for
// inserts of many rows.
#define JOBS                                                                                                 \
    "INSERT OR FAIL INTO jobs (dataset, job_id, custom_id, job_index, attempts, submitted_at_us, topic,"     \
    " partition, offset, made_by, status, error_code, error, finish_reason, prompt_tokens,"                  \
    " completion_tokens, cached_tokens, queued_us, prefill_us, decode_us, worker, finished_at_us,"           \
    " constrained_by, forced_tokens, is_duplicate, request_hash, drafted_tokens, accepted_tokens,"           \
    " open_hash, max_tokens, reasoning_tokens,"                                                              \
    " priority, deadline_us) VALUES "
#define ROW                                                                                                  \
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define FOUR_ROWS    ROW ", " ROW ", " ROW ", " ROW
#define UNLESS_THERE " ON CONFLICT (dataset, job_id) DO NOTHING"

static const char insert_one[] = JOBS ROW UNLESS_THERE;
static const char insert_many[] = JOBS FOUR_ROWS ", " FOUR_ROWS ", " FOUR_ROWS ", " FOUR_ROWS UNLESS_THERE;

enum { ROW_PARAMETERS = 33 };

// Inserts one job, or PROJECTION_ROWS jobs. *n_new becomes the number of jobs that had no row before; their
// ids are now the highest.
static enum status insert_jobs(struct store *store, const struct published_job *published, int n_jobs,
                               int *n_new, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database, n_jobs == 1 ? insert_one : insert_many, error);
    if (!insert)
        return error->status;
    for (int i = 0; i < n_jobs; i++) {
        int first = i * ROW_PARAMETERS + 1;
        const struct job *job = published[i].job;
        bind_identity(insert, first, &published[i]);
        bind_outcome(insert, first + 10, store, job, published[i].finished_at_us);
        bind_integer(insert, first + 31, job->priority);
        bind_nonzero(insert, first + 32, clock_us_of_s(job->deadline_s));
    }
    enum status status = database_run(&store->database, insert, error);
    *n_new = status == STATUS_OK ? sqlite3_changes(store->database.sqlite) : 0;
    return status;
}

enum status projection_add_job(struct store *store, const struct published_job *published,
                               struct dataset_totals *totals, struct error *error)
{
    int n_new;
    enum status status = insert_jobs(store, published, 1, &n_new, error);
    if (status != STATUS_OK)
        return status;
    if (n_new == 0)
        return end_job(store, published, totals, error);
    return totals_add(totals, published->job, true, published->finished_at_us, error);
}

static enum status id_of(struct store *store, const struct job *job, int64_t *id, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT id FROM jobs WHERE dataset = ? AND job_id = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, job->dataset);
    bind_text(select, 2, job->job_id);
    int code = sqlite3_step(select);
    *id = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK
                              : database_error(&store->database, "looking for a job's row", error);
}

// Finds the new jobs if some jobs had rows before or are listed twice. The n_new highest ids belong to new
// jobs; each is counted once.
static enum status separate_new(struct store *store, const struct published_job *published, int n_new,
                                struct dataset_totals *totals, struct error *error)
{
    int64_t last_id = sqlite3_last_insert_rowid(store->database.sqlite);
    bool counted[PROJECTION_ROWS] = {false}; // index 0 is the highest id
    enum status status = STATUS_OK;
    for (int i = 0; i < PROJECTION_ROWS && status == STATUS_OK; i++) {
        int64_t id;
        status = id_of(store, published[i].job, &id, error);
        if (status != STATUS_OK)
            break;
        bool is_new = n_new > 0 && last_id - id < n_new && !counted[last_id - id];
        if (is_new)
            counted[last_id - id] = true;
        status = is_new ? totals_add(totals, published[i].job, true, published[i].finished_at_us, error)
                        : end_job(store, &published[i], totals, error);
    }
    return status;
}

enum status projection_add_jobs(struct store *store, const struct published_job published[PROJECTION_ROWS],
                                struct dataset_totals *totals, struct error *error)
{
    int n_new;
    enum status status = insert_jobs(store, published, PROJECTION_ROWS, &n_new, error);
    if (status == STATUS_OK && n_new < PROJECTION_ROWS)
        return separate_new(store, published, n_new, totals, error);
    for (int i = 0; i < PROJECTION_ROWS && status == STATUS_OK; i++)
        status = totals_add(totals, published[i].job, true, published[i].finished_at_us, error);
    return status;
}

enum status projection_set_partition(struct store *store, const struct partition_row *row, int64_t now_us,
                                     struct error *error)
{
    sqlite3_stmt *upsert = database_statement(
        &store->database,
        "INSERT INTO partitions (topic, partition, worker, owner, position, committed, log_end, in_flight,"
        " map_covered, updated_at_us, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (topic, partition) DO UPDATE SET worker = excluded.worker, owner = excluded.owner,"
        " position = excluded.position, committed = excluded.committed,"
        " log_end = excluded.log_end, in_flight = excluded.in_flight, map_covered = excluded.map_covered,"
        " updated_at_us = excluded.updated_at_us, deleted = max(deleted, excluded.deleted)",
        error);
    if (!upsert)
        return error->status;
    bind_text(upsert, 1, row->topic);
    bind_integer(upsert, 2, row->partition);
    bind_nonzero(upsert, 3, store->worker);
    bind_text(upsert, 4, row->owner);
    BIND_INTEGERS(upsert, 5, row->position, row->committed, row->log_end, row->in_flight, row->map_covered,
                  now_us, row->deleted);
    return database_run(&store->database, upsert, error);
}

enum status store_find_finished(struct store *store, const struct job *job, int32_t partition, int64_t offset,
                                bool *is_finished, struct error *error)
{
    sqlite3_stmt *select = database_statement( // the dataset may be called NAME@TOPIC (dataset_name.h)
        &store->database,
        "SELECT count(*) FROM jobs WHERE dataset IN (?1, ?1 || '@' || ?3) AND job_id = ?2 AND topic = ?3"
        " AND finished_at_us IS NOT NULL AND NOT (partition = ?4 AND offset = ?5)",
        error);
    if (!select)
        return error->status;
    bind_text(select, 1, job->dataset);
    bind_text(select, 2, job->job_id);
    bind_text(select, 3, job->source.topic);
    BIND_INTEGERS(select, 4, partition, offset);
    int64_t n = 0;
    enum status status =
        database_read_integer(&store->database, select, 0, &n, "looking for an answered job", error);
    *is_finished = n > 0;
    return status;
}

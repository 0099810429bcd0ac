#include "store/finish.h"

#include "store/frames.h"
#include "store/hashed_jobs.h"

#include "schemas/base/clock.h"

#include <stdlib.h>

// ---- totals ----

struct dataset_total *totals_of(struct dataset_totals *totals, struct text dataset, struct error *error)
{
    for (size_t i = 0; i < totals->n_items; i++)
        if (text_equal(totals->items[i].dataset, dataset))
            return &totals->items[i];
    if (totals->n_items == totals->capacity) {
        size_t capacity = totals->capacity ? totals->capacity * 2 : 8;
        struct dataset_total *items = realloc(totals->items, capacity * sizeof *items);
        if (!items) {
            (void)error_memory(error, STATUS_RETRY, "dataset totals");
            return NULL;
        }
        totals->items = items;
        totals->capacity = capacity;
    }
    struct dataset_total *total = &totals->items[totals->n_items++];
    *total = (struct dataset_total){.dataset = dataset};
    return total;
}

enum status totals_add(struct dataset_totals *totals, const struct job *job, bool is_new,
                       int64_t finished_at_us, struct error *error)
{
    struct dataset_total *total = totals_of(totals, job->dataset, error);
    if (!total)
        return error->status;
    const struct result *result = &job->result;
    total->n_submitted += is_new;
    total->n_done += result->status == RESULT_DONE;
    total->n_failed += result->status == RESULT_FAILED;
    total->n_cancelled += result->status == RESULT_CANCELLED;
    total->prompt_tokens += result->prompt_tokens;
    total->completion_tokens += result->completion_tokens;
    total->cached_tokens += job->figures.cached_tokens;
    if (job->figures.is_duplicate && result->status == RESULT_DONE) {
        total->n_duplicates++;
        total->duplicate_prompt_tokens += result->prompt_tokens;
        total->duplicate_completion_tokens += result->completion_tokens;
    }
    if (!total->first_finished_at_us || finished_at_us < total->first_finished_at_us)
        total->first_finished_at_us = finished_at_us;
    if (finished_at_us > total->last_finished_at_us)
        total->last_finished_at_us = finished_at_us;
    return STATUS_OK;
}

// SET clauses that keep the earlier, or the later, of two times. Either time may be NULL.
#define EARLIER(column, parameter)                                                                           \
    column " = coalesce(min(" column ", " parameter "), " column ", " parameter ")"
#define LATER(column, parameter)                                                                             \
    column " = coalesce(max(" column ", " parameter "), " column ", " parameter ")"

enum status totals_write(struct store *store, struct dataset_totals *totals, struct error *error)
{
    for (size_t i = 0; i < totals->n_items; i++) {
        const struct dataset_total *total = &totals->items[i];
        sqlite3_stmt *upsert = database_statement(
            &store->database,
            "INSERT INTO datasets (dataset, n_submitted, n_done, n_failed, n_cancelled, prompt_tokens,"
            " completion_tokens, cached_tokens, submitted_at_us, first_finished_at_us, last_finished_at_us,"
            " n_duplicates, duplicate_prompt_tokens, duplicate_completion_tokens)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT (dataset)"
            " DO UPDATE SET n_submitted = n_submitted + ?2, n_done = n_done + ?3, n_failed = n_failed + ?4,"
            " n_cancelled = n_cancelled + ?5, prompt_tokens = prompt_tokens + ?6,"
            " completion_tokens = completion_tokens + ?7, cached_tokens = cached_tokens + ?8,"
            " n_duplicates = n_duplicates + ?12, duplicate_prompt_tokens = duplicate_prompt_tokens + ?13,"
            " duplicate_completion_tokens = duplicate_completion_tokens + ?14, " EARLIER(
                "submitted_at_us", "?9") ", " EARLIER("first_finished_at_us",
                                                      "?10") ", " LATER("last_finished_at_us", "?11"),
            error);
        if (!upsert)
            return error->status;
        bind_text(upsert, 1, total->dataset);
        BIND_INTEGERS(upsert, 2, total->n_submitted, total->n_done, total->n_failed, total->n_cancelled,
                      total->prompt_tokens, total->completion_tokens, total->cached_tokens);
        bind_nonzero(upsert, 9, total->submitted_at_us);
        bind_nonzero(upsert, 10, total->first_finished_at_us);
        bind_nonzero(upsert, 11, total->last_finished_at_us);
        BIND_INTEGERS(upsert, 12, total->n_duplicates, total->duplicate_prompt_tokens,
                      total->duplicate_completion_tokens);
        enum status status = database_run(&store->database, upsert, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

void totals_finish(struct dataset_totals *totals)
{
    free(totals->items);
    *totals = (struct dataset_totals){0};
}

// ---- a job's end ----

// True if every choice stopped below max_tokens. The finish reason "stop" at exactly max_tokens does not
// suffice: a constraint may have completed the text with the last token, and a larger limit would allow an
// end token, which counts too.
static bool ended_by_itself(const struct job *job)
{
    const struct result *result = &job->result;
    bool is_stop = result->status == RESULT_DONE && result->n_choices > 0;
    for (int32_t i = 0; is_stop && i < result->n_choices; i++)
        is_stop = result->choices[i].finish_reason == FINISH_STOP &&
                  result->choices[i].n_tokens < job->request.stop.max_tokens;
    return is_stop;
}

void bind_outcome(sqlite3_stmt *statement, int first, const struct store *store, const struct job *job,
                  int64_t now_us)
{
    const struct result *result = &job->result;
    const struct job_figures *figures = &job->figures;
    bind_text(statement, first, text_from_string(result_status_name(result->status)));
    if (result->error.code != ERROR_NONE) {
        bind_text(statement, first + 1, text_from_string(error_code_name(result->error.code)));
        bind_text(statement, first + 2, text_from_string(result->error.text));
    }
    if (result->n_choices > 0)
        bind_text(statement, first + 3,
                  text_from_string(finish_reason_name(result->choices[0].finish_reason)));
    BIND_INTEGERS(statement, first + 4, result->prompt_tokens, result->completion_tokens,
                  figures->cached_tokens, figures->queued_us, figures->prefill_us, figures->decode_us);
    bind_nonzero(statement, first + 10, store->worker);
    bind_integer(statement, first + 11, now_us);
    const char *constraint = job_constraint_name(job);
    if (constraint) {
        bind_text(statement, first + 12, text_from_string(constraint));
        bind_integer(statement, first + 13, figures->forced_tokens);
    }
    bind_integer(statement, first + 14, figures->is_duplicate);
    if (digest_is_set(&job->request_hash))
        bind_blob(statement, first + 15,
                  (struct text){(const char *)&job->request_hash, sizeof job->request_hash});
    if (figures->drafted_tokens)
        BIND_INTEGERS(statement, first + 16, figures->drafted_tokens, figures->accepted_tokens);
    if (digest_is_set(&job->open_hash) && ended_by_itself(job))
        bind_blob(statement, first + 18, (struct text){(const char *)&job->open_hash, sizeof job->open_hash});
    if (job->request.stop.max_tokens >= 0)
        bind_integer(statement, first + 19, job->request.stop.max_tokens);
    bind_nonzero(statement, first + 20, result->reasoning_tokens);
}

static enum status write_finished(struct store *store, int64_t id, const struct job *job, struct text record,
                                  int64_t now_us, struct error *error)
{
    struct database *database = &store->database;
    const struct frame_source source = {FRAME_OF_RESULTS, job->dataset};
    const struct whole_record whole = {record, {job->job_id, job->custom_id}};
    struct stored_record stored;
    enum status status = frames_shrink(store, &source, &whole, 1, &stored, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *insert =
        database_statement(database, "INSERT INTO stored_results (job, record, frame) VALUES (?, ?, ?)",
                           error);
    sqlite3_stmt *update =
        insert ? database_statement(
                     database,
                     "UPDATE jobs SET status = ?, error_code = ?, error = ?, finish_reason = ?,"
                     " prompt_tokens = ?, completion_tokens = ?, cached_tokens = ?, queued_us = ?,"
                     " prefill_us = ?, decode_us = ?, worker = coalesce(?, worker), finished_at_us = ?,"
                     " constrained_by = ?, forced_tokens = ?, is_duplicate = ?, request_hash = ?,"
                     " drafted_tokens = ?, accepted_tokens = ?, open_hash = ?, max_tokens = ?,"
                     " reasoning_tokens = ? WHERE id = ?",
                     error)
               : NULL;
    if (!update)
        return error->status;
    bind_integer(insert, 1, id);
    bind_blob(insert, 2, stored.bytes);
    bind_nonzero(insert, 3, stored.frame);
    status = database_run(database, insert, error);
    if (status != STATUS_OK)
        return status;
    bind_outcome(update, 1, store, job, now_us);
    bind_integer(update, 22, id);
    return database_run(database, update, error);
}

// Removes the job from the queue. *held becomes false if this worker no longer held it.
static enum status take_from_queue(struct store *store, int64_t id, bool *held, struct error *error)
{
    sqlite3_stmt *delete =
        database_statement(&store->database, "DELETE FROM queue WHERE job = ? AND worker = ?", error);
    if (!delete)
        return error->status;
    BIND_INTEGERS(delete, 1, id, store->worker);
    enum status status = database_run(&store->database, delete, error);
    *held = status == STATUS_OK && sqlite3_changes(store->database.sqlite) == 1;
    return status;
}

// Removes all jobs with one statement. *n_held becomes the number of jobs that this worker held; other
// workers may have taken some.
static enum status take_all_from_queue(struct store *store, const struct finished_job *jobs, size_t n,
                                       size_t *n_held, struct error *error)
{
    struct buffer ids = {0};
    sqlite3_stmt *delete =
        database_statement(&store->database,
                           "DELETE FROM queue WHERE worker = ? AND job IN (SELECT value FROM json_each(?))",
                           error);
    *n_held = 0;
    if (!delete)
        return error->status;
    for (size_t i = 0; i < n; i++) {
        buffer_add_byte(&ids, i ? ',' : '[');
        buffer_add_integer(&ids, jobs[i].job->source.offset);
    }
    buffer_add_byte(&ids, ']');
    bind_integer(delete, 1, store->worker);
    bind_text(delete, 2, (struct text){ids.data, ids.size});
    enum status status = ids.failed ? error_memory(error, STATUS_RETRY, "writing results")
                                    : database_run(&store->database, delete, error);
    buffer_finish(&ids);
    *n_held = status == STATUS_OK ? (size_t)sqlite3_changes(store->database.sqlite) : 0;
    return status;
}

// Begins the transaction and removes the jobs from the queue. committed: [n], true for jobs that this worker
// held.
static enum status begin_finish(struct store *store, const struct finished_job *jobs, size_t n,
                                bool *committed, struct error *error)
{
    size_t n_held = 0;
    enum status status = database_begin(&store->database, error);
    if (status == STATUS_OK && n)
        status = take_all_from_queue(store, jobs, n, &n_held, error);
    if (status != STATUS_OK)
        return database_end(&store->database, status, error);
    for (size_t i = 0; i < n; i++)
        committed[i] = true;
    if (n_held == n)
        return STATUS_OK;
    status = database_end(&store->database, STATUS_RETRY, error); // rolled back: unknown which jobs were held
    status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = take_from_queue(store, jobs[i].job->source.offset, &committed[i], error);
    return status == STATUS_OK ? STATUS_OK : database_end(&store->database, status, error);
}

enum status store_finish(struct store *store, const struct finished_job *jobs, size_t n, bool *committed,
                         struct error *error)
{
    enum status status = begin_finish(store, jobs, n, committed, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_totals totals = {0};
    int64_t now_us = clock_wall_us();
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        const struct job *job = jobs[i].job;
        if (committed[i])
            status = write_finished(store, job->source.offset, job, jobs[i].record, now_us, error);
        if (status == STATUS_OK && committed[i])
            status = totals_add(&totals, job, false, now_us, error);
    }
    if (status == STATUS_OK)
        status = totals_write(store, &totals, error);
    totals_finish(&totals);
    store->claiming.has_finished = true;
    return database_end(&store->database, status, error);
}

// ---- cancelling ----

// Creates a job whose record was never read. Its identity is from its row.
static struct job *cancelled_job(sqlite3_stmt *row, struct text dataset)
{
    struct job *job = job_create();
    if (!job)
        return NULL;
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CANCELLED, "cancelled on request");
    bool complete = job_set_text(job, &job->dataset, dataset) &&
                    job_set_text(job, &job->job_id, column_text(row, 1)) &&
                    job_set_text(job, &job->custom_id, column_text(row, 2));
    if (!complete) {
        job_destroy(job);
        return NULL;
    }
    job->index = sqlite3_column_type(row, 3) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 3);
    job_fail(job, &error);
    return job;
}

static enum status delete_queued(struct store *store, int64_t id, struct error *error)
{
    sqlite3_stmt *delete = database_statement(&store->database, "DELETE FROM queue WHERE job = ?", error);
    if (!delete)
        return error->status;
    bind_integer(delete, 1, id);
    return database_run(&store->database, delete, error);
}

static enum status find_queued(struct store *store, struct text dataset, struct text job_id, int64_t *id,
                               struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT id FROM jobs WHERE dataset = ? AND job_id = ? AND status = 'queued'",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    bind_text(select, 2, job_id);
    return database_read_integer(&store->database, select, 0, id, "looking for a queued job", error);
}

enum status store_take_results(struct store *store, struct text dataset, const struct finished_job *jobs,
                               size_t n, const struct job_set *rows, int64_t *n_taken, struct error *error)
{
    *n_taken = 0;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_totals totals = {0};
    int64_t now_us = clock_wall_us();
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        int64_t id = 0;
        status = find_queued(store, dataset, jobs[i].job->job_id, &id, error);
        if (status != STATUS_OK || !id)
            continue;
        status = write_finished(store, id, jobs[i].job, jobs[i].record, now_us, error);
        if (status == STATUS_OK)
            status = delete_queued(store, id, error);
        if (status == STATUS_OK)
            status = totals_add(&totals, jobs[i].job, false, now_us, error);
        *n_taken += status == STATUS_OK && job_set_has(rows, id);
    }
    if (status == STATUS_OK)
        status = totals_write(store, &totals, error);
    totals_finish(&totals);
    return database_end(&store->database, status, error);
}

static enum status cancel_row(struct store *store, sqlite3_stmt *row, struct text dataset, int64_t now_us,
                              struct dataset_totals *totals, struct error *error)
{
    struct job *job = cancelled_job(row, dataset);
    if (!job)
        return error_memory(error, STATUS_RETRY, "cancelling a job");
    struct buffer record = {0};
    result_encode(job, ENCODING_JSON, &record);
    enum status status = record.failed ? error_memory(error, STATUS_RETRY, "cancelling a job") : STATUS_OK;
    int64_t id = sqlite3_column_int64(row, 0);
    if (status == STATUS_OK)
        status = write_finished(store, id, job, (struct text){record.data, record.size}, now_us, error);
    if (status == STATUS_OK)
        status = delete_queued(store, id, error);
    job->dataset = dataset; // the totals refer to this text, which outlives the job
    if (status == STATUS_OK)
        status = totals_add(totals, job, false, now_us, error);
    buffer_finish(&record);
    job_destroy(job);
    return status;
}

static enum status cancel_free_jobs(struct store *store, struct text dataset, int64_t *n_cancelled,
                                    struct error *error)
{
    struct dataset_totals totals = {0};
    int64_t now_us = clock_wall_us(), last = 0;
    enum status status = STATUS_OK;
    for (bool more = true; more && status == STATUS_OK;) {
        sqlite3_stmt *select = database_statement(
            &store->database,
            "SELECT id, job_id, custom_id, job_index FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
            " WHERE queue.worker IS NULL AND dataset = ?1 AND queue.job > ?2 ORDER BY queue.job LIMIT 1",
            error);
        if (!select) {
            status = error->status;
            break;
        }
        bind_text(select, 1, dataset);
        bind_integer(select, 2, last);
        int code = sqlite3_step(select);
        more = code == SQLITE_ROW;
        if (more) {
            last = sqlite3_column_int64(select, 0);
            status = cancel_row(store, select, dataset, now_us, &totals, error);
            *n_cancelled += status == STATUS_OK;
        } else if (code != SQLITE_DONE) {
            status = database_error(&store->database, "cancelling jobs", error);
        }
        sqlite3_reset(select);
    }
    if (status == STATUS_OK)
        status = totals_write(store, &totals, error);
    totals_finish(&totals);
    return status;
}

enum status finish_cancelled_datasets(struct store *store, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT dataset FROM datasets WHERE cancelled_at_us IS NOT NULL",
                           error);
    if (!select)
        return error->status;
    enum status status = STATUS_OK;
    int64_t n_cancelled = 0;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW)
        status = cancel_free_jobs(store, column_text(select, 0), &n_cancelled, error);
    sqlite3_reset(select);
    return status != STATUS_OK || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "looking for cancelled datasets", error);
}

static enum status dataset_exists(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT 1 FROM datasets WHERE dataset = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    sqlite3_reset(select);
    if (code == SQLITE_ROW)
        return STATUS_OK;
    if (code != SQLITE_DONE)
        return database_error(&store->database, "looking for a dataset", error);
    return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %.*s", store->database.path,
                     (int)dataset.size, dataset.data);
}

// Marks the dataset as cancelled, unless it was submitted completely and has no unfinished jobs: then it
// stays open for more jobs. If only a part of its file was submitted, the rest is cancelled.
static enum status mark_cancelled(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE datasets SET cancelled_at_us = coalesce(cancelled_at_us, ?) WHERE dataset = ?"
        " AND NOT (complete AND n_submitted = n_done + n_failed + n_cancelled)",
        error);
    if (!update)
        return error->status;
    bind_integer(update, 1, clock_wall_us());
    bind_text(update, 2, dataset);
    return database_run(&store->database, update, error);
}

enum status store_cancel(struct store *store, struct text dataset, int64_t *n_cancelled, struct error *error)
{
    *n_cancelled = 0;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = dataset_exists(store, dataset, error);
    if (status == STATUS_OK)
        status = mark_cancelled(store, dataset, error);
    if (status == STATUS_OK)
        status = cancel_free_jobs(store, dataset, n_cancelled, error);
    return database_end(&store->database, status, error);
}

// PRAGMA data_version changes when another connection has written. Testing it is cheap, and avoids the query
// if nothing has changed.
enum status store_poll_cancelled(struct store *store, void (*cancelled)(void *context, struct text dataset),
                                 void *context, struct error *error)
{
    sqlite3_stmt *version = database_statement(&store->database, "PRAGMA data_version", error);
    if (!version)
        return error->status;
    int code = sqlite3_step(version);
    int64_t now_version = code == SQLITE_ROW ? sqlite3_column_int64(version, 0) : 0;
    sqlite3_reset(version);
    if (code != SQLITE_ROW)
        return database_error(&store->database, "looking for changes", error);
    if (now_version == store->data_version)
        return STATUS_OK;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT dataset, cancelled_at_us FROM datasets WHERE cancelled_at_us > ? ORDER BY cancelled_at_us",
        error);
    if (!select)
        return error->status;
    bind_integer(select, 1, store->cancelled_seen_at_us);
    int64_t seen_at_us = store->cancelled_seen_at_us;
    while ((code = sqlite3_step(select)) == SQLITE_ROW) {
        seen_at_us = sqlite3_column_int64(select, 1);
        cancelled(context, column_text(select, 0));
    }
    sqlite3_reset(select);
    if (code != SQLITE_DONE)
        return database_error(&store->database, "looking for cancelled datasets", error);
    store->cancelled_seen_at_us = seen_at_us;
    store->data_version = now_version;
    return STATUS_OK;
}

// Operations on whole datasets: list, reopen, rename, delete.
#include "store/dataset.h"

#include "store/dataset_name.h"
#include "store/outputs.h"
#include "store/removal.h"
#include "store/workers.h"

#include <assert.h>
#include <stdio.h>

// ---- facts of a dataset ----

struct dataset_facts {
    bool found, compacted, on_kafka;
    int64_t n_running; // jobs that other living workers hold
};

static enum status read_flag(struct store *store, const char *sql, struct text dataset, int64_t *value,
                             bool *found, struct error *error)
{
    sqlite3_stmt *select = database_statement(&store->database, sql, error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = sqlite3_step(select);
    *found = code == SQLITE_ROW;
    *value = *found ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "reading a dataset", error);
}

// Counts the jobs that other living workers hold.
static enum status count_running(struct store *store, struct text dataset, int64_t *n, struct error *error)
{
    enum status status = workers_open_locks(store, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT queue.worker, count(*) FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
                           " WHERE queue.worker IS NOT NULL AND jobs.dataset = ? GROUP BY queue.worker",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        int64_t worker = sqlite3_column_int64(select, 0);
        bool alive;
        status = worker_is_alive(store, worker, &alive, error);
        if (worker != store->worker && alive)
            *n += sqlite3_column_int64(select, 1);
    }
    sqlite3_reset(select);
    return status != STATUS_OK || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "counting running jobs", error);
}

static enum status read_facts(struct store *store, struct text dataset, struct dataset_facts *facts,
                              struct error *error)
{
    int64_t compacted = 0, on_kafka = 0;
    bool any;
    *facts = (struct dataset_facts){0};
    enum status status =
        read_flag(store, "SELECT compacted_at_us IS NOT NULL FROM datasets WHERE dataset = ?", dataset,
                  &compacted, &facts->found, error);
    if (status == STATUS_OK && !facts->found)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %.*s",
                         store->database.path, (int)dataset.size, dataset.data);
    if (status == STATUS_OK)
        status = read_flag(store, "SELECT topic IS NOT NULL FROM jobs WHERE dataset = ? LIMIT 1", dataset,
                           &on_kafka, &any, error);
    if (status == STATUS_OK)
        status = count_running(store, dataset, &facts->n_running, error);
    facts->compacted = compacted;
    facts->on_kafka = on_kafka;
    return status;
}

static enum status refuse_dataset(const struct store *store, struct text dataset, const char *why,
                                  struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: dataset %.*s %s", store->database.path,
                     (int)dataset.size, dataset.data, why);
}

static enum status refuse_running(const struct store *store, struct text dataset, int64_t n_running,
                                  const char *advice, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_STORE,
                     "%s: dataset %.*s: workers compute %lld of its jobs: %s", store->database.path,
                     (int)dataset.size, dataset.data, (long long)n_running, advice);
}

// Runs statements with the parameters ?1, the dataset, and ?2, `value`.
static enum status run_all(struct store *store, const char *const *statements, size_t n, struct text dataset,
                           int64_t value, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        sqlite3_stmt *statement = database_statement(&store->database, statements[i], error);
        if (!statement)
            return error->status;
        bind_text(statement, 1, dataset);
        if (sqlite3_bind_parameter_count(statement) > 1)
            bind_integer(statement, 2, value);
        status = database_run(&store->database, statement, error);
    }
    return status;
}

// ---- queueing again ----

#define CHOSEN                                                                                               \
    "dataset = ?1 AND (status = 'failed' AND ?2 & 1 OR status = 'cancelled' AND ?2 & 2"                      \
    " OR status = 'done' AND ?2 & 4)"

// Before answers are deleted to be computed again, a duplicate in another dataset takes their place as the
// original.
static enum status promote_copies(struct store *store, struct text dataset, struct error *error)
{
    enum status status = removal_begin(store, error);
    if (status == STATUS_OK)
        status = removal_add_dataset(store, dataset, error);
    return status == STATUS_OK ? removal_promote(store, error) : status;
}

enum status dataset_reopen(struct store *store, struct text dataset, int which, int64_t *n_reopened,
                           struct error *error)
{
    static const char *const statements[] = {
        "INSERT INTO queue (job, priority, deadline_us, dataset_number) SELECT id, priority,"
        " coalesce(deadline_us, 9223372036854775807), coalesce((SELECT number FROM datasets WHERE dataset = ?1), 0)"
        " FROM jobs WHERE " CHOSEN,
        "DELETE FROM stored_results WHERE job IN (SELECT id FROM jobs WHERE " CHOSEN ")",
        "UPDATE datasets SET cancelled_at_us = iif(?2 & 2, NULL, cancelled_at_us), collected_at_us = NULL,"
        " n_failed = n_failed - (SELECT count(*) FROM jobs WHERE dataset = ?1 AND status = 'failed'"
        " AND ?2 & 1), n_cancelled = n_cancelled - (SELECT count(*) FROM jobs WHERE dataset = ?1"
        " AND status = 'cancelled' AND ?2 & 2), n_done = n_done - (SELECT count(*) FROM jobs"
        " WHERE dataset = ?1 AND status = 'done' AND ?2 & 4),"
        " prompt_tokens = prompt_tokens - (SELECT coalesce(sum(prompt_tokens), 0) FROM jobs WHERE " CHOSEN
        "),"
        " completion_tokens = completion_tokens - (SELECT coalesce(sum(completion_tokens), 0)"
        " FROM jobs WHERE " CHOSEN
        "), cached_tokens = cached_tokens - (SELECT coalesce(sum(cached_tokens), 0) FROM jobs WHERE " CHOSEN
        "),"
        " n_duplicates = n_duplicates - (SELECT count(*) FROM jobs WHERE is_duplicate AND " CHOSEN "),"
        " duplicate_prompt_tokens = duplicate_prompt_tokens -"
        " (SELECT coalesce(sum(prompt_tokens), 0) FROM jobs WHERE is_duplicate AND " CHOSEN "),"
        " duplicate_completion_tokens = duplicate_completion_tokens -"
        " (SELECT coalesce(sum(completion_tokens), 0) FROM jobs WHERE is_duplicate AND " CHOSEN ")"
        " WHERE dataset = ?1",
        "UPDATE jobs SET status = 'queued', error_code = NULL, error = NULL, finish_reason = NULL,"
        " prompt_tokens = NULL, completion_tokens = NULL, cached_tokens = NULL, queued_us = NULL,"
        " prefill_us = NULL, decode_us = NULL, worker = NULL, finished_at_us = NULL, constrained_by = NULL,"
        " forced_tokens = NULL, drafted_tokens = NULL, accepted_tokens = NULL, is_duplicate = 0,"
        " request_hash = NULL, open_hash = NULL, max_tokens = NULL,"
        " reasoning_tokens = NULL WHERE " CHOSEN};
    struct dataset_facts facts;
    *n_reopened = 0;
    enum status status = read_facts(store, dataset, &facts, error);
    if (status != STATUS_OK)
        return status;
    if (facts.on_kafka)
        return refuse_dataset(store, dataset, "is on Kafka: submit its jobs again under another name", error);
    if (facts.compacted)
        return refuse_dataset(store, dataset, "is finished and old, its jobs were removed (--retain)", error);
    int64_t n_lost = 0;
    bool found;
    status = read_flag(store,
                       "SELECT count(*) FROM jobs WHERE dataset = ? AND finished_at_us IS NOT NULL"
                       " AND id NOT IN (SELECT job FROM stored_records)",
                       dataset, &n_lost, &found, error);
    if (status != STATUS_OK)
        return status;
    if (n_lost)
        return refuse_dataset(
            store, dataset,
            "has jobs that an older sheaf finished, which kept no records: submit it under another name",
            error);
    if (which & REOPEN_DONE)
        status = promote_copies(store, dataset, error);
    if (status == STATUS_OK)
        status = run_all(store, statements, sizeof statements / sizeof *statements, dataset, which, error);
    *n_reopened = status == STATUS_OK ? sqlite3_changes(store->database.sqlite) : 0;
    return status;
}

enum status store_dataset_reopen(struct store *store, struct text dataset, int which, int64_t *n_reopened,
                                 struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = dataset_reopen(store, dataset, which, n_reopened, error);
    return database_end(&store->database, status, error);
}

enum status store_retry_failed(struct store *store, struct text dataset, int64_t *n_reopened,
                               struct error *error)
{
    if (dataset.size)
        return store_dataset_reopen(store, dataset, REOPEN_FAILED, n_reopened, error);
    *n_reopened = 0;
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT dataset FROM datasets d WHERE n_failed > 0 AND compacted_at_us IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE jobs.dataset = d.dataset AND topic IS NOT NULL)"
        " ORDER BY submitted_at_us, dataset LIMIT 1",
        error);
    status = select ? STATUS_OK : error->status;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        char name[JOB_DATASET_BYTES_MAX + 1];
        struct text found = column_text(select, 0);
        int64_t n;
        snprintf(name, sizeof name, "%.*s", (int)found.size, found.data);
        sqlite3_reset(select);
        status = dataset_reopen(store, text_from_string(name), REOPEN_FAILED, &n, error);
        *n_reopened += status == STATUS_OK ? n : 0;
    }
    if (select)
        sqlite3_reset(select);
    if (status == STATUS_OK && code != SQLITE_DONE)
        status = database_error(&store->database, "looking for failed jobs", error);
    return database_end(&store->database, status, error);
}

// ---- deleting ----

static const char *const deletions[] = {
    "DELETE FROM dataset_hours WHERE dataset = ?", "DELETE FROM compacted_failures WHERE dataset = ?",
    "DELETE FROM evaluations WHERE dataset = ?",   "DELETE FROM table_labels WHERE dataset = ?",
    "DELETE FROM outputs WHERE dataset = ?",       "DELETE FROM frames WHERE dataset = ?",
    "DELETE FROM datasets WHERE dataset = ?",
};

// Deletes jobs. A worker may still be computing one of them.
static enum status delete_jobs(struct store *store, struct text dataset, struct error *error)
{
    char name[BEFORE_NAME_BYTES];
    enum status status = removal_begin(store, error);
    if (status == STATUS_OK)
        status = removal_add_dataset(store, dataset, error);
    if (status == STATUS_OK)
        status = removal_add_dataset(store, dataset_name_before(dataset, name), error);
    return status == STATUS_OK ? removal_delete(store, error) : status;
}

enum status store_dataset_delete(struct store *store, struct text dataset, bool force, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_facts facts;
    status = read_facts(store, dataset, &facts, error);
    if (status == STATUS_OK && facts.n_running && !force)
        status =
            refuse_running(store, dataset, facts.n_running, "stop them, or delete it with --force", error);
    if (status == STATUS_OK)
        status = delete_jobs(store, dataset, error);
    if (status == STATUS_OK)
        status = run_all(store, deletions, sizeof deletions / sizeof *deletions, dataset, 0, error);
    return database_end(&store->database, status, error);
}

// ---- renaming ----

static enum status move_name(struct store *store, struct text dataset, struct text name, struct error *error)
{
    static const char *const statements[] = {"UPDATE datasets SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE jobs SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE dataset_hours SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE compacted_failures SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE evaluations SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE table_labels SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE outputs SET dataset = ?2 WHERE dataset = ?1",
                                             "UPDATE frames SET dataset = ?2 WHERE dataset = ?1"};
    char before[BEFORE_NAME_BYTES], after[BEFORE_NAME_BYTES];
    const struct text names[][2] = {{dataset, name},
                                    {dataset_name_before(dataset, before), dataset_name_before(name, after)}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < 2 * (sizeof statements / sizeof *statements) && status == STATUS_OK; i++) {
        sqlite3_stmt *update = database_statement(&store->database, statements[i / 2], error);
        if (!update)
            return error->status;
        bind_text(update, 1, names[i % 2][0]);
        bind_text(update, 2, names[i % 2][1]);
        status = database_run(&store->database, update, error);
    }
    return status;
}

enum status store_dataset_rename(struct store *store, struct text dataset, struct text name,
                                 struct error *error)
{
    if (name.size == 0 || name.size > JOB_DATASET_BYTES_MAX || !utf8_valid(name.data, name.size))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "a dataset's name has 1 to %d bytes of UTF-8, got %zu", JOB_DATASET_BYTES_MAX,
                         name.size);
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_facts facts;
    int64_t unused;
    bool taken = false;
    status = read_facts(store, dataset, &facts, error);
    if (status == STATUS_OK)
        status = read_flag(store, "SELECT 1 FROM datasets WHERE dataset = ?", name, &unused, &taken, error);
    if (status == STATUS_OK && taken)
        status = refuse_dataset(store, name, "is there already", error);
    if (status == STATUS_OK && facts.on_kafka)
        status = refuse_dataset(store, dataset, "is on Kafka, whose records name it", error);
    if (status == STATUS_OK && facts.n_running)
        status = refuse_running(store, dataset, facts.n_running, "stop them first", error);
    if (status == STATUS_OK)
        status = move_name(store, dataset, name, error);
    return database_end(&store->database, status, error);
}

// ---- listing ----

const char *dataset_state_name(enum dataset_state state)
{
    static const char *const names[] = {[DATASET_WAITING] = "waiting",
                                        [DATASET_RUNNING] = "running",
                                        [DATASET_FINISHED] = "finished",
                                        [DATASET_CANCELLED] = "cancelled",
                                        [DATASET_COMPACTED] = "compacted"};
    assert(state >= DATASET_WAITING && state <= DATASET_COMPACTED);
    return names[state];
}

static enum dataset_state state_of(const struct dataset_row *row, bool cancelled, bool compacted)
{
    if (compacted)
        return DATASET_COMPACTED;
    if (cancelled)
        return DATASET_CANCELLED;
    if (row->submitted == row->done + row->failed + row->cancelled)
        return DATASET_FINISHED;
    return row->running ? DATASET_RUNNING : DATASET_WAITING;
}

enum status store_datasets(struct store *store, void (*receive)(void *context, const struct dataset_row *row),
                           void *context, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT d.dataset, coalesce(model, ''), coalesce(arithmetic, ''), n_submitted, n_done, n_failed,"
        " n_cancelled, coalesce(r.n, 0), coalesce(submitted_at_us, 0), coalesce(last_finished_at_us, 0),"
        " cancelled_at_us IS NOT NULL, compacted_at_us IS NOT NULL FROM datasets d"
        " LEFT JOIN (SELECT jobs.dataset, count(*) AS n FROM queue CROSS JOIN jobs ON"
        " jobs.id = queue.job WHERE queue.worker IS NOT NULL GROUP BY 1) r USING (dataset)"
        " ORDER BY submitted_at_us, dataset",
        error);
    if (!select)
        return error->status;
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW) {
        struct dataset_row row = {.dataset = column_text(select, 0),
                                  .model = column_text(select, 1),
                                  .arithmetic = column_text(select, 2),
                                  .submitted = sqlite3_column_int64(select, 3),
                                  .done = sqlite3_column_int64(select, 4),
                                  .failed = sqlite3_column_int64(select, 5),
                                  .cancelled = sqlite3_column_int64(select, 6),
                                  .running = sqlite3_column_int64(select, 7),
                                  .submitted_at_us = sqlite3_column_int64(select, 8),
                                  .last_finished_at_us = sqlite3_column_int64(select, 9)};
        row.state = state_of(&row, sqlite3_column_int(select, 10), sqlite3_column_int(select, 11));
        receive(context, &row);
    }
    sqlite3_reset(select);
    return code == SQLITE_DONE ? STATUS_OK : database_error(&store->database, "listing datasets", error);
}

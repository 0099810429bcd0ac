// Writes of a mirror: stores the contents of the topics as the rows that workers would write.
#include "schemas/base/clock.h"
#include "store/dataset_name.h"
#include "store/projection.h"

// State of one transaction.
struct mirroring {
    struct store *store;
    struct dataset_totals totals;
    struct dataset_names names;
};

static enum status add_submitted(struct mirroring *mirroring, const struct mirrored_job *job,
                                 struct error *error)
{
    struct store *store = mirroring->store;
    struct text dataset;
    enum status status = dataset_name_of(store, &mirroring->names, job->dataset, job->topic, &dataset, error);
    if (status != STATUS_OK)
        return status;
    sqlite3_stmt *insert =
        database_statement(&store->database,
                           "INSERT INTO jobs (dataset, job_id, custom_id, job_index, status,"
                           " submitted_at_us, topic, partition, offset) VALUES (?, ?, ?, ?,"
                           " 'queued', ?, ?, ?, ?) ON CONFLICT (dataset, job_id) DO NOTHING",
                           error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, dataset);
    bind_text(insert, 2, job->job_id);
    bind_text(insert, 3, job->custom_id);
    if (job->index >= 0)
        bind_integer(insert, 4, job->index);
    bind_nonzero(insert, 5, job->submitted_at_us);
    bind_text(insert, 6, job->topic);
    BIND_INTEGERS(insert, 7, job->partition, job->offset);
    status = database_run(&store->database, insert, error);
    if (status != STATUS_OK)
        return status;
    bool is_new = sqlite3_changes(store->database.sqlite) == 1;
    struct dataset_total *total = totals_of(&mirroring->totals, dataset, error);
    if (!total)
        return error->status;
    total->n_submitted += is_new;
    if (job->submitted_at_us && (!total->submitted_at_us || job->submitted_at_us < total->submitted_at_us))
        total->submitted_at_us = job->submitted_at_us;
    return STATUS_OK;
}

static enum status add_to_fleet(struct store *store, const struct mirrored_result *mirrored,
                                struct error *error)
{
    sqlite3_stmt *upsert = database_statement(
        &store->database,
        "INSERT INTO fleet (worker, first_finished_at_us, last_finished_at_us, n_done, n_failed,"
        " n_cancelled, prompt_tokens, completion_tokens, cached_tokens, compute_us)"
        " VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        " ON CONFLICT (worker) DO UPDATE SET first_finished_at_us = min(first_finished_at_us, ?2),"
        " last_finished_at_us = max(last_finished_at_us, ?2), n_done = n_done + ?3, n_failed = n_failed + ?4,"
        " n_cancelled = n_cancelled + ?5, prompt_tokens = prompt_tokens + ?6,"
        " completion_tokens = completion_tokens + ?7,"
        " cached_tokens = cached_tokens + ?8, compute_us = compute_us + ?9",
        error);
    if (!upsert)
        return error->status;
    const struct result *result = &mirrored->job->result;
    const struct job_figures *figures = &mirrored->job->figures;
    bind_text(upsert, 1, mirrored->worker);
    BIND_INTEGERS(upsert, 2, mirrored->finished_at_us, result->status == RESULT_DONE,
                  result->status == RESULT_FAILED, result->status == RESULT_CANCELLED, result->prompt_tokens,
                  result->completion_tokens, figures->cached_tokens,
                  figures->prefill_us + figures->decode_us);
    return database_run(&store->database, upsert, error);
}

static enum status add_result(struct mirroring *mirroring, const struct mirrored_result *mirrored,
                              struct error *error)
{
    struct store *store = mirroring->store;
    struct job job = *mirrored->job; // shares its pointers with the original
    enum status status = dataset_name_of(store, &mirroring->names, mirrored->job->dataset, job.source.topic,
                                         &job.dataset, error);
    if (status != STATUS_OK)
        return status;
    struct published_job published = {&job, mirrored->worker, mirrored->finished_at_us};
    status = projection_add_job(store, &published, &mirroring->totals, error);
    bool counts = mirrored->worker.size > 0 && !mirrored->is_of_other_group;
    return status == STATUS_OK && counts ? add_to_fleet(store, mirrored, error) : status;
}

static enum status set_mirrored(struct store *store, struct text topic, int64_t partition, int64_t value,
                                struct error *error)
{
    sqlite3_stmt *upsert =
        database_statement(&store->database,
                           "INSERT INTO mirrored (topic, partition, next_offset) VALUES (?1, ?2, ?3)"
                           " ON CONFLICT (topic, partition) DO UPDATE SET next_offset = ?3",
                           error);
    if (!upsert)
        return error->status;
    bind_text(upsert, 1, topic);
    BIND_INTEGERS(upsert, 2, partition, value);
    return database_run(&store->database, upsert, error);
}

// Returns the row that holds the offset and hash of a partition's last record: a row of the table `mirrored`
// with a negative partition.
static int64_t row_of_last_offset(int32_t partition)
{
    return -2 - 2 * (int64_t)partition;
}

static int64_t row_of_last_hash(int32_t partition)
{
    return -3 - 2 * (int64_t)partition;
}

static enum status set_position(struct store *store, const struct mirrored_position *position,
                                struct error *error)
{
    enum status status = set_mirrored(store, position->topic, position->partition, position->next, error);
    if (status == STATUS_OK && position->last.exists)
        status = set_mirrored(store, position->topic, row_of_last_offset(position->partition),
                              position->last.offset, error);
    if (status == STATUS_OK && position->last.exists)
        status = set_mirrored(store, position->topic, row_of_last_hash(position->partition),
                              position->last.hash, error);
    return status;
}

// Increments and returns the token, the number of processes that have begun to mirror into the store. It is
// stored in table `mirrored`, in a row without topic and with partition -1.
static enum status take_token(struct store *store, int64_t *token, struct error *error)
{
    sqlite3_stmt *next = database_statement(
        &store->database,
        "INSERT INTO mirrored (topic, partition, next_offset) VALUES ('', -1, 1)"
        " ON CONFLICT (topic, partition) DO UPDATE SET next_offset = next_offset + 1 RETURNING next_offset",
        error);
    if (!next)
        return error->status;
    return database_read_integer(&store->database, next, 0, token, "beginning to mirror", error);
}

// Called within each transaction that writes. Refuses if another process has begun to mirror since: that
// process took a newer token.
static enum status check_token(struct store *store, struct error *error)
{
    if (!store->mirror_token)
        return STATUS_OK;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT next_offset FROM mirrored WHERE partition = -1", error);
    if (!select)
        return error->status;
    int64_t token = 0;
    enum status status = database_read_integer(&store->database, select, 0, &token,
                                               "reading which process mirrors into the store", error);
    if (status != STATUS_OK || token == store->mirror_token)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_STORE,
                     "%s: another process began to mirror into it (sheaf mirror, or sheaf status --rebuild): "
                     "this one ends",
                     store->database.path);
}

enum status store_mirror(struct store *store, const struct mirror_record *record, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct mirroring mirroring = {.store = store};
    status = check_token(store, error);
    for (size_t i = 0; status == STATUS_OK && i < record->n_jobs; i++)
        status = add_submitted(&mirroring, &record->jobs[i], error);
    for (size_t i = 0; status == STATUS_OK && i < record->n_results; i++)
        status = add_result(&mirroring, &record->results[i], error);
    if (status == STATUS_OK)
        status = totals_write(store, &mirroring.totals, error);
    for (size_t i = 0; status == STATUS_OK && i < record->n_positions; i++)
        status = set_position(store, &record->positions[i], error);
    int64_t now_us = clock_wall_us();
    for (size_t i = 0; status == STATUS_OK && i < record->n_partitions; i++)
        status = projection_set_partition(store, &record->partitions[i], now_us, error);
    totals_finish(&mirroring.totals);
    dataset_names_finish(&mirroring.names);
    return database_end(&store->database, status, error);
}

// Refuses a store that mirrors another jobs topic: datasets with the same name would be mixed.
static enum status check_topics(struct store *store, struct text jobs, struct text results,
                                struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT min(topic) FROM mirrored WHERE partition >= 0 AND topic NOT IN"
                           " (?, ?)",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, jobs);
    bind_text(select, 2, results);
    int code = sqlite3_step(select);
    enum status status = STATUS_OK;
    if (code == SQLITE_ROW && sqlite3_column_type(select, 0) != SQLITE_NULL) {
        struct text other = column_text(select, 0);
        status = error_set(
            error, STATUS_REFUSE, ERROR_STORE,
            "%s: mirrors topic %.*s, not only %.*s and %.*s: mirror these into another store, or build this"
            " one again (sheaf status --rebuild)",
            store->database.path, (int)other.size, other.data, (int)jobs.size, jobs.data, (int)results.size,
            results.data);
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW ? status
                              : database_error(&store->database, "reading which topics were mirrored", error);
}

enum status store_mirror_start(struct store *store, struct text jobs, struct text results,
                               struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    int64_t token = 0;
    status = check_topics(store, jobs, results, error);
    if (status == STATUS_OK)
        status = take_token(store, &token, error);
    status = database_end(&store->database, status, error);
    if (status == STATUS_OK)
        store->mirror_token = token;
    return status;
}

static enum status read_mirrored(struct store *store, struct text topic, int64_t partition, int64_t *value,
                                 struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT next_offset FROM mirrored WHERE topic = ? AND partition = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, topic);
    bind_integer(select, 2, partition);
    return database_read_integer(&store->database, select, -1, value,
                                 "reading how far the topics were mirrored", error);
}

enum status store_mirror_position(struct store *store, struct text topic, int32_t partition, int64_t *next,
                                  struct error *error)
{
    return read_mirrored(store, topic, partition, next, error);
}

enum status store_mirror_last(struct store *store, struct text topic, int32_t partition,
                              struct mirrored_last *last, struct error *error)
{
    *last = (struct mirrored_last){0};
    enum status status = read_mirrored(store, topic, row_of_last_offset(partition), &last->offset, error);
    if (status == STATUS_OK)
        status = read_mirrored(store, topic, row_of_last_hash(partition), &last->hash, error);
    last->exists = status == STATUS_OK && last->offset >= 0 && last->hash >= 0;
    return status;
}

enum status store_mirror_reset(struct store *store, struct error *error)
{
    static const char *const steps[] = {
        "DELETE FROM stored_results WHERE job IN (SELECT id FROM jobs WHERE topic IS NOT NULL)",
        "DELETE FROM jobs WHERE topic IS NOT NULL",
        "DELETE FROM partitions",
        "DELETE FROM mirrored WHERE partition <> -1",
        "UPDATE mirrored SET next_offset = next_offset + 1", // changes the token, which ends a running mirror
        "DELETE FROM fleet",
        "DELETE FROM datasets WHERE NOT complete AND dataset NOT IN (SELECT dataset FROM jobs)",
        "DELETE FROM dataset_hours WHERE dataset NOT IN (SELECT dataset FROM datasets)",
        "DELETE FROM compacted_failures WHERE dataset NOT IN (SELECT dataset FROM datasets)",
        "UPDATE datasets SET (n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens, "
        "cached_tokens, first_finished_at_us, last_finished_at_us, n_duplicates, duplicate_prompt_tokens, "
        "duplicate_completion_tokens) = (SELECT count(*), total(status = 'done'), total(status = 'failed'), "
        "total(status = 'cancelled'), total(prompt_tokens), total(completion_tokens), total(cached_tokens), "
        "min(finished_at_us), max(finished_at_us), total(is_duplicate AND status = 'done'), "
        "total(iif(is_duplicate AND status = 'done', prompt_tokens, 0)), total(iif(is_duplicate AND status = "
        "'done', completion_tokens, 0)) FROM jobs WHERE jobs.dataset = datasets.dataset) WHERE "
        "compacted_at_us IS NULL",
    };
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; status == STATUS_OK && i < sizeof steps / sizeof steps[0]; i++)
        status = database_execute(&store->database, steps[i], error);
    return database_end(&store->database, status, error);
}

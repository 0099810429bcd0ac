#include "store/projection.h"

static void bind_identity(sqlite3_stmt *statement, const struct published_job *published)
{
    const struct job *job = published->job;
    bind_text(statement, 1, job->dataset);
    bind_text(statement, 2, job->job_id);
    bind_text(statement, 3, job->custom_id);
    if (job->index >= 0)
        sqlite3_bind_int64(statement, 4, job->index);
    sqlite3_bind_int(statement, 5, job->figures.attempts);
    if (job->created)
        sqlite3_bind_int64(statement, 6, job->created * 1000000);
    bind_text(statement, 7, job->source.topic);
    sqlite3_bind_int(statement, 8, job->source.partition);
    sqlite3_bind_int64(statement, 9, job->source.offset);
    bind_text(statement, 10, published->made_by);
}

// A job that was mirrored before it ended has a row.
static enum status end_job(struct store *store, const struct published_job *published, struct dataset_totals *totals,
                           struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE jobs SET custom_id = ?3, position = ?4, attempts = ?5, submitted_at = coalesce(?6, submitted_at),"
        " topic = ?7, partition = ?8, offset = ?9, made_by = ?10, status = ?11, error_code = ?12, error = ?13,"
        " finish_reason = ?14, prompt_tokens = ?15, completion_tokens = ?16, cached_tokens = ?17, queued_us = ?18,"
        " prefill_us = ?19, decode_us = ?20, worker = ?21, finished_at = ?22"
        " WHERE dataset = ?1 AND job_id = ?2 AND status IN ('queued', 'running')",
        error);
    if (!update)
        return error->status;
    bind_identity(update, published);
    bind_outcome(update, 11, store, published->job, published->finished_at);
    enum status status = database_run(&store->database, update, error);
    if (status != STATUS_OK || sqlite3_changes(store->database.sqlite) == 0)
        return status;
    return totals_add(totals, published->job, false, published->finished_at, error);
}

enum status projection_add_job(struct store *store, const struct published_job *published, struct dataset_totals *totals,
                               struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO jobs (dataset, job_id, custom_id, position, attempts, submitted_at, topic, partition, offset,"
        " made_by, status, error_code, error, finish_reason, prompt_tokens, completion_tokens, cached_tokens, queued_us,"
        " prefill_us, decode_us, worker, finished_at, priority, deadline)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (dataset, job_id) DO NOTHING",
        error);
    if (!insert)
        return error->status;
    bind_identity(insert, published);
    bind_outcome(insert, 11, store, published->job, published->finished_at);
    sqlite3_bind_int(insert, 23, published->job->priority);
    if (published->job->deadline)
        sqlite3_bind_int64(insert, 24, published->job->deadline * 1000000);
    enum status status = database_run(&store->database, insert, error);
    if (status != STATUS_OK)
        return status;
    if (sqlite3_changes(store->database.sqlite) == 0)
        return end_job(store, published, totals, error);
    return totals_add(totals, published->job, true, published->finished_at, error);
}

enum status projection_set_partition(struct store *store, const struct partition_row *row, int64_t now,
                                     struct error *error)
{
    sqlite3_stmt *upsert = database_statement(
        &store->database,
        "INSERT INTO partitions (topic, partition, worker, owner, position, committed, log_end, in_flight, map_covered,"
        " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, partition) DO UPDATE SET"
        " worker = excluded.worker, owner = excluded.owner, position = excluded.position, committed = excluded.committed,"
        " log_end = excluded.log_end, in_flight = excluded.in_flight, map_covered = excluded.map_covered,"
        " updated_at = excluded.updated_at",
        error);
    if (!upsert)
        return error->status;
    bind_text(upsert, 1, row->topic);
    sqlite3_bind_int(upsert, 2, row->partition);
    if (store->worker)
        sqlite3_bind_int64(upsert, 3, store->worker);
    bind_text(upsert, 4, row->owner);
    const int64_t values[] = {row->position, row->committed, row->log_end, row->in_flight, row->map_covered, now};
    for (int i = 0; i < 6; i++)
        sqlite3_bind_int64(upsert, i + 5, values[i]);
    return database_run(&store->database, upsert, error);
}

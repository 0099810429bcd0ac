#include "store/removal.h"

#include "store/database.h"

enum status removal_begin(struct store *store, struct error *error)
{
    enum status status =
        database_execute(&store->database,
                         "CREATE TEMP TABLE IF NOT EXISTS removed_jobs (job INTEGER PRIMARY KEY)", error);
    return status == STATUS_OK ? database_execute(&store->database, "DELETE FROM temp.removed_jobs", error)
                               : status;
}

enum status removal_add(struct store *store, int64_t id, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database, "INSERT OR IGNORE INTO temp.removed_jobs (job) VALUES (?)",
                           error);
    if (!insert)
        return error->status;
    bind_integer(insert, 1, id);
    return database_run(&store->database, insert, error);
}

enum status removal_add_dataset(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database,
                           "INSERT OR IGNORE INTO temp.removed_jobs SELECT id FROM jobs WHERE dataset = ?",
                           error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, dataset);
    return database_run(&store->database, insert, error);
}

static enum status run_all(struct store *store, const char *const *statements, size_t n, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = database_execute(&store->database, statements[i], error);
    return status;
}

// Promotes one duplicate for each removed original and arithmetic. The duplicate's request hash or open hash
// equals the original's. If several duplicates differ in max_tokens, the one with the smallest is promoted,
// because its answer serves the most requests.
enum status removal_promote(struct store *store, struct error *error)
{
#define ORIGINALS                                                                                            \
    "FROM temp.removed_jobs JOIN jobs ON jobs.id = removed_jobs.job WHERE status = 'done'"                   \
    " AND is_duplicate = 0 AND "
// The fixed join order makes SQLite use the indexes jobs_copies and jobs_open_copies.
#define COPY                                                                                                 \
    "d.id AS id, d.dataset AS dataset, job AS original, coalesce(d.max_tokens, 0) AS tokens"                 \
    " FROM temp.removed_answers CROSS JOIN jobs d ON"
#define IS_COPY "d.is_duplicate = 1 AND d.status = 'done' AND d.id NOT IN (SELECT job FROM temp.removed_jobs)"
    static const char *const statements[] = {
        "CREATE TEMP TABLE IF NOT EXISTS removed_answers (hash BLOB PRIMARY KEY, job INTEGER) WITHOUT ROWID",
        "CREATE TEMP TABLE IF NOT EXISTS promoted (job INTEGER PRIMARY KEY, original INTEGER, max_tokens)",
        "DELETE FROM temp.removed_answers",
        "DELETE FROM temp.promoted",
        ("INSERT OR IGNORE INTO temp.removed_answers SELECT request_hash, id " ORIGINALS
         "request_hash IS NOT NULL"),
        "INSERT OR IGNORE INTO temp.removed_answers SELECT open_hash, id " ORIGINALS "open_hash IS NOT NULL",
        ("INSERT OR IGNORE INTO temp.promoted SELECT id, original, min(tokens) FROM ("
         "SELECT " COPY " d.request_hash = hash WHERE " IS_COPY " UNION ALL SELECT " COPY
         " d.open_hash = hash WHERE " IS_COPY ") LEFT JOIN datasets USING (dataset)"
         " GROUP BY original, datasets.arithmetic"),
        ("UPDATE datasets SET n_duplicates = n_duplicates - n, duplicate_prompt_tokens ="
         " duplicate_prompt_tokens - prompt, duplicate_completion_tokens ="
         " duplicate_completion_tokens - answer"
         " FROM (SELECT dataset AS name, count(*) AS n, total(prompt_tokens) AS prompt,"
         " total(completion_tokens) AS answer FROM jobs JOIN temp.promoted ON job = id GROUP BY 1)"
         " WHERE dataset = name"),
        ("UPDATE jobs SET (is_duplicate, worker, queued_us, prefill_us, decode_us, forced_tokens,"
         " drafted_tokens, accepted_tokens) = (SELECT 0, o.worker, o.queued_us, o.prefill_us, o.decode_us,"
         " o.forced_tokens, o.drafted_tokens, o.accepted_tokens FROM temp.promoted p JOIN jobs o ON"
         " o.id = p.original WHERE p.job = jobs.id) WHERE id IN (SELECT job FROM temp.promoted)")};
#undef ORIGINALS
#undef COPY
#undef IS_COPY
    return run_all(store, statements, sizeof statements / sizeof *statements, error);
}

enum status removal_recount(struct store *store, struct text dataset, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE datasets SET collected_at_us = NULL, (n_submitted, n_done, n_failed, n_cancelled,"
        " prompt_tokens, completion_tokens, cached_tokens, n_duplicates, duplicate_prompt_tokens,"
        " duplicate_completion_tokens) = (SELECT count(*), count(*) FILTER (WHERE status = 'done'),"
        " count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'cancelled'),"
        " coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),"
        " coalesce(sum(cached_tokens), 0), count(*) FILTER (WHERE is_duplicate AND status = 'done'),"
        " coalesce(sum(iif(is_duplicate AND status = 'done', prompt_tokens, 0)), 0),"
        " coalesce(sum(iif(is_duplicate AND status = 'done', completion_tokens, 0)), 0)"
        " FROM jobs WHERE dataset = ?1) WHERE dataset = ?1",
        error);
    if (!update)
        return error->status;
    bind_text(update, 1, dataset);
    return database_run(&store->database, update, error);
}

enum status removal_delete(struct store *store, struct error *error)
{
    static const char *const statements[] = {
        ("INSERT INTO deleted_jobs (id, last) SELECT 1, max(job) FROM temp.removed_jobs"
         " HAVING max(job) IS NOT NULL ON CONFLICT (id) DO UPDATE SET last = max(last, excluded.last)"),
        "DELETE FROM queue WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM stored_records WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM stored_results WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM jobs WHERE id IN (SELECT job FROM temp.removed_jobs)"};
    enum status status = removal_promote(store, error);
    return status == STATUS_OK ? run_all(store, statements, sizeof statements / sizeof *statements, error)
                               : status;
}

enum status removal_end(struct store *store, struct text dataset, struct error *error)
{
    enum status status = removal_delete(store, error);
    return status == STATUS_OK ? removal_recount(store, dataset, error) : status;
}

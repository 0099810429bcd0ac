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

enum status removal_end(struct store *store, struct text dataset, struct error *error)
{
    static const char *const statements[] = {
        ("INSERT INTO deleted_jobs (id, last) SELECT 1, max(job) FROM temp.removed_jobs"
         " HAVING max(job) IS NOT NULL ON CONFLICT (id) DO UPDATE SET last = max(last, excluded.last)"),
        "DELETE FROM queue WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM records WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM results WHERE job IN (SELECT job FROM temp.removed_jobs)",
        "DELETE FROM jobs WHERE id IN (SELECT job FROM temp.removed_jobs)"};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof statements / sizeof *statements && status == STATUS_OK; i++)
        status = database_execute(&store->database, statements[i], error);
    return status == STATUS_OK ? removal_recount(store, dataset, error) : status;
}

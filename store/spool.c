#include "store/spool.h"

#include "store/database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spool {
    struct database database;
    int64_t n_repeated;
};

static const char schema[] = "CREATE TABLE jobs (job_id TEXT PRIMARY KEY, finished INTEGER NOT NULL,"
                             " round INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
                             "CREATE TABLE results (arrival INTEGER PRIMARY KEY, job_id TEXT NOT NULL UNIQUE,"
                             " position INTEGER NOT NULL, round INTEGER NOT NULL, record BLOB NOT NULL)"
                             " STRICT;"
                             "CREATE INDEX results_order ON results (position, arrival);";

static enum status prepare_tables(struct database *database, int cache_kib, struct error *error)
{
    // With an empty name SQLite creates a temporary file and unlinks it at once. It needs no journal, because
    // the file is never read after a crash.
    if (sqlite3_open_v2("", &database->sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return database_error(database, "opening", error);
    char cache[48];
    snprintf(cache, sizeof cache, "PRAGMA cache_size = -%d", cache_kib);
    const char *const steps[] = {"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", cache, schema,
                                 "BEGIN"};
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < sizeof steps / sizeof steps[0]; i++)
        status = database_execute(database, steps[i], error);
    return status;
}

enum status spool_open(struct spool **spool, int cache_kib, struct error *error)
{
    struct spool *g = calloc(1, sizeof *g);
    if (g)
        g->database.path = strdup("the temporary file for collecting (in TMPDIR)");
    enum status status = g && g->database.path ? prepare_tables(&g->database, cache_kib, error)
                                               : error_memory(error, STATUS_REFUSE, "collecting");
    if (status != STATUS_OK) {
        spool_close(g);
        return status;
    }
    *spool = g;
    return STATUS_OK;
}

void spool_close(struct spool *spool)
{
    if (!spool)
        return;
    database_close(&spool->database);
    free(spool);
}

enum status spool_add_job(struct spool *spool, struct text job_id, bool is_finished, int64_t round,
                          struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &spool->database,
        "INSERT INTO jobs (job_id, finished, round) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET"
        " finished = excluded.finished, round = excluded.round WHERE round < excluded.round"
        " OR (round = excluded.round AND finished > excluded.finished)",
        error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, job_id);
    bind_integer(insert, 2, is_finished);
    bind_integer(insert, 3, round);
    return database_run(&spool->database, insert, error);
}

static enum status count_repeated(struct spool *spool, struct text job_id, int64_t round, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&spool->database, "SELECT count(*) FROM results WHERE job_id = ? AND round = ?",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, job_id);
    bind_integer(select, 2, round);
    int64_t n = 0;
    enum status status = database_read_integer(&spool->database, select, 0, &n, "counting", error);
    spool->n_repeated += n;
    return status;
}

enum status spool_add_result(struct spool *spool, struct text job_id, int64_t index, int64_t round,
                             struct text record, struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&spool->database,
                           "INSERT INTO results (job_id, position, round, record) VALUES (?, ?, ?, ?)"
                           " ON CONFLICT DO UPDATE SET position = excluded.position, round = excluded.round,"
                           " record = excluded.record WHERE round < excluded.round",
                           error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, job_id);
    bind_integer(insert, 2, index < 0 ? INT64_MAX : index);
    bind_integer(insert, 3, round);
    bind_blob(insert, 4, record);
    enum status status = database_run(&spool->database, insert, error);
    bool is_kept = sqlite3_changes(spool->database.sqlite) > 0;
    return status == STATUS_OK && !is_kept ? count_repeated(spool, job_id, round, error) : status;
}

enum status spool_count(struct spool *spool, struct spool_counts *counts, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &spool->database,
        "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM results) - count(*)"
        " FILTER (WHERE EXISTS (SELECT 1 FROM results WHERE results.job_id = jobs.job_id)),"
        " count(*), count(*) FILTER (WHERE finished) FROM jobs WHERE NOT EXISTS (SELECT 1 FROM"
        " results WHERE results.job_id = jobs.job_id AND results.round >= jobs.round)",
        error);
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW) {
        counts->n_jobs = sqlite3_column_int64(select, 0);
        counts->n_results = sqlite3_column_int64(select, 1);
        counts->n_missing = sqlite3_column_int64(select, 2);
        counts->n_finished = sqlite3_column_int64(select, 3);
        counts->n_repeated = spool->n_repeated;
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&spool->database, "counting", error);
}

enum status spool_read(struct spool *spool,
                       enum status (*receive)(void *context, struct text record, struct error *error),
                       void *context, struct error *error)
{
    // Reads in the order of the index: sorting would write all records once more.
    sqlite3_stmt *select =
        database_statement(&spool->database,
                           "SELECT record FROM results INDEXED BY results_order ORDER BY position, arrival",
                           error);
    if (!select)
        return error->status;
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW)
        status = receive(context, column_blob(select, 0), error);
    sqlite3_reset(select);
    if (status == STATUS_OK && code != SQLITE_DONE)
        status = database_error(&spool->database, "reading", error);
    return status;
}

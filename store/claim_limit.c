#include "store/claim.h"

#include "schemas/base/clock.h"
#include "store/workers.h"

// Counts the living workers that claim jobs of the same datasets, including this one. Counts at most once per
// STORE_COUNT_WORKERS_US, because each worker costs a system call.
static enum status count_workers(struct store *store, struct text dataset, struct error *error)
{
    int64_t now_us = clock_wall_us();
    if (store->claiming.n_workers && now_us - store->claiming.looked_us < STORE_COUNT_WORKERS_US &&
        now_us >= store->claiming.looked_us)
        return STATUS_OK;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT id FROM workers WHERE stopped_at_us IS NULL AND transport = 'store' AND (dataset IS NULL"
        " OR dataset = ?1) ORDER BY id DESC LIMIT ?2",
        error);
    if (!select)
        return error->status;
    if (dataset.size)
        bind_text(select, 1, dataset);
    bind_integer(select, 2, STORE_COUNTED_WORKERS_MAX);
    int64_t n = 0;
    enum status status = workers_count_alive(store, select, &n, error);
    if (n != store->claiming.n_workers)
        store->claiming.n_free_seen = -1;
    store->claiming.n_workers = status == STATUS_OK ? (int32_t)n : 0;
    store->claiming.looked_us = now_us;
    return status;
}

static enum status read_count(struct store *store, sqlite3_stmt *select, int64_t *n, struct error *error)
{
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    *n = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "counting jobs", error);
}

static enum status count_unfinished(struct store *store, struct text dataset, int64_t *n, struct error *error)
{
    static const char *const queries[] = {
        "SELECT coalesce(sum(n_submitted - n_done - n_failed - n_cancelled), 0) FROM datasets"
        " WHERE n_submitted > n_done + n_failed + n_cancelled",
        "SELECT coalesce(sum(n_submitted - n_done - n_failed - n_cancelled), 0) FROM datasets"
        " WHERE dataset = ?"};
    sqlite3_stmt *select = database_statement(&store->database, queries[dataset.size > 0], error);
    if (select && dataset.size)
        bind_text(select, 1, dataset);
    return read_count(store, select, n, error);
}

static enum status count_held(struct store *store, int64_t *n, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT count(*) FROM queue WHERE worker = ?", error);
    if (select)
        bind_integer(select, 1, store->worker);
    return read_count(store, select, n, error);
}

// Counts free jobs, but at most n_max: it reads no more rows.
static enum status count_free(struct store *store, struct text dataset, int64_t n_max, int64_t *n,
                              struct error *error)
{
    static const char *const queries[] = {
        "SELECT count(*) FROM (SELECT 1 FROM queue WHERE worker IS NULL LIMIT ?1)",
        "SELECT count(*) FROM (SELECT 1 FROM queue CROSS JOIN jobs ON jobs.id = queue.job"
        " WHERE queue.worker IS NULL AND jobs.dataset = ?2 LIMIT ?1)"};
    sqlite3_stmt *select = database_statement(&store->database, queries[dataset.size > 0], error);
    if (select)
        bind_integer(select, 1, n_max);
    if (select && dataset.size)
        bind_text(select, 2, dataset);
    return read_count(store, select, n, error);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// Computes the level: the number of jobs to hold so that all workers have equally many left. Right after a
// commit, only a third of the jobs that the others hold beyond this worker's number is counted. If equal
// batches end at the same time, the first worker to commit still sees the others' jobs, which are about to
// end. If none of these counted, the last claims would shrink to single jobs. If all counted, the first
// workers would take all the rest.
static int64_t compute_level(int64_t n_free, int64_t n_held, int64_t n_others_hold, int64_t n_others,
                             bool has_finished)
{
    int64_t n_more = n_others_hold - n_others * n_held;
    if (has_finished && n_more > 0)
        n_others_hold = n_others * n_held + n_more / 3;
    return divide_up(n_free + n_held + n_others_hold, n_others + 1);
}

// Near the end of the queue: lowers *n_most to the level. The level is computed only after a commit and when
// jobs became free (submitted, released, from a dead worker) or the number of workers changed. If it were
// computed at every claim, it would rise with this worker's own claims.
static enum status lower_to_level(struct store *store, struct text dataset, int64_t n_unfinished,
                                  int64_t n_held, int64_t *n_most, struct error *error)
{
    int64_t n_free = 0;
    enum status status = count_free(store, dataset, *n_most * store->claiming.n_workers, &n_free, error);
    if (status != STATUS_OK)
        return status;
    if (store->claiming.has_finished || n_held == 0 || n_free > store->claiming.n_free_seen) {
        int64_t n_others_hold = n_unfinished - n_free - n_held;
        store->claiming.n_held_most =
            compute_level(n_free, n_held, n_others_hold > 0 ? n_others_hold : 0,
                          store->claiming.n_workers - 1, store->claiming.has_finished);
        store->claiming.has_finished = false;
    }
    store->claiming.n_free_seen = n_free;
    *n_most = *n_most < store->claiming.n_held_most ? *n_most : store->claiming.n_held_most;
    return STATUS_OK;
}

enum status claim_limit_apply(struct store *store, struct text dataset, size_t *n_max, struct error *error)
{
    enum status status = count_workers(store, dataset, error);
    if (status != STATUS_OK || store->claiming.n_workers < 2)
        return status;
    int64_t n_unfinished = 0, n_held = 0;
    status = count_unfinished(store, dataset, &n_unfinished, error);
    if (status == STATUS_OK)
        status = count_held(store, &n_held, error);
    if (status != STATUS_OK)
        return status;
    int64_t share = divide_up(n_unfinished, store->claiming.n_workers), most = divide_up(share, 2);
    // One and a half batches, so that the batch remains full during a commit.
    int64_t batch = store->claiming.n_batch + divide_up(store->claiming.n_batch, 2);
    if (most < batch) {
        most = batch;
        status = lower_to_level(store, dataset, n_unfinished, n_held, &most, error);
    }
    most = most < share ? most : share;
    int64_t room = most > n_held ? most - n_held : 0;
    *n_max = (int64_t)*n_max < room ? *n_max : (size_t)room;
    return status;
}

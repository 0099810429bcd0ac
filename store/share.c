#include "store/share.h"

#include "schemas/clock.h"
#include "store/workers.h"

// Living workers that claim the same jobs, this one included. Counted every STORE_SHARING_LOOK_US: each costs
// a system call.
static enum status count_workers(struct store *store, struct text dataset, struct error *error)
{
    int64_t now_us = clock_wall_us();
    if (store->n_sharing && now_us - store->shared_looked_us < STORE_SHARING_LOOK_US &&
        now_us >= store->shared_looked_us)
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
    bind_integer(select, 2, STORE_SHARING_MAX);
    int64_t n = 0;
    enum status status = workers_count_alive(store, select, &n, error);
    store->n_sharing = status == STATUS_OK ? (int32_t)n : 0;
    store->shared_looked_us = now_us;
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

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

enum status share_limit(struct store *store, struct text dataset, size_t *n_max, struct error *error)
{
    enum status status = count_workers(store, dataset, error);
    if (status != STATUS_OK || store->n_sharing < 2)
        return status;
    int64_t n_unfinished = 0, n_held = 0;
    status = count_unfinished(store, dataset, &n_unfinished, error);
    if (status == STATUS_OK)
        status = count_held(store, &n_held, error);
    if (status != STATUS_OK)
        return status;
    int64_t share = divide_up(n_unfinished, store->n_sharing), most = divide_up(share, 2);
    // it remains full during a commit
    int64_t batch = store->n_batch + divide_up(store->n_batch, 2);
    most = most > batch ? most : batch;
    most = most < share ? most : share;
    int64_t room = most > n_held ? most - n_held : 0;
    *n_max = (int64_t)*n_max < room ? *n_max : (size_t)room;
    return STATUS_OK;
}

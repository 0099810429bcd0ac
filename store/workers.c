#include "store/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status workers_open_locks(struct store *store, struct error *error)
{
    if (store->lock_fd >= 0)
        return STATUS_OK;
    char path[4096];
    int length = snprintf(path, sizeof path, "%s-workers", store->database.path);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: the path is too long", store->database.path);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_fd < 0)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: opening the workers' lock file: %s", path,
                         strerror(errno));
    return STATUS_OK;
}

// Locks of the open file description: they belong to this store's descriptor, not to the process, so that two stores in
// one process tell each other apart, and closing another descriptor of the file drops nothing.
static struct flock lock_of(int64_t worker, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = worker, .l_len = 1};
}

bool worker_is_alive(struct store *store, int64_t worker)
{
    if (worker == store->worker)
        return true;
    struct flock lock = lock_of(worker, F_WRLCK);
    return fcntl(store->lock_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static enum status insert_worker(struct store *store, const struct worker_description *description,
                                 struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO workers (host, pid, transport, model, backend, started_at, seen_at, n_sequences_max, n_rows_max,"
        " n_pages, page_positions) VALUES (?, ?, ?, ?, ?, ?6, ?6, ?, ?, ?, ?)",
        error);
    if (!insert)
        return error->status;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    bind_text(insert, 1, text_from_string(host));
    sqlite3_bind_int64(insert, 2, getpid());
    bind_text(insert, 3, text_from_string(description->transport));
    bind_text(insert, 4, text_from_string(description->model));
    bind_text(insert, 5, text_from_string(description->backend));
    sqlite3_bind_int64(insert, 6, store_now_us());
    sqlite3_bind_int(insert, 7, description->n_sequences_max);
    sqlite3_bind_int(insert, 8, description->n_rows_max);
    sqlite3_bind_int(insert, 9, description->n_pages);
    sqlite3_bind_int(insert, 10, description->page_positions);
    enum status status = database_run(&store->database, insert, error);
    if (status == STATUS_OK)
        store->worker = sqlite3_last_insert_rowid(store->database.sqlite);
    return status;
}

enum { NEXT_IDS_MAX = 10000 }; // tried

// The byte is somebody's who knows another file of this name: the store was deleted while he had it open.
static enum status take_next_id(struct store *store, struct error *error)
{
    sqlite3_stmt *update = database_statement(&store->database, "UPDATE workers SET id = ?1 + 1 WHERE id = ?1", error);
    if (!update)
        return error->status;
    sqlite3_bind_int64(update, 1, store->worker);
    enum status status = database_run(&store->database, update, error);
    store->worker += status == STATUS_OK;
    return status;
}

// False, with errno: the byte is locked by another, or can't be.
static bool lock_id(const struct store *store)
{
    struct flock lock = lock_of(store->worker, F_WRLCK);
    return fcntl(store->lock_fd, F_OFD_SETLK, &lock) == 0;
}

enum status store_worker_start(struct store *store, const struct worker_description *description, int64_t *worker,
                               struct error *error)
{
    enum status status = workers_open_locks(store, error);
    if (status == STATUS_OK)
        status = insert_worker(store, description, error);
    if (status != STATUS_OK)
        return status;
    bool locked = lock_id(store);
    for (int i = 0; i < NEXT_IDS_MAX && !locked && (errno == EAGAIN || errno == EACCES); i++) {
        status = take_next_id(store, error);
        if (status != STATUS_OK)
            return status;
        locked = lock_id(store);
    }
    if (!locked)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s-workers: locking byte %lld for this worker: %s",
                         store->database.path, (long long)store->worker, strerror(errno));
    *worker = store->worker;
    return STATUS_OK;
}

enum status store_worker_stop(struct store *store, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database, "UPDATE workers SET stopped_at = ?1, seen_at = ?1 WHERE id = ?2", error);
    if (!update)
        return error->status;
    sqlite3_bind_int64(update, 1, store_now_us());
    sqlite3_bind_int64(update, 2, store->worker);
    return database_run(&store->database, update, error);
}

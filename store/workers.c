#include "store/workers.h"

#include "schemas/base/clock.h"
#include "schemas/base/hash.h"
#include "store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_PATH_BYTES = 4096, HOLD_TRIES = 50, HOLD_PAUSE_NS = 2 * 1000 * 1000 };

static enum status lock_path(const struct store *store, char path[LOCK_PATH_BYTES], struct error *error)
{
    int length = snprintf(path, LOCK_PATH_BYTES, "%s-workers", store->database.path);
    if (length < 0 || length >= LOCK_PATH_BYTES)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: the path is too long", store->database.path);
    return STATUS_OK;
}

static enum status open_lock_file(struct store *store, int *fd, struct error *error)
{
    char path[LOCK_PATH_BYTES];
    enum status status = lock_path(store, path, error);
    if (status != STATUS_OK)
        return status;
    *fd = open(path, store->read_only ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0 && store->read_only && errno == ENOENT)
        return STATUS_OK; // no worker is alive
    store->locks_unreadable = *fd < 0 && store->read_only && errno == EACCES;
    if (store->locks_unreadable)
        return STATUS_OK;
    if (*fd < 0)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: opening the workers' lock file: %s", path,
                         strerror(errno));
    return STATUS_OK;
}

// True if the path names the file that `fd` has open.
static bool is_named(const char *path, int fd)
{
    struct stat named, held;
    return stat(path, &named) == 0 && fstat(fd, &held) == 0 && named.st_ino == held.st_ino &&
           named.st_dev == held.st_dev;
}

// The last process that closes the store removes the file, so one that holds no byte of it opens the new one.
enum status workers_open_locks(struct store *store, struct error *error)
{
    char path[LOCK_PATH_BYTES];
    enum status status = lock_path(store, path, error);
    if (status == STATUS_OK && store->lock_fd >= 0 && !store->worker && !store->holds_dataset &&
        !is_named(path, store->lock_fd)) {
        close(store->lock_fd);
        store->lock_fd = -1;
    }
    return status == STATUS_OK && store->lock_fd < 0 ? open_lock_file(store, &store->lock_fd, error) : status;
}

void workers_close_locks(struct store *store)
{
    char path[LOCK_PATH_BYTES];
    struct error error;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int64_t is_used = 1;
    if (store->lock_fd < 0)
        return;
    bool is_alone = !store->read_only && lock_path(store, path, &error) == STATUS_OK &&
                    fcntl(store->lock_fd, F_OFD_SETLK, &all) == 0;
    sqlite3_stmt *select =
        is_alone
            ? database_statement(&store->database,
                                 "SELECT EXISTS (SELECT 1 FROM workers WHERE stopped_at_us IS NULL)", &error)
            : NULL;
    if (select &&
        database_read_integer(&store->database, select, 1, &is_used, "closing", &error) == STATUS_OK &&
        !is_used && is_named(path, store->lock_fd))
        unlink(path);
    close(store->lock_fd);
    store->lock_fd = -1;
}

// Open file description locks belong to this store's descriptor, not to the process: two stores in one
// process are distinct, and closing another descriptor of the file releases nothing.
static struct flock lock_of(int64_t worker, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = worker, .l_len = 1};
}

// Returns the dataset's byte in the lock file, far beyond the bytes of workers. Two datasets may share a
// byte. If one of them is held, the other seems to be held too.
static int64_t byte_of_dataset(struct text dataset)
{
    return (INT64_C(1) << 61) + (int64_t)(hash_bytes(dataset.data, dataset.size, 0) & UINT32_MAX);
}

enum status workers_hold_dataset(struct store *store, struct text dataset, struct error *error)
{
    char path[LOCK_PATH_BYTES];
    struct flock lock = lock_of(byte_of_dataset(dataset), F_RDLCK);
    enum status status = lock_path(store, path, error);
    // A process that is removing the file holds all of its bytes for a moment.
    for (int i = 0; i < HOLD_TRIES && status == STATUS_OK && !store->holds_dataset; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = HOLD_PAUSE_NS}, NULL);
        status = workers_open_locks(store, error);
        store->holds_dataset = status == STATUS_OK && fcntl(store->lock_fd, F_OFD_SETLK, &lock) == 0 &&
                               is_named(path, store->lock_fd);
    }
    if (status == STATUS_OK && fcntl(store->lock_fd, F_OFD_SETLK, &lock) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_STORE,
                         "%s-workers: locking the byte of dataset %.*s: %s", store->database.path,
                         (int)dataset.size, dataset.data, strerror(errno));
    return status;
}

bool workers_others_hold_dataset(const struct store *store, struct text dataset)
{
    struct flock lock = lock_of(byte_of_dataset(dataset), F_WRLCK);
    return fcntl(store->lock_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static int64_t inode_of(int fd)
{
    struct stat about;
    return fd >= 0 && fstat(fd, &about) == 0 ? (int64_t)about.st_ino : 0;
}

// Reads the inode of the file in which the worker locked its byte. 0: unknown, because an older version wrote
// the row.
static enum status inode_of_worker(struct store *store, int64_t worker, int64_t *inode, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT lock_inode FROM workers WHERE id = ?", error);
    if (!select)
        return error->status;
    bind_integer(select, 1, worker);
    int code = sqlite3_step(select);
    *inode = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a worker", error);
}

// True if the lock file was created within the last STORE_LOCK_GRACE_S: living workers may not have locked
// their bytes in it yet. Nothing is ever written to the file, so its modification time is its creation time.
static bool is_new(int fd)
{
    struct stat about;
    int64_t now_s = clock_wall_us() / 1000000;
    return fstat(fd, &about) == 0 && now_s >= about.st_mtime && now_s - about.st_mtime <= STORE_LOCK_GRACE_S;
}

enum status worker_state(struct store *store, int64_t worker, enum worker_state *state, struct error *error)
{
    struct flock lock = lock_of(worker, F_WRLCK);
    int64_t inode = 0;
    *state = WORKER_ALIVE;
    if (worker == store->worker)
        return STATUS_OK;
    if (store->lock_fd < 0 && store->read_only) {
        *state = WORKER_DEAD;
        return STATUS_OK;
    }
    if (fcntl(store->lock_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK)
        return STATUS_OK;
    enum status status = inode_of_worker(store, worker, &inode, error);
    if (inode == 0 || inode == inode_of(store->lock_fd))
        *state = WORKER_DEAD;
    else if (!is_new(store->lock_fd))
        *state = WORKER_LOST;
    return status;
}

enum status worker_is_alive(struct store *store, int64_t worker, bool *alive, struct error *error)
{
    enum worker_state state;
    enum status status = worker_state(store, worker, &state, error);
    *alive = status == STATUS_OK && state == WORKER_ALIVE;
    return status;
}

enum status workers_count_alive(struct store *store, sqlite3_stmt *ids, int64_t *n, struct error *error)
{
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    *n = 0;
    while (status == STATUS_OK && (code = sqlite3_step(ids)) == SQLITE_ROW) {
        bool alive;
        status = worker_is_alive(store, sqlite3_column_int64(ids, 0), &alive, error);
        *n = store->locks_unreadable ? -1 : *n + alive;
    }
    sqlite3_reset(ids);
    return status != STATUS_OK || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "counting workers", error);
}

static enum status insert_worker(struct store *store, const struct worker_description *description,
                                 struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO workers (host, pid, transport, model, backend, started_at_us, seen_at_us,"
        " n_sequences_max, n_tokens_max, n_pages, page_positions, arithmetic, dataset, lock_inode)"
        " VALUES (?, ?, ?, ?, ?, ?6, ?6, ?, ?, ?, ?, ?, ?, ?)",
        error);
    if (!insert)
        return error->status;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    bind_text(insert, 1, text_from_string(host));
    bind_integer(insert, 2, getpid());
    bind_text(insert, 3, text_from_string(description->transport));
    bind_text(insert, 4, text_from_string(description->model));
    bind_text(insert, 5, text_from_string(description->backend));
    BIND_INTEGERS(insert, 6, clock_wall_us(), description->n_sequences_max, description->n_tokens_max,
                  description->n_pages, description->page_positions);
    bind_text(insert, 11, text_from_string(store->arithmetic));
    bind_text(insert, 12, description->dataset.size ? description->dataset : (struct text){0});
    bind_integer(insert, 13, inode_of(store->lock_fd));
    enum status status = database_run(&store->database, insert, error);
    if (status == STATUS_OK)
        store->worker = sqlite3_last_insert_rowid(store->database.sqlite);
    return status;
}

enum { NEXT_IDS_MAX = 10000 }; // number of ids tried

// Takes the next id, because the byte of the current id is locked. Its owner is a worker of an earlier store
// of this name, which was deleted while the worker had it open.
static enum status take_next_id(struct store *store, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database, "UPDATE workers SET id = ?1 + 1 WHERE id = ?1", error);
    if (!update)
        return error->status;
    bind_integer(update, 1, store->worker);
    enum status status = database_run(&store->database, update, error);
    store->worker += status == STATUS_OK;
    return status;
}

// Locks the byte of the worker's id. False: another process has locked it, or it cannot be locked; errno says
// why.
static bool lock_id(const struct store *store, int fd)
{
    struct flock lock = lock_of(store->worker, F_WRLCK);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static enum status refuse_lock(const struct store *store, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s-workers: locking byte %lld for this worker: %s",
                     store->database.path, (long long)store->worker, strerror(errno));
}

enum status workers_release_partitions(struct store *store, int64_t worker, int64_t recorded_us,
                                       struct error *error)
{
    static const char *const texts[] = {
        "DELETE FROM partitions WHERE worker = ? AND updated_at_us <> ? AND deleted = 0",
        "UPDATE partitions SET worker = NULL, in_flight = 0, map_covered = 0, committed = log_end"
        " WHERE worker = ? AND updated_at_us <> ?",
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == STATUS_OK; i++) {
        sqlite3_stmt *statement = database_statement(&store->database, texts[i], error);
        if (!statement)
            return error->status;
        BIND_INTEGERS(statement, 1, worker, recorded_us);
        status = database_run(&store->database, statement, error);
    }
    return status;
}

// Releases partitions of dead workers that other workers own now.
static enum status release_of_dead(struct store *store, struct error *error)
{
    int64_t worker = 0;
    for (;;) {
        sqlite3_stmt *select =
            database_statement(&store->database, "SELECT min(worker) FROM partitions WHERE worker > ?",
                               error);
        if (!select)
            return error->status;
        BIND_INTEGERS(select, 1, worker);
        int code = sqlite3_step(select);
        worker = code == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
        sqlite3_reset(select);
        if (code != SQLITE_ROW)
            return database_error(&store->database, "reading the partitions", error);
        if (!worker)
            return STATUS_OK;
        bool alive;
        enum status status = worker_is_alive(store, worker, &alive, error);
        if (status == STATUS_OK && !alive)
            status = workers_release_partitions(store, worker, 0, error);
        if (status != STATUS_OK)
            return status;
    }
}

enum status store_worker_start(struct store *store, const struct worker_description *description,
                               int64_t *worker, struct error *error)
{
    enum status status = workers_open_locks(store, error);
    store->claiming.n_batch = description->n_sequences_max;
    free(store->arithmetic); // set by an earlier start that failed
    store->arithmetic = NULL;
    if (status == STATUS_OK && description->arithmetic &&
        !(store->arithmetic = strdup(description->arithmetic)))
        status = error_memory(error, STATUS_REFUSE, "%s", store->database.path);
    if (status == STATUS_OK)
        status = insert_worker(store, description, error);
    if (status != STATUS_OK)
        return status;
    bool locked = lock_id(store, store->lock_fd);
    for (int i = 0; i < NEXT_IDS_MAX && !locked && (errno == EAGAIN || errno == EACCES); i++) {
        status = take_next_id(store, error);
        if (status != STATUS_OK)
            return status;
        locked = lock_id(store, store->lock_fd);
    }
    if (!locked)
        return refuse_lock(store, error);
    files_note(store);
    *worker = store->worker;
    return release_of_dead(store, error);
}

static enum status note_lock_file(struct store *store, int fd, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database, "UPDATE workers SET lock_inode = ? WHERE id = ?", error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, inode_of(fd), store->worker);
    return database_run(&store->database, update, error);
}

enum status store_keep_lock(struct store *store, struct error *error)
{
    char path[LOCK_PATH_BYTES];
    struct stat named, held;
    int fd = -1;
    enum status status = lock_path(store, path, error);
    if (status != STATUS_OK || !store->worker || store->lock_fd < 0 || fstat(store->lock_fd, &held) != 0)
        return status;
    bool found = stat(path, &named) == 0;
    if (found ? named.st_ino == held.st_ino && named.st_dev == held.st_dev : errno != ENOENT)
        return STATUS_OK;
    status = open_lock_file(store, &fd, error);
    if (status == STATUS_OK && !lock_id(store, fd))
        status = refuse_lock(store, error);
    if (status == STATUS_OK)
        status = note_lock_file(store, fd, error);
    if (status == STATUS_OK) {
        close(store->lock_fd);
        store->lock_fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return status;
}

enum status store_worker_stop(struct store *store, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database,
                           "UPDATE workers SET stopped_at_us = ?1, seen_at_us = ?1 WHERE id = ?2", error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, clock_wall_us(), store->worker);
    return database_run(&store->database, update, error);
}

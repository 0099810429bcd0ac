#include "store/frames.h"
#include "store/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status store_open(struct store **store, const char *path, enum store_mode mode, struct error *error)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return error_memory(error, STATUS_REFUSE, "%s: opening the store", path);
    s->lock_fd = -1;
    s->read_only = mode == STORE_READ_ONLY;
    enum status status = database_open(&s->database, path, mode, error);
    if (status != STATUS_OK) {
        free(s);
        return status;
    }
    status = frames_open(s, error);
    if (status != STATUS_OK) {
        store_close(s);
        return status;
    }
    *store = s;
    return STATUS_OK;
}

// True if SQLite may write the file, and the log in the same folder.
static bool is_writable(const char *path)
{
    char *copy = strdup(path);
    bool writable = copy && access(path, W_OK) == 0 && access(dirname(copy), W_OK) == 0;
    free(copy);
    return writable;
}

enum status store_open_to_read(struct store **store, const char *path, struct error *error)
{
    return store_open(store, path, is_writable(path) ? STORE_EXISTING : STORE_READ_ONLY, error);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    workers_close_locks(store);
    database_close(&store->database);
    frames_close(store);
    free(store->arithmetic);
    free(store);
}

const char *store_path(const struct store *store)
{
    return store->database.path;
}

bool store_is_read_only(const struct store *store)
{
    return store->read_only;
}

void store_set_patience(struct store *store, int wait_ms)
{
    sqlite3_busy_timeout(store->database.sqlite, wait_ms);
}

void store_set_shares(struct store *store, const struct dataset_shares *shares)
{
    store->claiming.shares = shares;
}

// ---- the file ----

#define PAGES_AT_ONCE "4096" // 16 MB: workers write between two transactions

static enum status read_pragma(struct store *store, const char *sql, int64_t *value, struct error *error)
{
    sqlite3_stmt *select = database_statement(&store->database, sql, error);
    return select ? database_read_integer(&store->database, select, 0, value, "reading the free pages", error)
                  : error->status;
}

enum status store_give_space_back(struct store *store, struct error *error)
{
    int64_t mode = 0, n_free = 0, n_before = INT64_MAX;
    enum status status = read_pragma(store, "PRAGMA auto_vacuum", &mode, error);
    if (status == STATUS_OK && mode == 0)
        status = database_execute(&store->database, "PRAGMA auto_vacuum = INCREMENTAL", error);
    if (status == STATUS_OK && mode == 0)
        status = database_execute(&store->database, "VACUUM", error);
    else if (status == STATUS_OK)
        status = read_pragma(store, "PRAGMA freelist_count", &n_free, error);
    while (status == STATUS_OK && n_free > 0 && n_free < n_before) {
        n_before = n_free;
        status = database_execute(&store->database, "PRAGMA incremental_vacuum(" PAGES_AT_ONCE ")", error);
        if (status == STATUS_OK)
            status = read_pragma(store, "PRAGMA freelist_count", &n_free, error);
    }
    // The file shrinks when its log is written back, by this checkpoint or a later one.
    if (status == STATUS_OK)
        status = database_execute(&store->database, "PRAGMA wal_checkpoint(TRUNCATE)", error);
    return status;
}

enum status store_copy(struct store *store, const char *path, struct error *error)
{
    sqlite3_stmt *copy = database_statement(&store->database, "VACUUM INTO ?", error);
    if (!copy)
        return error->status;
    bind_text(copy, 1, text_from_string(path));
    enum status status = database_run(&store->database, copy, error);
    if (status != STATUS_OK)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

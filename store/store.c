#include "store/frames.h"
#include "store/workers.h"

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

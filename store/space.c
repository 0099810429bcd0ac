#include "store/space.h"

#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

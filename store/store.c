#include "store/database.h"

#include <stdlib.h>
#include <unistd.h>

enum status store_open(struct store **store, const char *path, enum store_mode mode, struct error *error)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: opening the store: out of memory", path);
    s->lock_fd = -1;
    enum status status = database_open(&s->database, path, mode, error);
    if (status != STATUS_OK) {
        free(s);
        return status;
    }
    *store = s;
    return STATUS_OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    database_close(&store->database);
    free(store);
}

const char *store_path(const struct store *store)
{
    return store->database.path;
}

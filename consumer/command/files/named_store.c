#include "consumer/command/files/named_store.h"

#include "consumer/observe/log.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORE_NAME "run.db"

const char *named_store_path(const struct settings *settings)
{
    return settings->store ? settings->store : "sheaf.db";
}

static enum status check_default(const struct settings *settings, struct error *error)
{
    const char *path = named_store_path(settings);
    if (settings->store || access(path, F_OK) == 0)
        return STATUS_OK;
    return error_set(
        error, STATUS_REFUSE, ERROR_STORE,
        "%s: there is no such store in this folder: give --store FILE (run and annotate have theirs "
        "beside the output: OUT.jsonl.db, OUT.csv.db)",
        path);
}

enum status named_store_open(struct store **store, const struct settings *settings, struct error *error)
{
    enum status status = check_default(settings, error);
    return status == STATUS_OK ? store_open(store, named_store_path(settings), STORE_EXISTING, error)
                               : status;
}

enum status named_store_open_to_read(struct store **store, const struct settings *settings,
                                     struct error *error)
{
    enum status status = check_default(settings, error);
    return status == STATUS_OK ? store_open_to_read(store, named_store_path(settings), error) : status;
}

enum status temporary_store_create(const char *what, char **folder, char **path, struct error *error)
{
    char *made = NULL;
    *folder = *path = NULL;
    if (asprintf(&made, "%s/sheaf-%s-XXXXXX", file_temporary_folder(), what) < 0)
        return error_memory(error, STATUS_REFUSE, "a temporary store");
    if (!mkdtemp(made)) {
        free(made);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "a folder in %s: %s", file_temporary_folder(),
                         strerror(errno));
    }
    *folder = made;
    if (asprintf(path, "%s/%s", made, STORE_NAME) >= 0)
        return STATUS_OK;
    *path = NULL;
    return error_memory(error, STATUS_REFUSE, "a temporary store");
}

void temporary_store_remove(const char *folder)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-workers"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s%s", folder, STORE_NAME, ends[i]);
        unlink(path);
    }
    if (rmdir(folder) != 0)
        log_write(LOG_WARNING, "%s: %s", folder, strerror(errno));
}

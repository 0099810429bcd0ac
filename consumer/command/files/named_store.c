#include "consumer/command/files/named_store.h"

#include <unistd.h>

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

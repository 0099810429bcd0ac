// sheaf cancel: stops what has not finished. Waiting jobs get their cancelled result now, running ones from their worker.
#include "consumer/commands.h"
#include "consumer/log.h"
#include "store/store.h"

enum status command_cancel(const struct settings *settings, struct error *error)
{
    if (!settings->dataset)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf cancel: which dataset? give --dataset NAME");
    struct store *store = NULL;
    int64_t n_cancelled = 0;
    enum status status =
        store_open(&store, settings->store ? settings->store : "sheaf.db", STORE_EXISTING, error);
    if (status == STATUS_OK)
        status = store_cancel(store, text_from_string(settings->dataset), &n_cancelled, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s: %lld waiting jobs cancelled; running ones stop at their next step",
                  settings->dataset, (long long)n_cancelled);
    store_close(store);
    return status;
}

// sheaf work: takes jobs from the queue and answers them.
#include "consumer/commands.h"
#include "consumer/log.h"
#include "consumer/progress_line.h"
#include "consumer/runtime.h"
#include "consumer/service.h"

enum status command_work(const struct settings *settings, struct error *error)
{
    if (!settings->model)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf work: which model? give --model FILE");
    struct store *store = NULL;
    struct progress_line line = {0};
    struct worker_progress progress = {0};
    enum status status = runtime_check_model(settings->model, error); // before a store is made for nothing
    if (status == STATUS_OK)
        status = store_open(&store, settings->store ? settings->store : "sheaf.db", STORE_CREATE, error);
    if (status == STATUS_OK) {
        struct service service = {.store = store,
                                  .dataset = text_from_string(settings->dataset),
                                  .exit_when_idle_s = (int)settings->exit_when_idle,
                                  .line = &line};
        status = service_run(&service, settings, &progress, error);
        if (status == STATUS_OK || progress.n_done || progress.n_failed)
            log_write(LOG_INFO, "%lld jobs answered, %lld failed%s", (long long)progress.n_done,
                      (long long)progress.n_failed, progress.n_failed ? " or cancelled" : "");
    }
    store_close(store);
    return status;
}

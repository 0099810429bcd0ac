#include "consumer/worker/late_store.h"

#include "consumer/observe/log.h"
#include "schemas/base/clock.h"

#include <stdio.h>

static void wait_longer(struct late_store *late)
{
    late->delay_ms = late->delay_ms ? 2 * late->delay_ms : LATE_STORE_RETRY_MS;
    if (late->delay_ms > LATE_STORE_RETRY_MS_MAX)
        late->delay_ms = LATE_STORE_RETRY_MS_MAX;
    late->retry_at_ms = clock_ms() + late->delay_ms;
}

static void give_up(struct late_store *late, const struct error *error)
{
    store_close(late->store);
    late->store = NULL;
    if (late->delay_ms == 0)
        log_write(LOG_WARNING, "%s; working without a store, figures are written once it can be opened",
                  error->text);
    wait_longer(late);
}

void late_store_open(struct late_store *late, const char *path)
{
    struct error error;
    late->path = path;
    if (store_open(&late->store, path, STORE_CREATE, &error) != STATUS_OK)
        give_up(late, &error);
}

void late_store_start(struct late_store *late, const struct worker_description *description)
{
    struct error error;
    int64_t worker;
    late->description = *description;
    snprintf(late->model, sizeof late->model, "%s", description->model);
    late->description.model = late->model;
    if (late->store && store_worker_start(late->store, &late->description, &worker, &error) != STATUS_OK)
        give_up(late, &error);
    if (late->store)
        store_set_patience(late->store, STORE_TURN_MS);
}

struct store *late_store_find(struct late_store *late)
{
    struct error error;
    int64_t worker;
    if (late->store || clock_ms() < late->retry_at_ms)
        return late->store;
    if (store_open(&late->store, late->path, STORE_CREATE_SOON, &error) != STATUS_OK ||
        store_worker_start(late->store, &late->description, &worker, &error) != STATUS_OK)
        give_up(late, &error);
    else
        log_write(LOG_INFO, "%s: opened; figures are written from now on", late->path);
    return late->store;
}

void late_store_close(struct late_store *late)
{
    store_close(late->store);
    late->store = NULL;
}

#include "consumer/serve/request_removal.h"

#include "consumer/serve/serve_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_PREFIX "request-"

void request_dataset(const struct serve *serve, const char *id, char dataset[SERVE_ID_BYTES])
{
    snprintf(dataset, SERVE_ID_BYTES, REQUEST_PREFIX "%s-%.*s", serve->name, REQUEST_ID_DIGITS, id);
}

void request_removal_add(struct serve *serve, const char *dataset)
{
    int64_t n_cancelled;
    struct error ignored; // the keeper cancels again
    enum status status = store_cancel(serve_lock(serve), text_from_string(dataset), &n_cancelled, &ignored);
    serve_unlock(serve);
    serve_add_abandoned(serve, dataset, status == STATUS_OK);
}

static void note_dataset(void *context, const struct dataset_progress *progress)
{
    (void)progress;
    *(bool *)context = true;
}

// True: the dataset no longer exists. Cancels once: each call writes, and each write wakes the keeper.
static bool delete_request(struct store *store, struct abandoned_request *request)
{
    struct text dataset = text_from_string(request->dataset);
    struct error error;
    int64_t n_cancelled;
    bool exists = false;
    if (!request->is_cancelled)
        request->is_cancelled = store_cancel(store, dataset, &n_cancelled, &error) == STATUS_OK;
    if (store_dataset_delete(store, dataset, false, &error) == STATUS_OK)
        return true;
    return store_progress(store, dataset, note_dataset, &exists, &error) == STATUS_OK && !exists;
}

void request_removal_run(struct serve *serve, struct store *store)
{
    struct abandoned_request *list = serve_take_abandoned(serve);
    for (struct abandoned_request *next; list; list = next) {
        next = list->next;
        if (!delete_request(store, list))
            serve_add_abandoned(serve, list->dataset, list->is_cancelled);
        free(list);
    }
}

// ---- killed servers ----

struct dead_server {
    struct serve *serve;
    struct store *store;
    char prefix[SERVE_ID_BYTES];
    bool has_requests;
};

static void take_dataset(void *context, const struct dataset_row *row)
{
    struct dead_server *dead = context;
    char dataset[SERVE_ID_BYTES];
    size_t size = strlen(dead->prefix);
    if (row->dataset.size < size || row->dataset.size >= sizeof dataset ||
        memcmp(row->dataset.data, dead->prefix, size) != 0)
        return;
    snprintf(dataset, sizeof dataset, "%.*s", (int)row->dataset.size, row->dataset.data);
    serve_add_abandoned(dead->serve, dataset, false);
    dead->has_requests = true;
}

// Its file is removed when no request of it is left.
static bool take_server(void *context, const char *name)
{
    struct dead_server *dead = context;
    struct error ignored;
    dead->has_requests = false;
    snprintf(dead->prefix, sizeof dead->prefix, REQUEST_PREFIX "%.20s-", name);
    return store_datasets(dead->store, take_dataset, dead, &ignored) == STATUS_OK && !dead->has_requests;
}

void request_removal_find(struct serve *serve, struct store *store)
{
    struct dead_server dead = {.serve = serve, .store = store};
    serve_folder_find_dead(serve, take_server, &dead);
}

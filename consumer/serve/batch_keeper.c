#include "consumer/serve/batch_keeper.h"

#include "consumer/observe/log.h"
#include "consumer/serve/batch_step.h"
#include "consumer/serve/batch_topics.h"
#include "consumer/serve/request_removal.h"
#include "consumer/serve/serve_folder.h"
#include "schemas/base/clock.h"

#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

enum {
    LOOK_MS = 500,      // a dead worker's jobs end without a write to the store
    UPKEEP_MS = 2000,   // expired files, dead servers
    SWEEP_MS = 3600000, // contents without rows
};

struct batch_keeper {
    struct serve *serve;
    struct store *store;
    pthread_t thread;
    bool has_thread;
    int wake_fd;                    // eventfd: ends the thread
    int notify_fd;                  // inotify on the store's folder, -1: none
    char *log_name;                 // file name of the store's write-ahead log
    int64_t upkeep_ms, sweep_ms;    // when they were done last; 0: never
    char trouble[ERROR_TEXT_BYTES]; // logged last; "": none
    struct open_batch *batches;     // [n_batches], of one turn
    size_t n_batches, capacity;
};

// ---- a turn ----

static void take_batch(void *context, const struct served_batch *batch)
{
    struct batch_keeper *keeper = context;
    if (keeper->n_batches == keeper->capacity) {
        size_t capacity = keeper->capacity ? 2 * keeper->capacity : 16;
        struct open_batch *batches = reallocarray(keeper->batches, capacity, sizeof *batches);
        if (!batches)
            return; // the next turn tries again
        keeper->batches = batches;
        keeper->capacity = capacity;
    }
    open_batch_copy(&keeper->batches[keeper->n_batches++], batch);
}

// Logs a fault once, until it has passed or is another one.
static void note_trouble(struct batch_keeper *keeper, const struct error *error)
{
    if (error && strcmp(keeper->trouble, error->text) != 0)
        log_write(LOG_WARNING, "%s; trying again", error->text);
    snprintf(keeper->trouble, sizeof keeper->trouble, "%s", error ? error->text : "");
}

static void keep_batches(struct batch_keeper *keeper)
{
    struct error error;
    bool went_well = true;
    keeper->n_batches = 0;
    if (store_batches_open(keeper->store, take_batch, keeper, &error) != STATUS_OK) {
        note_trouble(keeper, &error);
        return;
    }
    for (size_t i = 0; i < keeper->n_batches && !atomic_load(&keeper->serve->is_closing); i++)
        if (batch_step(keeper->serve, keeper->store, &keeper->batches[i], &error) != STATUS_OK) {
            went_well = false;
            note_trouble(keeper, &error);
        }
    if (went_well)
        note_trouble(keeper, NULL);
}

static void remove_expired(struct batch_keeper *keeper)
{
    char id[SERVE_ID_BYTES], path[PATH_MAX];
    struct error error;
    bool found = true;
    while (found && store_file_remove_expired(keeper->store, id, &found, &error) == STATUS_OK)
        if (found && serve_folder_path(keeper->serve, text_from_string(id), path))
            unlink(path);
}

static void keep_order(struct batch_keeper *keeper)
{
    int64_t now_ms = clock_ms();
    request_removal_run(keeper->serve, keeper->store);
    if (keeper->upkeep_ms && now_ms - keeper->upkeep_ms < UPKEEP_MS)
        return;
    keeper->upkeep_ms = now_ms;
    remove_expired(keeper);
    request_removal_find(keeper->serve, keeper->store);
    if (keeper->sweep_ms && now_ms - keeper->sweep_ms < SWEEP_MS)
        return;
    keeper->sweep_ms = now_ms;
    serve_folder_sweep(keeper->serve, keeper->store);
}

// ---- waiting for changes ----

// Reads the inotify events; true if the write-ahead log has changed.
static bool store_has_changed(struct batch_keeper *keeper)
{
    bool changed = false;
    _Alignas(struct inotify_event) char bytes[4096];
    for (ssize_t n; keeper->notify_fd >= 0 && (n = read(keeper->notify_fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
            changed = changed || (event->mask & IN_Q_OVERFLOW) ||
                      (event->len && strcmp(event->name, keeper->log_name) == 0);
            at += (ssize_t)(sizeof *event + event->len);
        }
    return changed;
}

static void wait_for_change(struct batch_keeper *keeper)
{
    const int64_t until_ms = clock_ms() + LOOK_MS;
    for (int64_t left_ms; (left_ms = until_ms - clock_ms()) > 0;) {
        struct pollfd fds[] = {{keeper->wake_fd, POLLIN, 0}, {keeper->notify_fd, POLLIN, 0}};
        if (poll(fds, 2, (int)left_ms) > 0 && (fds[0].revents & POLLIN))
            return;
        if (store_has_changed(keeper))
            return;
    }
}

static void *keep(void *context)
{
    struct batch_keeper *keeper = context;
    while (!atomic_load(&keeper->serve->is_closing)) {
        store_watch_announce(&keeper->serve->watch);
        if (!keeper->serve->topics || batch_topics_lead(keeper->serve->topics))
            keep_batches(keeper);
        keep_order(keeper);
        wait_for_change(keeper);
    }
    store_watch_announce(&keeper->serve->watch);
    return NULL;
}

// ---- start and stop ----

static bool watch_folder(struct batch_keeper *keeper, const char *path)
{
    char *for_name = strdup(path), *for_folder = strdup(path);
    if (for_name && for_folder && asprintf(&keeper->log_name, "%s-wal", basename(for_name)) < 0)
        keeper->log_name = NULL;
    keeper->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (keeper->notify_fd >= 0 && for_folder &&
        inotify_add_watch(keeper->notify_fd, dirname(for_folder), IN_MODIFY | IN_CREATE) < 0) {
        close(keeper->notify_fd); // without it the thread looks every LOOK_MS
        keeper->notify_fd = -1;
    }
    free(for_name);
    free(for_folder);
    return keeper->log_name != NULL;
}

enum status batch_keeper_start(struct batch_keeper **keeper, struct serve *serve, struct error *error)
{
    struct batch_keeper *k = calloc(1, sizeof *k);
    if (!k)
        return error_memory(error, STATUS_REFUSE, "sheaf serve");
    k->serve = serve;
    k->notify_fd = -1;
    k->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum status status = store_open(&k->store, serve->config.store_path, STORE_EXISTING, error);
    if (status == STATUS_OK && (k->wake_fd < 0 || !watch_folder(k, serve->config.store_path)))
        status = error_memory(error, STATUS_REFUSE, "sheaf serve");
    if (status == STATUS_OK) {
        k->has_thread = pthread_create(&k->thread, NULL, keep, k) == 0;
        if (!k->has_thread)
            status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                               "sheaf serve: no thread could be started");
        else
            pthread_setname_np(k->thread, "sheaf-keeper");
    }
    if (status != STATUS_OK) {
        batch_keeper_stop(k);
        return status;
    }
    *keeper = k;
    return STATUS_OK;
}

void batch_keeper_stop(struct batch_keeper *keeper)
{
    if (!keeper)
        return;
    static const uint64_t one = 1;
    if (keeper->has_thread) {
        (void)!write(keeper->wake_fd, &one, sizeof one);
        pthread_join(keeper->thread, NULL);
    }
    store_close(keeper->store);
    if (keeper->notify_fd >= 0)
        close(keeper->notify_fd);
    if (keeper->wake_fd >= 0)
        close(keeper->wake_fd);
    free(keeper->log_name);
    free(keeper->batches);
    free(keeper);
}

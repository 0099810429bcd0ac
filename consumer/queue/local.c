#include "consumer/queue/local.h"

#include "consumer/queue/fault.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct local {
    struct transport base;
    struct store *store;
    char *dataset;  // NULL: any
    char *log_name; // file name of the store's write-ahead log
    int notify_fd;  // inotify on the store's folder, -1: none
    bool paused;
    bool empty;        // the last claim found no job, and the store has not changed since
    int64_t looked_ms; // time of that claim
    int64_t files_checked_ms;
    const struct transport_events *events;
};

static struct text dataset_of(const struct local *local)
{
    return text_from_string(local->dataset);
}

static void receive_claimed(void *context, const struct claimed_job *job)
{
    const struct local *local = context;
    struct record record = {.offset = job->id,
                            .identity = {.dataset = job->dataset,
                                         .job_id = job->job_id,
                                         .custom_id = job->custom_id,
                                         .has_index = job->index >= 0,
                                         .has_created = job->submitted_at_us >= 0,
                                         .index = job->index,
                                         .created_s = job->submitted_at_us / 1000000},
                            .content_type = job->encoding == ENCODING_JSON ? TEXT(CONTENT_TYPE_JSON)
                                                                           : TEXT(CONTENT_TYPE_MSGPACK),
                            .value = job->record,
                            .attempts = job->attempts,
                            .crashes = job->crashes};
    local->events->receive(local->events->context, &record);
}

static void handle_cancelled(void *context, struct text dataset)
{
    const struct local *local = context;
    local->events->cancel(local->events->context, dataset, (struct text){0}, INT64_MAX);
}

// A dead worker's jobs become free without a write to the store: claim again after this time.
enum { LOOK_AGAIN_MS = 500, CHECK_FILES_MS = 500 };

// Reads the inotify events; true if the write-ahead log has changed.
static bool store_has_changed(struct local *local)
{
    if (local->notify_fd < 0)
        return true;
    bool changed = false;
    _Alignas(struct inotify_event) char bytes[4096];
    for (ssize_t n; (n = read(local->notify_fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
            changed = changed || (event->mask & IN_Q_OVERFLOW) ||
                      (event->len && strcmp(event->name, local->log_name) == 0);
            at += (ssize_t)(sizeof *event + event->len);
        }
    return changed;
}

static enum status check_files(struct local *local, struct error *error)
{
    if (local->files_checked_ms && clock_ms() - local->files_checked_ms < CHECK_FILES_MS)
        return STATUS_OK;
    enum status status = store_check_files(local->store, error);
    if (status == STATUS_OK)
        status = store_keep_lock(local->store, error);
    if (status == STATUS_OK)
        local->files_checked_ms = clock_ms();
    return status;
}

static enum status local_poll(struct transport *transport, int timeout_ms, int n_max,
                              const struct transport_events *events, struct error *error)
{
    (void)timeout_ms; // the worker waits on fd
    struct local *local = (struct local *)transport;
    local->events = events;
    if (store_has_changed(local) || clock_ms() - local->looked_ms >= LOOK_AGAIN_MS)
        local->empty = false;
    enum status status = check_files(local, error);
    if (status == STATUS_OK)
        status = store_poll_cancelled(local->store, handle_cancelled, local, error);
    if (status != STATUS_OK || local->paused || n_max <= 0 || local->empty)
        return status;
    size_t n_claimed;
    status = store_claim(local->store, dataset_of(local), (size_t)n_max,
                         events->bytes_max ? events->bytes_max : INT64_MAX, receive_claimed, local,
                         &n_claimed, error);
    if (n_claimed > 0)
        fault_point(FAULT_CLAIMED);
    local->empty = status == STATUS_OK && n_claimed == 0;
    local->looked_ms = clock_ms();
    return status;
}

static void local_pause(struct transport *transport)
{
    ((struct local *)transport)->paused = true;
}

static void local_resume(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    local->paused = false;
    local->empty = false;
}

static enum status local_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                bool *committed, struct error *error)
{
    struct local *local = (struct local *)transport;
    struct finished_job *finished = calloc(n_jobs ? n_jobs : 1, sizeof *finished);
    size_t *ends = calloc(n_jobs ? n_jobs : 1, sizeof *ends);
    struct buffer records = {0};
    enum status status = store_check_files(local->store, error);
    for (size_t i = 0; finished && ends && i < n_jobs; i++) {
        result_encode(jobs[i], ENCODING_JSON, &records);
        ends[i] = records.size;
    }
    if (status == STATUS_OK && (!finished || !ends || records.failed)) {
        status = error_memory(error, STATUS_RETRY, "writing %zu results", n_jobs);
    } else if (status == STATUS_OK) {
        for (size_t i = 0, start = 0; i < n_jobs; start = ends[i++])
            finished[i] = (struct finished_job){jobs[i], {records.data + start, ends[i] - start}};
        status = store_finish(local->store, finished, n_jobs, committed, error);
    }
    buffer_finish(&records);
    free(ends);
    free(finished);
    return status;
}

static enum status local_release(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                 struct error *error)
{
    struct local *local = (struct local *)transport;
    int64_t *ids = calloc(n_jobs ? n_jobs : 1, sizeof *ids);
    if (!ids)
        return error_memory(error, STATUS_RETRY, "giving back %zu jobs", n_jobs);
    for (size_t i = 0; i < n_jobs; i++)
        ids[i] = jobs[i]->source.offset;
    enum status status = store_release(local->store, ids, n_jobs, error);
    free(ids);
    return status;
}

// The claim has made the start of all jobs durable.
static enum status local_start(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                               enum suspect_state how, struct error *error)
{
    struct local *local = (struct local *)transport;
    if (how == SUSPECT_AMONG_MANY)
        return STATUS_OK;
    int64_t *ids = calloc(n_jobs ? n_jobs : 1, sizeof *ids);
    if (!ids)
        return error_memory(error, STATUS_RETRY, "starting %zu jobs", n_jobs);
    for (size_t i = 0; i < n_jobs; i++)
        ids[i] = jobs[i]->source.offset;
    enum status status = store_suspect(local->store, ids, n_jobs, how, error);
    free(ids);
    return status;
}

static bool local_is_drained(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    bool drained = false;
    struct error error;
    return store_queue_is_drained(local->store, dataset_of(local), &drained, &error) == STATUS_OK && drained;
}

static size_t local_figures(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    (void)transport, (void)figures, (void)n_max;
    return 0; // the queue has no partitions; its tables have more detail
}

static int local_fd(struct transport *transport)
{
    return ((struct local *)transport)->notify_fd;
}

static void local_close(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (local->notify_fd >= 0)
        close(local->notify_fd);
    free(local->dataset);
    free(local->log_name);
    free(local);
}

static const struct transport_impl local_impl = {
    .name = "store",
    .poll = local_poll,
    .pause = local_pause,
    .resume = local_resume,
    .commit = local_commit,
    .release = local_release,
    .is_drained = local_is_drained,
    .figures = local_figures,
    .fd = local_fd,
    .close = local_close,
    .start = local_start,
};

// Without inotify (a file system or a limit may refuse it) the worker polls by time.
static void watch_store(struct local *local)
{
    char *folder = strdup(store_path(local->store)), *base = strdup(store_path(local->store));
    if (folder && base && asprintf(&local->log_name, "%s-wal", basename(base)) >= 0)
        local->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (local->notify_fd >= 0 && inotify_add_watch(local->notify_fd, dirname(folder), IN_MODIFY) < 0) {
        close(local->notify_fd);
        local->notify_fd = -1;
    }
    free(folder);
    free(base);
}

enum status local_transport_open(struct transport **transport, struct store *store, struct text dataset,
                                 struct error *error)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local)
        return error_memory(error, STATUS_REFUSE, "embedded queue");
    local->base.impl = &local_impl;
    local->store = store;
    local->notify_fd = -1;
    if (dataset.size && !(local->dataset = strndup(dataset.data, dataset.size))) {
        free(local);
        return error_memory(error, STATUS_REFUSE, "embedded queue");
    }
    watch_store(local);
    *transport = &local->base;
    return STATUS_OK;
}

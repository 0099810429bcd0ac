#include "consumer/serve/pending_answer.h"

#include "consumer/serve/request_removal.h"
#include "schemas/base/clock.h"
#include "store/hashed_jobs.h"

#include <sys/socket.h>

enum status pending_answer_submit(struct pending_answer *pending, struct text record, struct error *error)
{
    struct text id = text_from_string(pending->id);
    const struct submission submission = {.job_id = id,
                                          .custom_id = id,
                                          .index = -1,
                                          .record = record,
                                          .encoding = ENCODING_JSON,
                                          .priority = JOB_PRIORITY_MAX};
    size_t n_added;
    request_dataset(pending->serve, pending->id, pending->dataset);
    enum status status = store_submit(serve_lock(pending->serve), text_from_string(pending->dataset),
                                      &submission, 1, &n_added, error);
    serve_unlock(pending->serve);
    pending->is_submitted = status == STATUS_OK;
    return status;
}

static enum status take_record(void *context, struct text record, struct error *error)
{
    struct buffer *copy = context;
    buffer_add_text(copy, record);
    return copy->failed ? error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "reading an answer: out of memory")
                        : STATUS_OK;
}

static enum status look_for_answer(struct pending_answer *pending, bool *is_answered, struct error *error)
{
    struct text dataset = text_from_string(pending->dataset);
    int64_t n_missing = 0;
    struct store *store = serve_lock(pending->serve);
    enum status status =
        store_is_finished(store, dataset, text_from_string(pending->id), is_answered, error);
    if (status == STATUS_OK && *is_answered)
        status = store_collect(store, dataset, take_record, &pending->record, &n_missing, error);
    if (status == STATUS_OK && *is_answered)
        status = store_dataset_delete(store, dataset, false, error);
    serve_unlock(pending->serve);
    if (status == STATUS_OK && *is_answered)
        pending->is_submitted = false;
    return status;
}

static bool client_is_gone(const struct pending_answer *pending)
{
    char byte;
    return recv(pending->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

enum pending_end pending_answer_wait(struct pending_answer *pending, int limit_ms, struct error *error)
{
    const int64_t began_ms = clock_ms();
    for (;;) {
        uint64_t seen = store_watch_now(&pending->serve->watch);
        bool is_answered = false;
        enum status status = look_for_answer(pending, &is_answered, error);
        if (status != STATUS_OK && status != STATUS_RETRY)
            return PENDING_FAULT;
        if (status == STATUS_OK && is_answered)
            return PENDING_ANSWERED;
        if (client_is_gone(pending))
            return PENDING_GONE;
        if (atomic_load(&pending->serve->is_closing))
            return PENDING_CLOSING;
        int64_t left_ms = limit_ms < 0 ? SERVE_LOOK_MS : began_ms + limit_ms - clock_ms();
        if (left_ms <= 0)
            return PENDING_LATE;
        store_watch_wait(&pending->serve->watch, seen, left_ms < SERVE_LOOK_MS ? (int)left_ms : SERVE_LOOK_MS);
    }
}

void pending_answer_finish(struct pending_answer *pending)
{
    if (pending->is_submitted)
        request_removal_add(pending->serve, pending->dataset);
    pending->is_submitted = false;
    buffer_finish(&pending->record);
}

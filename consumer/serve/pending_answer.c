#include "consumer/serve/pending_answer.h"

#include "consumer/serve/request_removal.h"
#include "consumer/serve/answer_feed.h"
#include "consumer/serve/answer_merge.h"
#include "schemas/base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = SERVE_ID_BYTES + 8 };

static enum status send_to_topics(struct pending_answer *pending, const struct text *records, size_t n,
                                  struct error *error)
{
    enum status status =
        answer_topics_send(pending->serve->answers, &pending->asked, pending->id, records, n, error);
    pending->is_submitted = status == STATUS_OK;
    return status;
}

enum status pending_answer_submit(struct pending_answer *pending, const struct text *records, size_t n,
                                  struct error *error)
{
    if (pending->serve->answers)
        return send_to_topics(pending, records, n, error);
    struct submission *submissions = calloc(n, sizeof *submissions);
    char(*names)[NAME_BYTES] = calloc(n, sizeof *names);
    enum status status = STATUS_OK;
    size_t n_added;
    if (!submissions || !names)
        status = error_memory(error, STATUS_RETRY, "submitting a request");
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        snprintf(names[i], sizeof names[i], n > 1 ? "%s-%zu" : "%s", pending->id, i);
        submissions[i] = (struct submission){.job_id = text_from_string(names[i]),
                                             .custom_id = text_from_string(names[i]),
                                             .index = (int64_t)i,
                                             .record = records[i],
                                             .encoding = ENCODING_JSON,
                                             .priority = JOB_PRIORITY_MAX};
    }
    request_dataset(pending->serve, pending->id, pending->dataset);
    if (pending->is_streamed && n == 1)
        pending->feed = answer_feed_open(pending->serve, pending->dataset);
    if (status == STATUS_OK) {
        status = store_submit(serve_lock(pending->serve), text_from_string(pending->dataset), submissions, n,
                              &n_added, error);
        serve_unlock(pending->serve);
        pending->is_submitted = status == STATUS_OK;
    }
    free(names);
    free(submissions);
    return status;
}

static enum status take_record(void *context, struct text record, struct error *error)
{
    return answer_merge_add(context, record) ? STATUS_OK
                                             : error_memory(error, STATUS_RETRY, "reading an answer");
}

// The record is copied under the lock; what is made of it, after.
static enum status look_for_answer(struct pending_answer *pending, struct answer_merge *merge,
                                   bool *is_answered, struct error *error)
{
    struct text dataset = text_from_string(pending->dataset);
    int64_t n_missing = 0, n_submitted, n_unfinished;
    bool exists = false;
    struct store *store = serve_lock(pending->serve);
    enum status status = store_dataset_count(store, dataset, &exists, &n_submitted, &n_unfinished, error);
    *is_answered = status == STATUS_OK && exists && n_unfinished == 0;
    if (status == STATUS_OK && !exists)
        status = error_set(error, STATUS_REFUSE, ERROR_STORE, "the request was deleted from the store");
    if (status == STATUS_OK && *is_answered)
        status = store_collect(store, dataset, take_record, merge, &n_missing, error);
    if (status == STATUS_OK && *is_answered)
        status = store_dataset_delete(store, dataset, false, error);
    serve_unlock(pending->serve);
    return status;
}

static enum status look(struct pending_answer *pending, bool *is_answered, struct error *error)
{
    struct answer_merge merge = {0};
    enum status status = pending->serve->answers ? answer_topics_take(pending->serve->answers, pending->asked,
                                                                      &merge, is_answered, error)
                                                 : look_for_answer(pending, &merge, is_answered, error);
    if (status == STATUS_OK && *is_answered)
        pending->is_submitted = false;
    if (status == STATUS_OK && *is_answered && !answer_merge_write(&merge, &pending->body, &pending->status))
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "the answer can't be written");
    answer_merge_finish(&merge);
    return status;
}

// Also if bytes that it sent after its request are unread.
static bool client_is_gone(const struct pending_answer *pending)
{
    struct pollfd client = {pending->socket, POLLRDHUP, 0};
    return poll(&client, 1, 0) > 0;
}

// True: the feed has text.
static bool wait_for_change(struct pending_answer *pending, uint64_t seen, int timeout_ms)
{
    if (pending->feed)
        return answer_feed_wait(pending->feed, seen, timeout_ms);
    store_watch_wait(&pending->serve->watch, seen, timeout_ms);
    return false;
}

enum pending_end pending_answer_wait(struct pending_answer *pending, int limit_ms, struct error *error)
{
    const int64_t began_ms = clock_ms();
    for (;;) {
        uint64_t seen = store_watch_now(&pending->serve->watch);
        bool is_answered = false, is_closing = atomic_load(&pending->serve->is_closing);
        // Text needs no query of the store, whose lock the connections share.
        if (pending->feed && !is_closing && answer_feed_wait(pending->feed, seen, 0))
            return PENDING_TEXT;
        enum status status = look(pending, &is_answered, error);
        if (status != STATUS_OK && (status != STATUS_RETRY || pending->serve->answers))
            return PENDING_FAULT;
        if (status == STATUS_OK && is_answered)
            return PENDING_ANSWERED;
        if (client_is_gone(pending))
            return PENDING_GONE;
        if (is_closing)
            return PENDING_CLOSING;
        if (pending->until_ms && clock_ms() >= pending->until_ms)
            return PENDING_EXPIRED;
        int64_t left_ms = limit_ms < 0 ? SERVE_LOOK_MS : began_ms + limit_ms - clock_ms();
        if (left_ms <= 0)
            return PENDING_LATE;
        if (wait_for_change(pending, seen, left_ms < SERVE_LOOK_MS ? (int)left_ms : SERVE_LOOK_MS))
            return PENDING_TEXT;
    }
}

void pending_answer_finish(struct pending_answer *pending)
{
    if (pending->is_submitted && !pending->serve->answers)
        request_removal_add(pending->serve, pending->dataset);
    pending->is_submitted = false;
    if (pending->asked)
        answer_topics_forget(pending->serve->answers, pending->asked, pending->until_ms);
    pending->asked = NULL;
    answer_feed_close(pending->feed);
    pending->feed = NULL;
    buffer_finish(&pending->body);
}

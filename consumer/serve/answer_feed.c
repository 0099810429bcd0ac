#include "consumer/serve/answer_feed.h"

#include "batching/job_batcher.h"
#include "consumer/serve/answer_events.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fed_text {
    struct buffer unread;
    size_t n_received; // bytes so far
};

struct answer_feed {
    struct feed_waiter waiter; // first: the list's link
    struct serve *serve;
    uint64_t number;
    char dataset[SERVE_ID_BYTES];
    struct buffer name;
    struct fed_text texts[JOB_N_MAX][2]; // of each choice the thoughts, the content
};

struct answer_feed *answer_feed_open(struct serve *serve, const char *dataset)
{
    struct answer_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->serve = serve;
    snprintf(feed->dataset, sizeof feed->dataset, "%s", dataset);
    feed->number = store_watch_join(&serve->watch, &feed->waiter);
    return feed;
}

void answer_feed_close(struct answer_feed *feed)
{
    if (!feed)
        return;
    store_watch_leave(&feed->serve->watch, &feed->waiter);
    for (int i = 0; i < JOB_N_MAX; i++)
        for (int j = 0; j < 2; j++)
            buffer_finish(&feed->texts[i][j].unread);
    buffer_finish(&feed->name);
    free(feed);
}

// ---- the worker's main thread ----

// Called with the watch locked; NULL: the connection has gone.
static struct answer_feed *find_feed(const struct serve *serve, uint64_t number, struct text dataset)
{
    for (struct feed_waiter *at = serve->watch.waiters; at; at = at->next) {
        struct answer_feed *feed = (struct answer_feed *)at;
        if (number ? feed->number == number : text_equals_string(dataset, feed->dataset))
            return feed;
    }
    return NULL;
}

uint64_t serve_stream_begin(void *context, const struct job *job)
{
    struct serve *serve = context;
    store_watch_lock(&serve->watch);
    struct answer_feed *feed = find_feed(serve, 0, job->dataset);
    uint64_t number = feed ? feed->number : 0;
    if (feed && !feed->name.size)
        answer_events_name(job, &feed->name);
    store_watch_unlock(&serve->watch);
    return number;
}

// A job that starts again repeats its text: only what is new is added.
static void add_piece(struct fed_text *text, const struct answer_piece *piece, const char *bytes)
{
    if (piece->offset > text->n_received || piece->offset + piece->n <= text->n_received)
        return;
    size_t n_known = text->n_received - piece->offset, size = text->unread.size;
    buffer_add(&text->unread, bytes + piece->begin + n_known, piece->n - n_known);
    text->n_received += text->unread.size - size;
}

void serve_stream_take(void *context, const struct answer_pieces *pieces)
{
    struct serve *serve = context;
    store_watch_lock(&serve->watch);
    for (size_t i = 0; i < pieces->n; i++) {
        const struct answer_piece *piece = &pieces->items[i];
        struct answer_feed *feed = find_feed(serve, piece->stream, (struct text){0});
        if (!feed || piece->choice >= JOB_N_MAX)
            continue;
        add_piece(&feed->texts[piece->choice][!piece->is_reasoning], piece, pieces->bytes.data);
        store_watch_wake(&feed->waiter);
    }
    store_watch_unlock(&serve->watch);
}

// ---- the connection's thread ----

static bool has_text(const void *context)
{
    const struct answer_feed *feed = context;
    for (int i = 0; i < JOB_N_MAX; i++)
        if (feed->texts[i][0].unread.size || feed->texts[i][1].unread.size)
            return true;
    return false;
}

bool answer_feed_wait(struct answer_feed *feed, uint64_t seen, int timeout_ms)
{
    return store_watch_wait_for(&feed->serve->watch, &feed->waiter, seen, timeout_ms, has_text, feed);
}

bool answer_feed_next(struct answer_feed *feed, uint32_t *choice, bool *is_reasoning, struct buffer *text)
{
    bool found = false;
    store_watch_lock(&feed->serve->watch);
    for (uint32_t i = 0; i < 2 * JOB_N_MAX && !found; i++) {
        struct buffer *unread = &feed->texts[i / 2][i % 2].unread;
        found = unread->size > 0;
        if (!found)
            continue;
        *choice = i / 2;
        *is_reasoning = i % 2 == 0;
        *text = *unread;
        *unread = (struct buffer){0};
    }
    store_watch_unlock(&feed->serve->watch);
    return found;
}

void answer_feed_name(struct answer_feed *feed, struct buffer *name)
{
    store_watch_lock(&feed->serve->watch);
    buffer_add(name, feed->name.data, feed->name.size);
    store_watch_unlock(&feed->serve->watch);
}

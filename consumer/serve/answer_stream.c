#include "consumer/serve/answer_stream.h"

#include "consumer/serve/answer_events.h"
#include "consumer/serve/answer_feed.h"

#include <stdlib.h>

enum { QUIET_MS = 10000 }; // interval of comments

struct answer_stream {
    struct pending_answer pending;
    struct answer_events events;
    struct buffer unsent;
    size_t n_sent;    // of `unsent`
    bool is_complete; // `unsent` has the last event
};

// The end of a wait that brought no answer.
static const char *reason_of(enum pending_end end)
{
    switch (end) {
    case PENDING_CLOSING:
        return "{\"error\":{\"message\":\"The server is stopping.\",\"type\":\"server_error\",\"param\":null,"
               "\"code\":\"stopping\"}}";
    case PENDING_EXPIRED:
        return "{\"error\":{\"message\":\"No worker answered before the request's deadline.\",\"type\":"
               "\"server_error\",\"param\":null,\"code\":\"deadline_exceeded\"}}";
    default:
        return "{\"error\":{\"message\":\"The answer can't be read.\",\"type\":\"server_error\",\"param\":null,"
               "\"code\":\"store_error\"}}";
    }
}

static void write_end(struct answer_stream *stream)
{
    static const char differs[] =
        "{\"error\":{\"message\":\"The answer can't be sent as it was begun.\",\"type\":"
        "\"server_error\",\"param\":null,\"code\":\"stream_error\"}}";
    struct text body = {stream->pending.body.data, stream->pending.body.size};
    size_t n_before = stream->unsent.size;
    stream->is_complete = true;
    if (stream->pending.status != 200) {
        answer_events_fail(body, &stream->unsent);
    } else if (!answer_events_end(&stream->events, body, &stream->unsent)) {
        stream->unsent.size = n_before;
        answer_events_fail(text_from_string(differs), &stream->unsent);
    }
    if (stream->unsent.failed)
        buffer_clear(&stream->unsent); // out of memory: the stream ends without [DONE]
}

// The text that the feed has now.
static void write_text(struct answer_stream *stream)
{
    struct buffer text = {0};
    uint32_t choice;
    bool is_reasoning;
    if (!stream->events.name.size)
        answer_feed_name(stream->pending.feed, &stream->events.name);
    for (; answer_feed_next(stream->pending.feed, &choice, &is_reasoning, &text); buffer_finish(&text))
        answer_events_add(&stream->events, choice, is_reasoning, (struct text){text.data, text.size},
                          &stream->unsent);
}

struct answer_stream *answer_stream_create(struct pending_answer *pending, bool is_chat, bool include_usage)
{
    struct answer_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        pending_answer_finish(pending);
        return NULL;
    }
    *stream = (struct answer_stream){.pending = *pending,
                                     .events = {.is_chat = is_chat, .include_usage = include_usage}};
    *pending = (struct pending_answer){0};
    if (!stream->pending.is_submitted)
        write_end(stream);
    return stream;
}

static void write_more(struct answer_stream *stream)
{
    struct error error;
    enum pending_end end = pending_answer_wait(&stream->pending, QUIET_MS, &error);
    if (end == PENDING_ANSWERED) {
        write_end(stream);
    } else if (end == PENDING_TEXT) {
        write_text(stream);
    } else if (end == PENDING_LATE) {
        buffer_add_string(&stream->unsent, ": computing\n\n");
    } else {
        answer_events_fail(text_from_string(reason_of(end)), &stream->unsent);
        stream->is_complete = true;
    }
}

size_t answer_stream_read(struct answer_stream *stream, char *bytes, size_t n_max)
{
    while (stream->n_sent == stream->unsent.size && !stream->is_complete) {
        stream->n_sent = 0;
        buffer_clear(&stream->unsent);
        write_more(stream);
    }
    size_t n = stream->unsent.size - stream->n_sent;
    n = n < n_max ? n : n_max;
    if (n)
        memcpy(bytes, stream->unsent.data + stream->n_sent, n);
    stream->n_sent += n;
    return n;
}

void answer_stream_destroy(struct answer_stream *stream)
{
    if (!stream)
        return;
    pending_answer_finish(&stream->pending);
    answer_events_finish(&stream->events);
    buffer_finish(&stream->unsent);
    free(stream);
}

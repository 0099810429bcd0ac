#include "consumer/serve/answer_stream.h"

#include "consumer/serve/answer_body.h"

#include <stdlib.h>

enum { QUIET_MS = 10000 }; // interval of comments

struct answer_stream {
    struct pending_answer pending;
    bool is_chat, include_usage;
    struct buffer events;
    size_t n_sent;
    bool is_complete; // `events` has the last one
};

// The end of a wait that brought no answer.
static const char *reason_of(enum pending_end end)
{
    return end == PENDING_CLOSING
               ? "{\"error\":{\"message\":\"The server is stopping.\",\"type\":\"server_error\",\"param\":null,"
                 "\"code\":\"stopping\"}}"
               : "{\"error\":{\"message\":\"The store can't be read.\",\"type\":\"server_error\",\"param\":null,"
                 "\"code\":\"store_error\"}}";
}

static void write_events(struct answer_stream *stream)
{
    struct text text = {stream->pending.body.data, stream->pending.body.size};
    if (stream->pending.status != 200)
        answer_events_fail(text, &stream->events);
    else if (!answer_events_write(text, stream->is_chat, stream->include_usage, &stream->events))
        buffer_clear(&stream->events); // out of memory: the stream ends without [DONE]
    stream->is_complete = true;
}

struct answer_stream *answer_stream_create(struct pending_answer *pending, bool is_chat, bool include_usage)
{
    struct answer_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        pending_answer_finish(pending);
        return NULL;
    }
    *stream = (struct answer_stream){.pending = *pending, .is_chat = is_chat, .include_usage = include_usage};
    *pending = (struct pending_answer){0};
    if (!stream->pending.is_submitted)
        write_events(stream);
    return stream;
}

size_t answer_stream_read(struct answer_stream *stream, char *bytes, size_t n_max)
{
    struct error error;
    while (stream->n_sent == stream->events.size && !stream->is_complete) {
        stream->n_sent = 0;
        buffer_clear(&stream->events);
        enum pending_end end = pending_answer_wait(&stream->pending, QUIET_MS, &error);
        if (end == PENDING_ANSWERED) {
            write_events(stream);
        } else if (end == PENDING_LATE) {
            buffer_add_string(&stream->events, ": computing\n\n");
        } else {
            answer_events_fail(text_from_string(reason_of(end)), &stream->events);
            stream->is_complete = true;
        }
    }
    size_t n = stream->events.size - stream->n_sent;
    n = n < n_max ? n : n_max;
    if (n)
        memcpy(bytes, stream->events.data + stream->n_sent, n);
    stream->n_sent += n;
    return n;
}

void answer_stream_destroy(struct answer_stream *stream)
{
    if (!stream)
        return;
    pending_answer_finish(&stream->pending);
    buffer_finish(&stream->events);
    free(stream);
}

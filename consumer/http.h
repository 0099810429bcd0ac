// A web server for figures: GET alone, small requests, few connections, no state. A connection that is slow is closed when its time is
// over, and before that when others need its place: probes are answered however many connections trickle. It has no thread: its owner waits on the
// descriptor beside everything else and calls http_serve. Thread: main.
#pragma once

#include "schemas/error.h"
#include "schemas/text.h"

enum {
    HTTP_CONNECTIONS_MAX = 32,
    HTTP_REQUEST_BYTES_MAX = 16384, // of a connection, its answer's head included; larger requests are refused
    HTTP_IDLE_SECONDS = 15, // longer than the main loop may be held up by a broker
    HTTP_REQUEST_SECONDS = 20, // from a connection, or from its last answer, to the next answer
};

struct http_answer {
    int status;               // 200, 404, 503
    const char *content_type; // a literal
    struct buffer body;       // the server's, finished by it
};

// `path` is without the query.
typedef void http_handler(void *context, const char *path, struct http_answer *answer);

struct http;

// `address` is HOST:PORT, [HOST]:PORT, or a port alone: the loopback. Port 0 takes a free one. STATUS_REFUSE says what is
// wrong with it, or who else has it.
enum status http_open(struct http **http, const char *address, http_handler *handler, void *context, struct error *error)
    WARN_UNUSED;
const char *http_address(const struct http *http); // as it is bound
int http_fd(const struct http *http);
void http_serve(struct http *http);
void http_close(struct http *http);

// A small HTTP server for metrics and probes: GET only, small requests, few connections, no state. Slow
// connections are closed after a timeout, or earlier when others need their slot, so that probes are always
// answered. It has no thread: the owner polls its descriptor and calls http_serve. Thread: main.
#pragma once

#include "schemas/error.h"
#include "schemas/text.h"

#include <stdbool.h>

enum {
    HTTP_CONNECTIONS_MAX = 32,
    HTTP_REQUEST_BYTES_MAX = 16384, // per connection, with the response's header; larger requests are refused
    HTTP_IDLE_SECONDS = 15,         // longer than a broker can block the main loop
    HTTP_REQUEST_SECONDS = 20,      // from the connection or its last response to the next response
};

struct http_answer {
    int status;               // 200, 401, 404, 503
    const char *content_type; // a literal
    struct buffer body;       // owned by the server
};

// `path` is without the query; `authorization` is the header's value, NULL: absent.
typedef void http_handler(void *context, const char *path, const char *authorization,
                          struct http_answer *answer);

struct http;

// `address` is HOST:PORT, [HOST]:PORT, or PORT for the loopback. Port 0 selects a free one. STATUS_REFUSE:
// invalid, in use, or with `only_loopback` reachable from another machine.
enum status http_open(struct http **http, const char *address, bool only_loopback, http_handler *handler,
                      void *context, struct error *error) WARN_UNUSED;
const char *http_address(const struct http *http); // as it is bound
int http_fd(const struct http *http);
void http_serve(struct http *http);
void http_close(struct http *http);

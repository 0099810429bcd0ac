// A small HTTP server for metrics and probes: GET and HEAD only, small requests, few connections, no state.
// Slow connections are closed after a timeout, or earlier if others need their slot, so that probes are
// always answered. The server's own thread, sheaf-http, answers requests one at a time and calls the handler.
// Thread: main, except the handler.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdbool.h>

enum {
    HTTP_CONNECTIONS_MAX = 32,
    HTTP_REQUEST_BYTES_MAX = 16384, // per connection, with the response's header; larger requests are refused
    HTTP_IDLE_S = 15,
    HTTP_REQUEST_S = 20, // from the connection or its last response to the next response
};

struct http_answer {
    int status;               // 200, 401, 403, 404, 503
    const char *content_type; // a literal
    struct buffer body;       // owned by the server
};

// Thread: sheaf-http. `path` is without the query; `authorization` is the header's value, NULL: absent.
typedef void http_handler(void *context, const char *path, const char *authorization,
                          struct http_answer *answer);

struct http;

// Starts the server. `address` is HOST:PORT, [HOST]:PORT, or PORT for the loopback; port 0 selects a free
// port. only_loopback: refuses an address that other machines can reach, and answers 403 to requests whose
// Host is neither a name of the loopback nor the host in `address`. STATUS_REFUSE: the address is invalid, in
// use or refused, or no thread could be started.
enum status http_open(struct http **http, const char *address, bool only_loopback, http_handler *handler,
                      void *context, struct error *error) WARN_UNUSED;
const char *http_address(const struct http *http); // the address that is bound
// Returns after the last call of the handler has returned.
void http_close(struct http *http);

// HTTP by libmicrohttpd, a thread a connection: a slow client holds its own thread alone, and a request that
// waits for its answer blocks nobody. Uploads go to disk as they arrive. Thread: main.
#pragma once

#include "consumer/serve/serve_state.h"

struct serve_http;

// Takes over the listening socket. STATUS_REFUSE: no server could be started.
enum status serve_http_open(struct serve_http **http, struct serve *serve, int file,
                            struct error *error) WARN_UNUSED;
// Returns after the last reply; serve->is_closing is set, so that none waits.
void serve_http_close(struct serve_http *http);

// The address that an HTTP server listens on, and whether a request is from this machine. Thread: main, except
// http_host_is_local, http_origin_is_local: any.
#pragma once

#include "schemas/base/error.h"

#include <netdb.h>

enum { HTTP_ADDRESS_BYTES = NI_MAXHOST + 16 };

struct bound_address {
    char text[HTTP_ADDRESS_BYTES]; // as it is bound: HOST:PORT
    char name[NI_MAXHOST];         // the host as it was given
    bool is_loopback;              // other machines do not reach it
};

// Binds and listens: a socket that does not block, in *file. `address` is HOST:PORT, [HOST]:PORT, or PORT for
// the loopback; port 0 selects a free port. The port of a process that was killed is free at once. `option`
// is named in errors. STATUS_REFUSE: the address is invalid or in use; *file is -1.
enum status http_address_bind(struct bound_address *bound, const char *option, const char *address,
                              int n_waiting_max, int *file, struct error *error) WARN_UNUSED;

// Whether a Host header names the loopback, or the host as it was given. A page of another site whose name was
// made to resolve to the loopback (DNS rebinding) sends its own name. Browsers always send a Host; without it
// (NULL) the client is not a browser.
bool http_host_is_local(const struct bound_address *bound, const char *header);
// Whether an Origin header is a page of this machine. Without it (NULL) the request is from no page.
bool http_origin_is_local(const struct bound_address *bound, const char *header);

// From a method and a path to a handler. Thread: the connection's.
#pragma once

#include "consumer/serve/call.h"

// Whether the call is answered without a token, /healthz and /readyz, and whether its body is a form.
bool serve_route_is_probe(const char *path);
bool serve_route_is_upload(const char *method, const char *path);
// Answers the call, whose body is complete: call->reply.
void serve_route_answer(struct call *call);

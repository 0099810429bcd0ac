// --trace-steps: one JSON line a step, with its rows and what its time went to, as the backend measured it.
// Thread: the engine's, between open and close.
#pragma once

#include "engine/forward.h"

struct trace;

// Makes the backend measure. Errors: STATUS_REFUSE, ERROR_FILE.
enum status trace_open(struct trace **trace, const char *path, struct backend *backend, struct error *error) WARN_UNUSED;
// The step that just ended.
void trace_write(struct trace *trace, const struct step *step);
// Says when not everything could be written. NULL is fine.
void trace_close(struct trace *trace);

// --trace-steps: one JSON line per step, with its tokens and the time of its parts as measured by the backend
// (engine/session.h). Thread: main.
#pragma once

#include "engine/session.h"

struct trace;

// Replaces an earlier trace, and any other file only with `may_overwrite`. Errors: STATUS_REFUSE, ERROR_FILE.
enum status trace_open(struct trace **trace, const char *path, bool may_overwrite,
                       struct error *error) WARN_UNUSED;
// Writes nothing if `trace` is NULL or the step was not measured.
void trace_write(struct trace *trace, const struct step_trace *step);
// Logs a warning if a write failed. NULL is valid.
void trace_close(struct trace *trace);

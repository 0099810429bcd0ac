#include "consumer/trace.h"

#include "consumer/log.h"
#include "schemas/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace {
    FILE *file;
    struct backend *backend;
    struct step_times times;
    int64_t n_steps;
    double opened_us, step_ended_us;
};

enum status trace_open(struct trace **out, const char *path, struct backend *backend, struct error *error)
{
    *out = NULL;
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "--trace-steps: out of memory");
    trace->file = fopen(path, "we");
    if (!trace->file) {
        free(trace);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "--trace-steps %s: %s", path, strerror(errno));
    }
    trace->backend = backend;
    trace->opened_us = trace->step_ended_us = 1e-3 * (double)clock_ns();
    backend->impl->trace(backend, &trace->times);
    *out = trace;
    return STATUS_OK;
}

void trace_write(struct trace *trace, const struct step *step)
{
    static const char *const names[PHASE_COUNT] = {[PHASE_UPLOAD] = "upload",       [PHASE_EMBED] = "embed",
                                                   [PHASE_ATTENTION] = "attention", [PHASE_PRODUCTS] = "products",
                                                   [PHASE_SAMPLING] = "sampling",   [PHASE_DOWNLOAD] = "download"};
    int32_t n_first = 0;
    for (int32_t i = 0; step->samples && i < step->n_outputs; i++)
        n_first += step->samples[i].index == 0;
    double now = 1e-3 * (double)clock_ns();
    fprintf(trace->file, "{\"step\":%lld,\"ended_us\":%.0f,\"since_last_us\":%.0f,\"sequences\":%d,\"rows\":%d,"
                         "\"outputs\":%d,\"first_tokens\":%d",
            (long long)trace->n_steps++, now - trace->opened_us, now - trace->step_ended_us, step->n_sequences,
            step->n_rows, step->n_outputs, n_first);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        fprintf(trace->file, ",\"%s_us\":%.1f", names[phase], trace->times.us[phase]);
    fputs("}\n", trace->file);
    trace->step_ended_us = now;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    trace->backend->impl->trace(trace->backend, NULL);
    bool failed = ferror(trace->file);
    if (fclose(trace->file) != 0 || failed)
        log_write(LOG_WARNING, "--trace-steps: not all steps could be written");
    free(trace);
}

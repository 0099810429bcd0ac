#include "consumer/worker/trace.h"

#include "consumer/observe/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct trace {
    FILE *file;
};

static const char line_begin[] = "{\"step\":";

// True if the file may be replaced: it does not exist, or is a stream or an earlier trace.
static bool may_replace(const char *path)
{
    struct stat about;
    char bytes[sizeof line_begin - 1];
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return true;
    FILE *file = fopen(path, "re");
    bool is_trace = file && fread(bytes, 1, sizeof bytes, file) == sizeof bytes &&
                    memcmp(bytes, line_begin, sizeof bytes) == 0;
    if (file)
        fclose(file);
    return is_trace;
}

enum status trace_open(struct trace **out, const char *path, bool may_overwrite, struct error *error)
{
    *out = NULL;
    if (!may_overwrite && !may_replace(path))
        return error_set(
            error, STATUS_REFUSE, ERROR_FILE,
            "--trace-steps: %s exists, and is no trace of steps: give another name, or --overwrite", path);
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return error_memory(error, STATUS_REFUSE, "--trace-steps");
    trace->file = fopen(path, "we");
    if (!trace->file) {
        free(trace);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "--trace-steps %s: %s", path, strerror(errno));
    }
    setvbuf(trace->file, NULL, _IOLBF, 0); // a killed process leaves whole lines
    *out = trace;
    return STATUS_OK;
}

void trace_write(struct trace *trace, const struct step_trace *step)
{
    static const char *const names[PHASE_COUNT] = {
        [PHASE_UPLOAD] = "upload",     [PHASE_EMBED] = "embed",       [PHASE_ATTENTION] = "attention",
        [PHASE_PRODUCTS] = "products", [PHASE_SAMPLING] = "sampling", [PHASE_DOWNLOAD] = "download"};
    if (!trace || step->n_tokens == 0)
        return;
    fprintf(trace->file,
            "%s%lld,\"ended_us\":%.0f,\"since_last_us\":%.0f,\"sequences\":%d,\"rows\":%d,"
            "\"outputs\":%d,\"first_tokens\":%d",
            line_begin, (long long)step->number, step->ended_us, step->since_last_us, step->n_sequences,
            step->n_tokens, step->n_outputs, step->n_first_tokens);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        fprintf(trace->file, ",\"%s_us\":%.1f", names[phase], step->times.us[phase]);
    fputs("}\n", trace->file);
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    bool failed = ferror(trace->file);
    if (fclose(trace->file) != 0 || failed)
        log_write(LOG_WARNING, "--trace-steps: not all steps could be written");
    free(trace);
}

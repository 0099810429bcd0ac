#include "consumer/headers.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add(struct record_headers *headers, const char *name, struct text value)
{
    assert(headers->n_items < RECORD_HEADERS_MAX);
    headers->items[headers->n_items++] = (struct header){text_from_string(name), value};
}

// Long enough for all of them: what comes from outside (topic, worker, an error's text) is bounded, and cut
// here.
PRINTF_LIKE(3, 4)
static void add_format(struct record_headers *headers, const char *name, const char *format, ...)
{
    char *at = headers->text + headers->used_bytes;
    size_t space = sizeof headers->text - headers->used_bytes;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(at, space, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : (size_t)length < space ? (size_t)length : space - 1;
    headers->used_bytes += size < space - 1 ? size + 1 : size;
    add(headers, name, (struct text){at, size});
}

static void add_integer(struct record_headers *headers, const char *name, int64_t value)
{
    add_format(headers, name, "%" PRId64, value);
}

// RFC 3339, milliseconds, UTC.
static void add_time(struct record_headers *headers, const char *name, int64_t time_us)
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    add_format(headers, name, "%s.%03dZ", text, (int)(time_us / 1000 % 1000));
}

struct text headers_find(const struct header *headers, int32_t n_headers, const char *name)
{
    for (int32_t i = 0; i < n_headers; i++) {
        if (text_equals_string(headers[i].name, name))
            return headers[i].value;
    }
    return (struct text){0};
}

bool headers_read_integer(const struct header *headers, int32_t n_headers, const char *name, int64_t *value)
{
    struct text text = headers_find(headers, n_headers, name);
    char digits[24];
    if (text.size == 0 || text.size >= sizeof digits)
        return false;
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    char *end;
    errno = 0;
    long long parsed = strtoll(digits, &end, 10);
    if (*end != '\0' || parsed < 0 || errno != 0)
        return false;
    *value = parsed;
    return true;
}

static void pass_through(struct record_headers *headers, const struct job_source *source, const char *name)
{
    struct text value = headers_find(source->headers, source->n_headers, name);
    if (value.size > 0)
        add(headers, name, value);
}

void headers_of_result(struct record_headers *headers, const struct job *job, enum encoding encoding,
                       const char *worker, int64_t finished_us)
{
    const struct job_source *source = &job->source;
    *headers = (struct record_headers){0};
    add(headers, "content-type",
        text_from_string(encoding == ENCODING_JSON ? CONTENT_TYPE_JSON : CONTENT_TYPE_MSGPACK));
    // A result's identity is its job's place in the log: published again after a crash it would bear the same
    // one.
    add(headers, "ce_specversion", TEXT("1.0"));
    add_format(headers, "ce_id", "%" PRId32 "-%" PRId64, source->partition, source->offset);
    add_format(headers, "ce_source", "/sheaf/%.*s", (int)source->topic.size, source->topic.data);
    add(headers, "ce_type", TEXT("sheaf.result"));
    if (job->job_id.size > 0)
        add(headers, "ce_subject", job->job_id);
    add_time(headers, "ce_time", finished_us);
    pass_through(headers, source, "traceparent");
    pass_through(headers, source, "tracestate");
    add(headers, "sheaf-source-topic", source->topic);
    add_integer(headers, "sheaf-source-partition", source->partition);
    add_integer(headers, "sheaf-source-offset", source->offset);
    add_format(headers, "sheaf-worker", "%.255s", worker);
    add_integer(headers, "sheaf-attempts", job->figures.attempts);
    add_integer(headers, "sheaf-cached-tokens", job->figures.cached_tokens);
    add_integer(headers, "sheaf-queued-us", job->figures.queued_us);
    add_integer(headers, "sheaf-prefill-us", job->figures.prefill_us);
    add_integer(headers, "sheaf-decode-us", job->figures.decode_us);
    add_integer(headers, "sheaf-finished-us", finished_us);
}

static const char *stage_name(enum error_code code)
{
    switch (code) {
    case ERROR_INVALID_ENCODING:
    case ERROR_INVALID_FIELD:
    case ERROR_MISSING_FIELD:
    case ERROR_UNSUPPORTED_FIELD:
    case ERROR_LIMIT_EXCEEDED:
        return "decode";
    default:
        return "compute";
    }
}

void headers_of_dead_letter(struct record_headers *headers, const struct job *job, const char *omitted,
                            int64_t now_us)
{
    const struct job_source *source = &job->source;
    const struct error *error = &job->result.error;
    *headers = (struct record_headers){0};
    add(headers, "__sheaf.errors.topic", source->topic);
    add_integer(headers, "__sheaf.errors.partition", source->partition);
    add_integer(headers, "__sheaf.errors.offset", source->offset);
    add(headers, "__sheaf.errors.stage", text_from_string(stage_name(error->code)));
    add(headers, "__sheaf.errors.code", text_from_string(error_code_name(error->code)));
    add(headers, "__sheaf.errors.message", text_from_string(error->text));
    add_integer(headers, "__sheaf.errors.attempts", job->figures.attempts);
    add_time(headers, "__sheaf.errors.timestamp", now_us);
    if (omitted)
        add(headers, "__sheaf.errors.omitted", text_from_string(omitted));
}

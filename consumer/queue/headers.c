#include "consumer/queue/headers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { WORKER_NAME_BYTES_MAX = 255, SEGMENT_BYTES_MAX = 255, ESCAPED_BYTES = 3 };

// A result's ce_source is /sheaf/GROUP/TOPIC.
#define SOURCE_PREFIX "/sheaf/"

static void add_header(struct record_headers *headers, struct text name, struct text value)
{
    assert(headers->n_items < RECORD_HEADERS_MAX);
    headers->items[headers->n_items++] = (struct header){name, value};
}

// Appends to a value. `text` has room for all values, because texts from outside (topic, worker, an error's
// text) are bounded, and truncated here.
static void append_value(struct record_headers *headers, struct text *value, struct text part)
{
    size_t room = sizeof headers->text - headers->used_bytes;
    size_t size = part.size < room ? part.size : room;
    if (!value->data)
        value->data = headers->text + headers->used_bytes;
    if (size)
        memcpy(headers->text + headers->used_bytes, part.data, size);
    headers->used_bytes += size;
    value->size += size;
}

static void append_integer(struct record_headers *headers, struct text *value, int64_t integer)
{
    char digits[INTEGER_TEXT_BYTES];
    append_value(headers, value, text_from_integer(integer, digits));
}

static void add_integer(struct record_headers *headers, struct text name, int64_t integer)
{
    struct text value = {0};
    append_integer(headers, &value, integer);
    add_header(headers, name, value);
}

static void write_digits(char *at, int n_digits, int number)
{
    for (; n_digits > 0; number /= 10)
        at[--n_digits] = (char)('0' + number % 10);
}

// RFC 3339, milliseconds, UTC.
static void add_time(struct record_headers *headers, struct text name, int64_t time_us)
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    char text[] = "0000-00-00T00:00:00.000Z";
    write_digits(text, 4, parts.tm_year + 1900);
    write_digits(text + 5, 2, parts.tm_mon + 1);
    write_digits(text + 8, 2, parts.tm_mday);
    write_digits(text + 11, 2, parts.tm_hour);
    write_digits(text + 14, 2, parts.tm_min);
    write_digits(text + 17, 2, parts.tm_sec);
    write_digits(text + 20, 3, (int)(time_us / 1000 % 1000));
    struct text value = {0};
    append_value(headers, &value, text_from_string(text));
    add_header(headers, name, value);
}

struct text headers_find(const struct header *headers, int32_t n_headers, const char *name)
{
    struct text wanted = text_from_string(name);
    for (int32_t i = 0; i < n_headers; i++) {
        if (text_equal(headers[i].name, wanted))
            return headers[i].value;
    }
    return (struct text){0};
}

bool headers_are_of_topic(const struct header *headers, int32_t n_headers, const char *topic)
{
    struct text source = headers_find(headers, n_headers, "sheaf-source-topic");
    return source.size == 0 || text_equals_string(source, topic);
}

// Bytes of a segment of a URI's path that are not escaped (RFC 3986, section 2.3).
static const bool is_plain[256] = {
    ['-'] = true,         ['.'] = true,         ['_'] = true,         ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

// Returns the number of bytes written.
static size_t escape_byte(char segment_byte, char escaped[ESCAPED_BYTES])
{
    unsigned char byte = (unsigned char)segment_byte;
    escaped[0] = is_plain[byte] ? segment_byte : '%';
    if (is_plain[byte])
        return 1;
    escaped[1] = "0123456789ABCDEF"[byte >> 4];
    escaped[2] = "0123456789ABCDEF"[byte & 15];
    return ESCAPED_BYTES;
}

bool headers_are_of_group(const struct header *headers, int32_t n_headers, const char *group)
{
    struct text source = headers_find(headers, n_headers, "ce_source");
    const size_t n_prefix = sizeof SOURCE_PREFIX - 1;
    if (source.size < n_prefix || memcmp(source.data, SOURCE_PREFIX, n_prefix) != 0)
        return true; // not of sheaf
    const char *at = source.data + n_prefix, *end = memchr(at, '/', source.size - n_prefix);
    if (!end)
        return true; // the topic alone, of an earlier version
    for (size_t i = 0; group[i] && i < SEGMENT_BYTES_MAX; i++) {
        char escaped[ESCAPED_BYTES];
        size_t size = escape_byte(group[i], escaped);
        if ((size_t)(end - at) < size || memcmp(at, escaped, size) != 0)
            return false;
        at += size;
    }
    return at == end;
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

struct job_identity headers_identity(const struct header *headers, int32_t n_headers)
{
    struct job_identity identity = {.dataset = headers_find(headers, n_headers, HEADER_DATASET),
                                    .job_id = headers_find(headers, n_headers, HEADER_JOB_ID),
                                    .custom_id = headers_find(headers, n_headers, HEADER_CUSTOM_ID)};
    identity.has_index = headers_read_integer(headers, n_headers, HEADER_INDEX, &identity.index);
    identity.has_created = headers_read_integer(headers, n_headers, HEADER_CREATED, &identity.created_s);
    return identity;
}

struct text headers_reply_topic(const struct header *headers, int32_t n_headers)
{
    struct text topic = headers_find(headers, n_headers, "reply-topic");
    return topic.size ? topic : headers_find(headers, n_headers, "kafka_replyTopic");
}

// ---- headers that a result repeats ----

// Trace contexts of W3C and Zipkin, and what request-reply clients, Spring's among them, correlate by.
static const char *const passed_names[] = {
    "traceparent",   "tracestate",          "baggage", "b3",        "x-b3-*", "correlation-id",
    "correlationid", "kafka_correlationid", "tenant",  "tenant-id", NULL};

static bool name_is(struct text name, const char *pattern, size_t n_pattern)
{
    bool is_prefix = n_pattern > 0 && pattern[n_pattern - 1] == '*';
    size_t n = n_pattern - is_prefix;
    return (is_prefix ? name.size >= n : name.size == n) && strncasecmp(name.data, pattern, n) == 0;
}

static bool is_in_list(struct text name, const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (name_is(name, at, strcspn(at, ",")))
            return true;
    }
    return false;
}

static bool is_passed(struct text name, const char *also)
{
    for (int i = 0; passed_names[i]; i++) {
        if (name_is(name, passed_names[i], strlen(passed_names[i])))
            return true;
    }
    return also && !headers_are_own(name) && is_in_list(name, also);
}

bool headers_are_own(struct text name)
{
    static const char *const own[] = {"ce_*", "sheaf-*", "__sheaf.*", "content-type"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (name_is(name, own[i], strlen(own[i])))
            return true;
    }
    return false;
}

int32_t headers_pass(const struct header *headers, int32_t n_headers, const char *also, struct header *passed)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_headers; i++) {
        if (is_passed(headers[i].name, also))
            passed[n++] = headers[i];
    }
    return n;
}

// Does not clear the bytes, which are not read.
static void clear_headers(struct record_headers *headers)
{
    headers->n_items = 0;
    headers->used_bytes = 0;
}

static void append_segment(struct record_headers *headers, struct text *value, struct text segment)
{
    char escaped[SEGMENT_BYTES_MAX * ESCAPED_BYTES];
    size_t n_bytes = 0, size = segment.size < SEGMENT_BYTES_MAX ? segment.size : SEGMENT_BYTES_MAX,
           n_plain = 0;
    while (n_plain < size && is_plain[(unsigned char)segment.data[n_plain]])
        n_plain++;
    append_value(headers, value, (struct text){segment.data, n_plain}); // most names need no escape
    for (size_t i = n_plain; i < size; i++)
        n_bytes += escape_byte(segment.data[i], escaped + n_bytes);
    append_value(headers, value, (struct text){escaped, n_bytes});
}

void headers_of_result(struct record_headers *headers, const struct job *job, const char *group,
                       const char *worker, int64_t finished_us)
{
    const struct job_source *source = &job->source;
    clear_headers(headers);
    add_header(headers, TEXT("content-type"),
               text_from_string(job->source.encoding == ENCODING_JSON ? CONTENT_TYPE_JSON
                                                                      : CONTENT_TYPE_MSGPACK));
    // A result's identity is its group and its job's place in the log, so a result that is published again
    // after a crash keeps its identity.
    add_header(headers, TEXT("ce_specversion"), TEXT("1.0"));
    struct text id = {0}, from = {0}, maker = {0};
    append_integer(headers, &id, source->partition);
    append_value(headers, &id, TEXT("-"));
    append_integer(headers, &id, source->offset);
    add_header(headers, TEXT("ce_id"), id);
    append_value(headers, &from, TEXT(SOURCE_PREFIX));
    append_segment(headers, &from, text_from_string(group));
    append_value(headers, &from, TEXT("/"));
    append_segment(headers, &from, source->topic);
    add_header(headers, TEXT("ce_source"), from);
    add_header(headers, TEXT("ce_type"), TEXT("sheaf.result"));
    if (job->job_id.size > 0)
        add_header(headers, TEXT("ce_subject"), job->job_id);
    add_time(headers, TEXT("ce_time"), finished_us);
    struct text cause = headers_find(source->headers, source->n_headers, "ce_id");
    if (cause.size > 0)
        add_header(headers, TEXT("ce_causationid"), cause);
    add_header(headers, TEXT("sheaf-source-topic"), source->topic);
    add_integer(headers, TEXT("sheaf-source-partition"), source->partition);
    add_integer(headers, TEXT("sheaf-source-offset"), source->offset);
    append_value(headers, &maker, (struct text){worker, strnlen(worker, WORKER_NAME_BYTES_MAX)});
    add_header(headers, TEXT("sheaf-worker"), maker);
    add_integer(headers, TEXT("sheaf-attempts"), job->figures.attempts);
    if (source->redriven)
        add_integer(headers, TEXT(HEADER_REDRIVEN), source->redriven);
    add_integer(headers, TEXT("sheaf-cached-tokens"), job->figures.cached_tokens);
    if (job->figures.is_duplicate)
        add_integer(headers, TEXT("sheaf-duplicate"), 1);
    add_integer(headers, TEXT("sheaf-queued-us"), job->figures.queued_us);
    add_integer(headers, TEXT("sheaf-prefill-us"), job->figures.prefill_us);
    add_integer(headers, TEXT("sheaf-decode-us"), job->figures.decode_us);
    add_integer(headers, TEXT("sheaf-finished-us"), finished_us);
    const char *constraint = job_constraint_name(job);
    if (constraint) {
        add_header(headers, TEXT("sheaf-constrained-by"), text_from_string(constraint));
        add_integer(headers, TEXT("sheaf-forced-tokens"), job->figures.forced_tokens);
    }
    if (job->figures.drafted_tokens) {
        add_integer(headers, TEXT("sheaf-drafted-tokens"), job->figures.drafted_tokens);
        add_integer(headers, TEXT("sheaf-accepted-tokens"), job->figures.accepted_tokens);
    }
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
    case ERROR_RESULT_REFUSED:
        return "publish";
    default:
        return "compute";
    }
}

void headers_of_dead_letter(struct record_headers *headers, const struct job *job, const char *omitted,
                            int64_t now_us)
{
    const struct job_source *source = &job->source;
    const struct error *error = &job->result.error;
    clear_headers(headers);
    add_header(headers, TEXT("__sheaf.errors.topic"), source->topic);
    add_integer(headers, TEXT("__sheaf.errors.partition"), source->partition);
    add_integer(headers, TEXT("__sheaf.errors.offset"), source->offset);
    add_header(headers, TEXT("__sheaf.errors.stage"), text_from_string(stage_name(error->code)));
    add_header(headers, TEXT("__sheaf.errors.code"), text_from_string(error_code_name(error->code)));
    add_header(headers, TEXT("__sheaf.errors.message"), text_from_string(error->text));
    add_integer(headers, TEXT("__sheaf.errors.attempts"), job->figures.attempts);
    add_time(headers, TEXT("__sheaf.errors.timestamp"), now_us);
    if (omitted)
        add_header(headers, TEXT("__sheaf.errors.omitted"), text_from_string(omitted));
}

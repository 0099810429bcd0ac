// Job records for tests. JSON is written with single quotes, for legibility; every record is read in both
// encodings.
#pragma once

#include "schemas/job.h"
#include "tests/support/cases.h"

// The shortest jobs, with further members that begin with a comma.
#define PROMPT_JOB(more) "{'job_id':'a','prompt':'p'" more "}"
#define CHAT_JOB(more)   "{'job_id':'a','messages':[{'role':'user','content':'x'}]" more "}"

struct decoded_job {
    struct job *job;
    struct error error;
    enum status status;
};

static inline struct decoded_job decode_bytes(struct text record, enum encoding encoding)
{
    struct decoded_job decoded = {.job = job_create()};
    assert_non_null(decoded.job);
    decoded.status = job_decode(decoded.job, record, encoding, &decoded.error);
    return decoded;
}

static inline void unquote(char *json)
{
    for (; *json; json++)
        if (*json == '\'')
            *json = '"';
}

// The same record as msgpack.
static inline struct buffer to_msgpack(const char *json)
{
    struct arena arena = {0};
    struct value value;
    struct error error;
    struct buffer out = {0};
    if (json_decode(text_from_string(json), &arena, &value, &error) != STATUS_OK)
        fail_msg("%s: %s", json, error.text);
    msgpack_encode(&value, &out);
    arena_finish(&arena);
    return out;
}

// Decodes both encodings of the record; they must agree to the last byte of the error.
static inline struct decoded_job decode(const char *format, ...) PRINTF_LIKE(1, 2);
static inline struct decoded_job decode(const char *format, ...)
{
    char *json;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&json, format, arguments) >= 0);
    va_end(arguments);
    unquote(json);
    struct buffer msgpack = to_msgpack(json);
    struct decoded_job decoded = decode_bytes(text_from_string(json), ENCODING_JSON);
    struct decoded_job other = decode_bytes((struct text){msgpack.data, msgpack.size}, ENCODING_MSGPACK);
    assert_int_equal(decoded.status, other.status);
    if (decoded.status == STATUS_OK) {
        struct buffer a = {0}, b = {0};
        job_encode(decoded.job, ENCODING_JSON, &a);
        job_encode(other.job, ENCODING_JSON, &b);
        assert_string_equal(a.data, b.data);
        buffer_finish(&a);
        buffer_finish(&b);
    } else {
        assert_int_equal(decoded.error.code, other.error.code);
        assert_string_equal(decoded.error.text, other.error.text);
    }
    job_destroy(other.job);
    buffer_finish(&msgpack);
    free(json);
    return decoded;
}

static inline struct job *decode_good(const char *record)
{
    struct decoded_job decoded = decode("%s", record);
    if (decoded.status != STATUS_OK)
        fail_msg("%s: %s", record, decoded.error.text);
    return decoded.job;
}

static inline void assert_refused(const char *record, enum error_code code, const char *text)
{
    struct decoded_job decoded = decode("%s", record);
    if (decoded.status != STATUS_REJECT)
        fail_msg("%s: status %d", record, decoded.status);
    char *expected = strdup(text);
    unquote(expected);
    if (strcmp(decoded.error.text, expected) != 0 || decoded.error.code != code)
        fail_msg("%s\ngot %s: %s\nexpected %s: %s", record, error_code_name(decoded.error.code),
                 decoded.error.text, error_code_name(code), expected);
    free(expected);
    job_destroy(decoded.job);
}

static inline void assert_encodes(const struct job *job, const char *expected)
{
    struct buffer out = {0};
    char *json = strdup(expected);
    unquote(json);
    job_encode(job, ENCODING_JSON, &out);
    assert_string_equal(out.data, json);
    free(json);
    buffer_finish(&out);
}

static inline void assert_recodes(const char *record, const char *expected)
{
    struct job *job = decode_good(record);
    assert_encodes(job, expected);
    job_destroy(job);
}

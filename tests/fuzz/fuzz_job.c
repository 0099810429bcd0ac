// Any bytes as a job and as a result, in both encodings. A readable one is written in both encodings, read
// again, and must then be written as the same bytes.
#include "schemas/job.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

typedef enum status decode_function(struct job *, struct text, enum encoding, struct error *);
typedef void encode_function(const struct job *, enum encoding, struct buffer *);

static void check_error(const struct error *error)
{
    fuzz_check(error->status == STATUS_REJECT && error->code > ERROR_NONE && error->code < ERROR_CODE_COUNT);
    fuzz_check(error->text[0] && utf8_valid(error->text, strlen(error->text)));
}

static struct buffer encode_whole(const struct job *job, enum encoding encoding, encode_function *encode_job)
{
    struct buffer out = {0};
    encode_job(job, encoding, &out);
    fuzz_check(!out.failed);
    return out;
}

static void check_reading_again(const struct job *job, decode_function *decode_job,
                                encode_function *encode_job)
{
    struct buffer expected = encode_whole(job, ENCODING_JSON, encode_job);
    for (int i = 0; i < 2; i++) {
        enum encoding encoding = i ? ENCODING_MSGPACK : ENCODING_JSON;
        struct buffer record = encode_whole(job, encoding, encode_job);
        struct job *again = job_create();
        struct error error;
        fuzz_check(decode_job(again, (struct text){record.data, record.size}, encoding, &error) == STATUS_OK);
        struct buffer written = encode_whole(again, ENCODING_JSON, encode_job);
        fuzz_check(written.size == expected.size && memcmp(written.data, expected.data, written.size) == 0);
        fuzz_check(again->request.sampling.seed == job->request.sampling.seed);
        buffer_finish(&written);
        buffer_finish(&record);
        job_destroy(again);
    }
    buffer_finish(&expected);
}

static void try_record(struct text input, enum encoding encoding, decode_function *decode_job,
                       encode_function *encode_job)
{
    struct job *job = job_create();
    struct error error;
    if (decode_job(job, input, encoding, &error) == STATUS_OK)
        check_reading_again(job, decode_job, encode_job);
    else
        check_error(&error);
    fuzz_check(job->arena.total_bytes <= 64 * input.size + 16384); // no bomb
    job_destroy(job);
}

static void try_value(struct text input, enum encoding encoding)
{
    struct arena arena = {0};
    struct value value, again;
    struct error error;
    struct buffer out = {0};
    bool json = encoding == ENCODING_JSON;
    enum status status =
        json ? json_decode(input, &arena, &value, &error) : msgpack_decode(input, &arena, &value, &error);
    if (status == STATUS_OK) {
        if (json)
            json_encode(&value, &out);
        else
            msgpack_encode(&value, &out);
        struct text written = {out.data, out.size};
        status = json ? json_decode(written, &arena, &again, &error)
                      : msgpack_decode(written, &arena, &again, &error);
        fuzz_check(status == STATUS_OK && value_equal(&value, &again));
        buffer_finish(&out);
    } else {
        check_error(&error);
    }
    arena_finish(&arena);
}

static void try_line(struct text input, enum encoding encoding)
{
    struct job *job = job_create();
    struct error error;
    struct arena arena = {0};
    struct value line;
    if (result_decode(job, input, encoding, &error) == STATUS_OK && result_check(job, &error) == STATUS_OK) {
        for (int chat = 0; chat < 2; chat++) {
            struct buffer out = {0};
            result_encode_openai(job, chat, &out);
            fuzz_check(json_decode((struct text){out.data, out.size}, &arena, &line, &error) == STATUS_OK);
            buffer_finish(&out);
        }
    }
    arena_finish(&arena);
    job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text input = {(const char *)data, size};
    for (int i = 0; i < 2; i++) {
        enum encoding encoding = i ? ENCODING_MSGPACK : ENCODING_JSON;
        try_value(input, encoding);
        try_record(input, encoding, job_decode, job_encode);
        try_record(input, encoding, result_decode, result_encode);
        try_line(input, encoding);
    }
    return 0;
}

// Parts of the Kafka transport that need no broker: record headers, cancellations, the table of
// partitions.
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/marker.h"
#include "consumer/queue/kafka/partition.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- headers ----

static struct text value_of(const struct record_headers *headers, const char *name)
{
    return headers_find(headers->items, headers->n_items, name);
}

static void assert_header(const struct record_headers *headers, const char *name, const char *expected)
{
    struct text value = value_of(headers, name);
    if (!text_equals_string(value, expected))
        fail_msg("%s: expected %s, got %.*s", name, expected, (int)value.size, value.data ? value.data : "");
}

static struct job *make_job(void)
{
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_id(job, TEXT("id-1")));
    assert_true(job_set_text(job, &job->source.topic, TEXT("jobs")));
    job->source.partition = 3;
    job->source.offset = INT64_C(1) << 40;
    return job;
}

TEST(a_result_has_the_headers_of_a_cloud_event)
{
    struct record_headers headers;
    struct job *job = make_job();
    struct header given[] = {{TEXT("ce_id"), TEXT("order-9")}, {TEXT("secret"), TEXT("stays")}};
    job->source.headers = given;
    job->source.n_headers = 2;
    job->figures = (struct job_figures){
        .cached_tokens = 7, .queued_us = 8, .prefill_us = 9, .decode_us = 10, .attempts = 2};
    job->source.encoding = ENCODING_MSGPACK;
    headers_of_result(&headers, job, "a group/ä", "w", INT64_C(1700000000123456));
    assert_header(&headers, "content-type", "application/msgpack");
    assert_header(&headers, "ce_specversion", "1.0");
    assert_header(&headers, "ce_id", "3-1099511627776");
    assert_header(&headers, "ce_source", "/sheaf/a%20group%2F%C3%A4/jobs");
    assert_header(&headers, "ce_type", "sheaf.result");
    assert_header(&headers, "ce_subject", "id-1");
    assert_header(&headers, "ce_time", "2023-11-14T22:13:20.123Z");
    assert_header(&headers, "ce_causationid", "order-9");
    assert_null(value_of(&headers, "secret").data);
    assert_header(&headers, "sheaf-source-offset", "1099511627776");
    assert_header(&headers, "sheaf-worker", "w");
    assert_header(&headers, "sheaf-attempts", "2");
    assert_header(&headers, "sheaf-cached-tokens", "7");
    assert_header(&headers, "sheaf-queued-us", "8");
    assert_header(&headers, "sheaf-prefill-us", "9");
    assert_header(&headers, "sheaf-decode-us", "10");
    assert_header(&headers, "sheaf-finished-us", "1700000000123456");
    assert_null(value_of(&headers, "sheaf-constrained-by").data);
    assert_null(value_of(&headers, "sheaf-forced-tokens").data);
    job->request.constraint.kind = CONSTRAINT_CHOICE;
    job->figures.forced_tokens = 11;
    headers_of_result(&headers, job, "a group/ä", "w", INT64_C(1700000000123456));
    assert_header(&headers, "sheaf-constrained-by", "choice");
    assert_header(&headers, "sheaf-forced-tokens", "11");
    assert_null(value_of(&headers, "sheaf-drafted-tokens").data);
    job->figures.drafted_tokens = 13;
    job->figures.accepted_tokens = 12;
    headers_of_result(&headers, job, "a group/ä", "w", INT64_C(1700000000123456));
    assert_header(&headers, "sheaf-drafted-tokens", "13");
    assert_header(&headers, "sheaf-accepted-tokens", "12");
    assert_true(headers.n_items < RECORD_HEADERS_MAX); // as long as a result's become
    job->request.constraint.kind = CONSTRAINT_NONE;
    job->source.headers = NULL;
    job_destroy(job);
}

static void assert_passed(const struct header *passed, int32_t n_passed, const char *expected)
{
    char names[512] = "";
    for (int32_t i = 0; i < n_passed; i++) {
        strncat(names, passed[i].name.data, passed[i].name.size);
        strcat(names, " ");
    }
    assert_string_equal(names, expected);
}

TEST(a_result_repeats_headers_of_traces_correlation_and_tenants)
{
    struct header headers[] = {{TEXT("traceparent"), TEXT("1")},
                               {TEXT("secret"), TEXT("2")},
                               {TEXT("Correlation-Id"), TEXT("3")},
                               {TEXT("X-B3-TraceId"), TEXT("4")},
                               {TEXT("b3x"), TEXT("5")},
                               {TEXT("tenant"), TEXT("")},
                               {TEXT("tenant"), TEXT("6")},
                               {TEXT("ce_id"), TEXT("7")},
                               {TEXT("x-acme-a"), TEXT("8")},
                               {TEXT("x-acm"), TEXT("9")},
                               {TEXT("sheaf-worker"), TEXT("me")}};
    struct header passed[11];
    assert_passed(passed, headers_pass(headers, 11, NULL, passed),
                  "traceparent Correlation-Id X-B3-TraceId tenant tenant ");
    assert_passed(passed, headers_pass(headers, 11, "none,X-Acme-*,secret", passed),
                  "traceparent secret Correlation-Id X-B3-TraceId tenant tenant x-acme-a ");
    assert_passed(passed, headers_pass(headers, 11, "*", passed),
                  "traceparent secret Correlation-Id X-B3-TraceId b3x tenant tenant x-acme-a x-acm ");
    assert_true(headers_are_own(TEXT("Content-Type")) && headers_are_own(TEXT("__sheaf.errors.code")));
    assert_false(headers_are_own(TEXT("content")));
}

TEST(long_names_are_cut_and_never_run_over)
{
    struct record_headers headers;
    struct job *job = make_job();
    char name[3000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_true(job_set_text(job, &job->source.topic, text_from_string(name)));
    headers_of_result(&headers, job, name, name, 0);
    assert_true(headers.used_bytes <= sizeof headers.text);
    for (int32_t i = 0; i < headers.n_items; i++) {
        const char *data = headers.items[i].value.data;
        if (data >= headers.text && data < headers.text + sizeof headers.text)
            assert_true(data + headers.items[i].value.size <= headers.text + sizeof headers.text);
    }
    job_destroy(job);
}

TEST(a_dead_letter_says_why_and_from_where)
{
    struct record_headers headers;
    struct job *job = make_job();
    struct error error;
    error_set(&error, STATUS_REJECT, ERROR_INVALID_FIELD, "n: expected an integer");
    job_fail(job, &error);
    headers_of_dead_letter(&headers, job, NULL, 0);
    assert_header(&headers, "__sheaf.errors.topic", "jobs");
    assert_header(&headers, "__sheaf.errors.partition", "3");
    assert_header(&headers, "__sheaf.errors.offset", "1099511627776");
    assert_header(&headers, "__sheaf.errors.stage", "decode");
    assert_header(&headers, "__sheaf.errors.code", "invalid_field");
    assert_header(&headers, "__sheaf.errors.message", "n: expected an integer");
    assert_header(&headers, "__sheaf.errors.attempts", "0");
    assert_header(&headers, "__sheaf.errors.timestamp", "1970-01-01T00:00:00.000Z");
    assert_null(value_of(&headers, "__sheaf.errors.omitted").data);
    error_set(&error, STATUS_REJECT, ERROR_CRASHED, "two workers died of it");
    job_fail(job, &error);
    headers_of_dead_letter(&headers, job, "value", 0);
    assert_header(&headers, "__sheaf.errors.stage", "compute");
    assert_header(&headers, "__sheaf.errors.omitted", "value");
    job_destroy(job);
}

// ---- cancellations ----

static struct text text_of(const struct buffer *buffer)
{
    return (struct text){buffer->data, buffer->size};
}

TEST(cancellations_are_read_back_as_written)
{
    struct cancel cancel = {TEXT("a \"set\""), TEXT("job"), 1700000000}, back;
    struct buffer key = {0}, value = {0};
    struct arena arena = {0};
    struct error error;
    cancel_encode(&cancel, &key, &value);
    assert_string_equal(key.data, "[\"cancel\",\"a \\\"set\\\"\",\"job\"]");
    assert_string_equal(value.data, "{\"dataset\":\"a \\\"set\\\"\",\"job_id\":\"job\",\"at\":1700000000}");
    assert_ok(cancel_decode(text_of(&key), text_of(&value), &arena, &back, &error), &error);
    assert_true(text_equal(back.dataset, cancel.dataset) && text_equal(back.job_id, cancel.job_id));
    assert_int_equal(back.at_s, cancel.at_s);
    assert_ok(cancel_decode(text_of(&key), (struct text){0}, &arena, &back, &error), &error);
    assert_true(text_equal(back.dataset, cancel.dataset) && text_equal(back.job_id, cancel.job_id));
    assert_true(back.at_s == CANCEL_NEVER);
    buffer_finish(&key);
    buffer_finish(&value);
    arena_finish(&arena);
}

TEST(what_is_no_cancellation_is_rejected)
{
    static const char *const values[] = {"{",
                                         "[]",
                                         "{}",
                                         "{\"dataset\":\"d\"}",
                                         "{\"dataset\":\"\",\"at\":1}",
                                         "{\"dataset\":1,\"at\":1}",
                                         "{\"dataset\":\"d\",\"at\":\"now\"}",
                                         "{\"dataset\":\"d\",\"job_id\":[],\"at\":1}"};
    static const char *const keys[] = {"",
                                       "{}",
                                       "[]",
                                       "[\"cancel\"]",
                                       "[\"other\",\"d\"]",
                                       "[\"cancel\",\"\"]",
                                       "[\"cancel\",\"d\",\"j\",\"x\"]",
                                       "[1,\"d\"]"};
    struct arena arena = {0};
    struct cancel cancel;
    struct error error;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_int_equal(cancel_decode(TEXT("k"), text_from_string(values[i]), &arena, &cancel, &error),
                         STATUS_REJECT);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_int_equal(cancel_decode(text_from_string(keys[i]), TEXT(""), &arena, &cancel, &error),
                         STATUS_REJECT);

    char *padded = malloc(CANCEL_BYTES_MAX + 1);
    memset(padded, ' ', CANCEL_BYTES_MAX + 1);
    memcpy(padded, "{\"dataset\":\"d\",\"at\":1}", 22);
    struct text text = {padded, CANCEL_BYTES_MAX};
    assert_ok(cancel_decode(TEXT("k"), text, &arena, &cancel, &error), &error);
    text.size++;
    assert_int_equal(cancel_decode(TEXT("k"), text, &arena, &cancel, &error), STATUS_REJECT);
    free(padded);

    char name[JOB_DATASET_BYTES_MAX + 64];
    int length = snprintf(name, sizeof name, "{\"dataset\":\"%0*d\",\"at\":1}", JOB_DATASET_BYTES_MAX, 0);
    text = (struct text){name, (size_t)length};
    assert_ok(cancel_decode(TEXT("k"), text, &arena, &cancel, &error), &error);
    length = snprintf(name, sizeof name, "{\"dataset\":\"%0*d\",\"at\":1}", JOB_DATASET_BYTES_MAX + 1, 0);
    text = (struct text){name, (size_t)length};
    assert_int_equal(cancel_decode(TEXT("k"), text, &arena, &cancel, &error), STATUS_REJECT);
    arena_finish(&arena);
}

static void put_cancel(struct cancel_set *set, struct text dataset, struct text job_id, int64_t at)
{
    struct error error;
    struct cancel cancel = {dataset, job_id, at};
    assert_ok(cancel_set_put(set, &cancel, &error), &error);
}

TEST(a_cancellation_covers_what_was_created_before_it)
{
    struct cancel_set set = {0};
    assert_false(cancel_set_has(&set, TEXT("d"), TEXT("j"), 0));
    put_cancel(&set, TEXT("d"), TEXT("j"), 100);
    put_cancel(&set, TEXT("e"), TEXT(""), 100);
    assert_true(cancel_set_has(&set, TEXT("d"), TEXT("j"), 100));
    assert_false(cancel_set_has(&set, TEXT("d"), TEXT("j"), 101));
    assert_true(cancel_set_has(&set, TEXT("d"), TEXT("j"), 0)); // when it was created is not known
    assert_false(cancel_set_has(&set, TEXT("d"), TEXT("k"), 0));
    assert_true(cancel_set_has(&set, TEXT("e"), TEXT("any"), 99));
    put_cancel(&set, TEXT("e"), TEXT(""), CANCEL_NEVER); // withdrawn
    assert_false(cancel_set_has(&set, TEXT("e"), TEXT("any"), 99));
    put_cancel(&set, TEXT("d"), TEXT("j"), 200);
    assert_true(cancel_set_has(&set, TEXT("d"), TEXT("j"), 150));
    cancel_set_finish(&set);
}

TEST(a_withdrawn_cancellation_covers_nothing)
{
    struct cancel_set set = {0};
    put_cancel(&set, TEXT("d"), TEXT("j"), 100);
    put_cancel(&set, TEXT("e"), TEXT(""), 100);
    put_cancel(&set, TEXT("d"), TEXT("j"), CANCEL_NEVER);
    put_cancel(&set, TEXT("e"), TEXT(""), CANCEL_NEVER);
    static const int64_t created[] = {INT64_MIN, -1, 0, 100};
    for (size_t i = 0; i < sizeof created / sizeof *created; i++) {
        assert_false(cancel_set_has(&set, TEXT("d"), TEXT("j"), created[i]));
        assert_false(cancel_set_has(&set, TEXT("e"), TEXT("any"), created[i]));
    }
    put_cancel(&set, TEXT("d"), TEXT("j"), 50); // and again
    assert_true(cancel_set_has(&set, TEXT("d"), TEXT("j"), 50));
    cancel_set_finish(&set);
}

// Fronts of completions cancel and withdraw without end.
TEST(withdrawn_cancellations_need_no_room)
{
    struct cancel_set set = {0};
    char name[32];
    put_cancel(&set, TEXT("stays"), TEXT("j"), 100);
    put_cancel(&set, TEXT("back"), TEXT(""), 100);
    put_cancel(&set, TEXT("back"), TEXT(""), CANCEL_NEVER);
    for (int i = 0; i < CANCEL_SET_MAX + 1000; i++) {
        snprintf(name, sizeof name, "request-%d", i);
        put_cancel(&set, TEXT("requests"), text_from_string(name), 100);
        assert_true(cancel_set_has(&set, TEXT("requests"), text_from_string(name), 100));
        put_cancel(&set, TEXT("requests"), text_from_string(name), CANCEL_NEVER);
        assert_false(cancel_set_has(&set, TEXT("requests"), text_from_string(name), 100));
        assert_true(set.n_items <= 2 * CANCEL_WITHDRAWN_MAX && set.n_cancelled == 1);
    }
    assert_true(cancel_set_has(&set, TEXT("stays"), TEXT("j"), 100));
    put_cancel(&set, TEXT("back"), TEXT(""), 200); // it was withdrawn, and perhaps dropped
    assert_true(cancel_set_has(&set, TEXT("back"), TEXT("any"), 200));
    assert_int_equal(set.n_cancelled, 2);
    cancel_set_finish(&set);
}

static void put_submission(struct cancel_set *set, struct text dataset, int64_t created_s)
{
    struct error error;
    assert_ok(cancel_set_put_submission(set, dataset, created_s, &error), &error);
}

TEST(a_cancellation_covers_a_submission_of_a_clock_that_is_ahead)
{
    struct cancel_set set = {0};
    put_submission(&set, TEXT("before"), 220);
    put_cancel(&set, TEXT("before"), TEXT(""), 100);
    put_cancel(&set, TEXT("behind"), TEXT(""), 100);
    put_submission(&set, TEXT("behind"), 220);
    put_submission(&set, TEXT("one"), 220);
    put_cancel(&set, TEXT("one"), TEXT("j"), 100);
    put_submission(&set, TEXT("other"), 220);
    static const char *const whole[] = {"before", "behind"};
    for (size_t i = 0; i < 2; i++) {
        struct text dataset = text_from_string(whole[i]);
        assert_int_equal(cancel_set_until(&set, dataset, (struct text){0}), 220);
        assert_true(cancel_set_has(&set, dataset, TEXT("j"), 220));
        assert_false(cancel_set_has(&set, dataset, TEXT("j"), 221));
    }
    assert_true(cancel_set_has(&set, TEXT("one"), TEXT("j"), 220));
    assert_false(cancel_set_has(&set, TEXT("one"), TEXT("k"), 220));
    assert_false(cancel_set_has(&set, TEXT("other"), TEXT("j"), 0)); // not cancelled
    put_submission(&set, TEXT("before"), CANCEL_NEVER);              // its marker was withdrawn
    assert_true(cancel_set_has(&set, TEXT("before"), TEXT("j"), 100));
    assert_false(cancel_set_has(&set, TEXT("before"), TEXT("j"), 101));
    put_cancel(&set, TEXT("behind"), TEXT(""), CANCEL_NEVER);
    assert_false(cancel_set_has(&set, TEXT("behind"), TEXT("j"), 0));
    cancel_set_finish(&set);
}

TEST(a_cancellation_covers_what_was_in_the_log_before_it)
{
    struct cancel_set set = {0};
    struct error error;
    int64_t ends[] = {10, 0};
    const struct cancel whole = {.dataset = TEXT("d"), .at_s = 100, .ends = ends, .n_ends = 2};
    const struct cancel one = {
        .dataset = TEXT("e"), .job_id = TEXT("j"), .at_s = 100, .ends = ends, .n_ends = 1};
    assert_ok(cancel_set_put(&set, &whole, &error), &error);
    assert_ok(cancel_set_put(&set, &one, &error), &error);
    assert_true(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 220, 0, 9));
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 220, 0, 10));
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 220, 1, 0));
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 220, 2, 0)); // a partition added since
    assert_true(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 100, 1, 5));
    assert_true(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 100 + CANCEL_SKEW_S, 0, 9));
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 101 + CANCEL_SKEW_S, 0, 9)); // another log
    assert_true(cancel_set_has_record(&set, TEXT("e"), TEXT("j"), 220, 0, 9));
    assert_false(cancel_set_has_record(&set, TEXT("e"), TEXT("k"), 220, 0, 9));
    put_cancel(&set, TEXT("d"), TEXT(""), 100); // without ends
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 220, 0, 9));
    assert_ok(cancel_set_put(&set, &whole, &error), &error);
    put_cancel(&set, TEXT("d"), TEXT(""), CANCEL_NEVER);
    assert_false(cancel_set_has_record(&set, TEXT("d"), TEXT("j"), 0, 0, 9));
    cancel_set_finish(&set);
}

TEST(ends_of_a_cancellation_are_read_back_as_written)
{
    static int64_t ends[CANCEL_ENDS_MAX + 1];
    struct buffer key = {0}, value = {0};
    struct arena arena = {0};
    struct error error;
    for (int i = 0; i <= CANCEL_ENDS_MAX; i++)
        ends[i] = INT64_MAX - i;
    struct cancel cancel = {
        .dataset = TEXT("d"), .at_s = 1, .jobs = TEXT("t"), .ends = ends, .n_ends = CANCEL_ENDS_MAX};
    struct cancel back;
    cancel_encode(&cancel, &key, &value);
    assert_ok(cancel_decode(text_of(&key), text_of(&value), &arena, &back, &error), &error);
    assert_true(text_equal(back.jobs, cancel.jobs));
    assert_int_equal(back.n_ends, cancel.n_ends);
    assert_memory_equal(back.ends, ends, CANCEL_ENDS_MAX * sizeof *ends);
    buffer_clear(&value);
    cancel.n_ends++;
    cancel_encode(&cancel, &key, &value);
    assert_int_equal(cancel_decode(TEXT("k"), text_of(&value), &arena, &back, &error), STATUS_REJECT);
    static const char *const values[] = {"{\"dataset\":\"d\",\"at\":1,\"jobs\":\"t\",\"ends\":[-1]}",
                                         "{\"dataset\":\"d\",\"at\":1,\"jobs\":\"t\",\"ends\":[\"1\"]}",
                                         "{\"dataset\":\"d\",\"at\":1,\"jobs\":\"t\",\"ends\":7}",
                                         "{\"dataset\":\"d\",\"at\":1,\"jobs\":7}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_int_equal(cancel_decode(TEXT("k"), text_from_string(values[i]), &arena, &back, &error),
                         STATUS_REJECT);
    buffer_finish(&key);
    buffer_finish(&value);
    arena_finish(&arena);
}

TEST(submissions_leave_room_for_cancellations)
{
    struct cancel_set set = {0};
    char name[32];
    for (int i = 0; i < CANCEL_SET_MAX + 10; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_submission(&set, text_from_string(name), 1);
    }
    assert_int_equal(set.n_items, CANCEL_SET_MAX);
    put_cancel(&set, text_from_string(name), TEXT(""), 5);
    assert_true(cancel_set_has(&set, text_from_string(name), TEXT("j"), 5));
    put_cancel(&set, TEXT("0"), TEXT(""), CANCEL_NEVER);
    assert_false(cancel_set_has(&set, TEXT("0"), TEXT("j"), 0));
    cancel_set_finish(&set);
}

TEST(a_set_that_grows_loses_no_cancellation)
{
    enum { N = 1000 };
    struct cancel_set set = {0};
    char name[32];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_cancel(&set, i % 2 ? TEXT("d") : text_from_string(name),
                   i % 2 ? text_from_string(name) : TEXT(""), i);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%d", i);
        struct text dataset = i % 2 ? TEXT("d") : text_from_string(name), job_id = text_from_string(name);
        assert_true(cancel_set_has(&set, dataset, job_id, i));
        assert_false(cancel_set_has(&set, dataset, job_id, i + 1));
    }
    cancel_set_finish(&set);
}

TEST(the_set_of_cancellations_has_a_limit)
{
    struct cancel_set set = {0};
    struct error error;
    char name[32];
    for (int i = 0; i < CANCEL_SET_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_cancel(&set, TEXT("d"), text_from_string(name), 1);
    }
    struct cancel more = {TEXT("d"), TEXT("more"), 1};
    assert_ok(cancel_set_put(&set, &more, &error), &error); // the job is computed for nothing
    struct cancel whole = {.dataset = TEXT("more"), .at_s = 1};
    assert_int_equal(cancel_set_put(&set, &whole, &error), STATUS_REFUSE);
    put_cancel(&set, TEXT("d"), TEXT("17"), 5); // a known one may still change
    assert_true(cancel_set_has(&set, TEXT("d"), TEXT("17"), 5));
    assert_true(cancel_set_has(&set, TEXT("d"), text_from_string(name), 1));
    assert_false(cancel_set_has(&set, TEXT("d"), TEXT("more"), 1));
    cancel_set_finish(&set);
}

// ---- progress markers ----

TEST(a_marker_is_read_back_as_written_and_no_cancellation)
{
    struct error error;
    struct arena arena = {0};
    struct marker marker = {.topic = TEXT("jobs"),
                            .dataset = TEXT("a \"name\""),
                            .n_lines = 12,
                            .n_jobs = 10,
                            .fingerprint = INT64_MAX,
                            .complete = true,
                            .created_s = 1700000000,
                            .partition = -1,
                            .offset = -1};
    for (int i = 0; i < 2; i++, marker.is_withdrawn = true) {
        struct buffer key = {0}, value = {0};
        marker_encode(&marker, &key, &value);
        struct text key_text = {key.data, key.size}, value_text = {value.data, value.size};
        struct marker back;
        struct cancel cancel;
        assert_true(marker_is_key(key_text));
        assert_ok(marker_decode(key_text, value_text, &arena, &back, &error), &error);
        assert_true(text_equal(back.topic, marker.topic) && text_equal(back.dataset, marker.dataset));
        assert_int_equal(back.is_withdrawn, i == 1);
        assert_true(back.is_withdrawn ||
                    (back.n_lines == 12 && back.n_jobs == 10 && back.fingerprint == INT64_MAX &&
                     back.complete && back.created_s == 1700000000 && back.partition == -1));
        // A worker of an older version reads it so.
        assert_int_equal(cancel_decode(key_text, value_text, &arena, &cancel, &error), STATUS_REJECT);
        buffer_finish(&key);
        buffer_finish(&value);
    }
    arena_finish(&arena);
}

TEST(a_search_is_read_back_as_written_and_is_no_marker)
{
    struct error error;
    struct arena arena = {0};
    struct buffer key = {0}, value = {0};
    marker_search_encode(TEXT("jobs"), 7, TEXT("\"a\",\"b \\\"c\\\"\""), &key, &value);
    struct text key_text = {key.data, key.size}, value_text = {value.data, value.size};
    struct marker_search back;
    struct marker marker;
    struct cancel cancel;
    assert_true(marker_is_key(key_text)); // so that workers skip it
    assert_ok(marker_search_decode(key_text, value_text, &arena, &back, &error), &error);
    assert_true(text_equals_string(back.topic, "jobs") && back.start == 7 && back.n_unmarked == 2);
    assert_true(text_equals_string(back.unmarked[1].text, "b \"c\""));
    assert_int_equal(marker_decode(key_text, value_text, &arena, &marker, &error), STATUS_REJECT);
    assert_int_equal(cancel_decode(key_text, value_text, &arena, &cancel, &error), STATUS_REJECT);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"start\":-1,\"unmarked\":[]}",
                                      "{\"start\":0,\"unmarked\":{}}",
                                      "{\"start\":0,\"unmarked\":[1]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(marker_search_decode(key_text, text_from_string(bad[i]), &arena, &back, &error),
                         STATUS_REJECT);
    assert_int_equal(marker_search_decode(TEXT("[\"submit\",\"jobs\",\"d\"]"), value_text, &arena, &back,
                                          &error),
                     STATUS_REJECT);
    buffer_finish(&key);
    buffer_finish(&value);
    arena_finish(&arena);
}

static enum status decode_marker(const char *topic, const char *dataset, const char *value,
                                 struct marker *marker, struct error *error)
{
    char key[512];
    struct arena arena = {0};
    int size = snprintf(key, sizeof key, "[\"submit\",\"%s\",\"%s\"]", topic, dataset);
    enum status status =
        marker_decode((struct text){key, (size_t)size}, text_from_string(value), &arena, marker, error);
    arena_finish(&arena);
    return status;
}

TEST(names_and_numbers_of_a_marker_have_their_limits)
{
    static const char *const good[] = {
        "{'lines':0,'jobs':0,'fingerprint':0,'complete':false,'created':0,'partition':-1,'offset':-1}",
        "{'lines':9223372036854775807,'jobs':9223372036854775807,'fingerprint':9223372036854775807,"
        "'complete':true,'created':9223372036854775807,'partition':2147483647,'offset':9223372036854775807}"};
    static const char *const bad[] = {
        "lines",
        "{'lines':-1,'jobs':0,'fingerprint':0,'complete':false,'created':0,'partition':0,'offset':0}",
        "jobs",
        "{'lines':1,'jobs':-1,'fingerprint':0,'complete':false,'created':0,'partition':0,'offset':0}",
        "jobs",
        "{'lines':1,'jobs':2,'fingerprint':0,'complete':false,'created':0,'partition':0,'offset':0}",
        "fingerprint",
        "{'lines':1,'jobs':1,'fingerprint':-1,'complete':false,'created':0,'partition':0,'offset':0}",
        "complete",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':0,'created':0,'partition':0,'offset':0}",
        "complete",
        "{'lines':1,'jobs':1,'fingerprint':0,'created':0,'partition':0,'offset':0}",
        "created",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':true,'created':-1,'partition':0,'offset':0}",
        "partition",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':true,'created':0,'partition':-2,'offset':0}",
        "partition",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':true,'created':0,'partition':2147483648,'offset':0}",
        "offset",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':true,'created':0,'partition':0,'offset':-2}",
        "offset",
        "{'lines':1,'jobs':1,'fingerprint':0,'complete':true,'created':0,'partition':0}",
        "an object",
        "[]"};
    struct marker marker;
    struct error error;
    char value[512], name[300];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        unquote(strcpy(value, good[i]));
        assert_ok(decode_marker("t", "d", value, &marker, &error), &error);
    }
    assert_true(marker.n_jobs == INT64_MAX && marker.partition == INT32_MAX && marker.offset == INT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i += 2) {
        unquote(strcpy(value, bad[i + 1]));
        assert_int_equal(decode_marker("t", "d", value, &marker, &error), STATUS_REJECT);
        assert_non_null(strstr(error.text, bad[i]));
    }
    memset(name, 'n', sizeof name);
    name[MARKER_TOPIC_BYTES_MAX] = '\0';
    assert_ok(decode_marker(name, "d", "", &marker, &error), &error);
    assert_true(marker.is_withdrawn);
    assert_int_equal(decode_marker(name, "", "", &marker, &error), STATUS_REJECT);
    assert_int_equal(decode_marker("", "d", "", &marker, &error), STATUS_REJECT);
    assert_ok(decode_marker("t", name + MARKER_TOPIC_BYTES_MAX - JOB_DATASET_BYTES_MAX, "", &marker, &error),
              &error);
    assert_int_equal(decode_marker("t", name + MARKER_TOPIC_BYTES_MAX - JOB_DATASET_BYTES_MAX - 1, "",
                                   &marker, &error),
                     STATUS_REJECT);
    name[MARKER_TOPIC_BYTES_MAX] = 'n';
    name[MARKER_TOPIC_BYTES_MAX + 1] = '\0';
    assert_int_equal(decode_marker(name, "d", "", &marker, &error), STATUS_REJECT);
}

TEST(only_results_of_the_topic_s_jobs_are_its_own)
{
    struct header headers[] = {{TEXT("x"), TEXT("other")}, {TEXT("sheaf-source-topic"), TEXT("jobs")}};
    assert_true(headers_are_of_topic(headers, 2, "jobs"));
    assert_false(headers_are_of_topic(headers, 2, "jobs-b"));
    assert_true(headers_are_of_topic(headers, 1, "jobs")); // it does not say
}

TEST(only_results_of_the_group_are_its_own)
{
    struct record_headers result;
    struct job *job = job_create();
    assert_non_null(job);
    job->source.topic = TEXT("jobs");
    headers_of_result(&result, job, "a group/\xc3\xa4", "w", 1);
    assert_true(headers_are_of_group(result.items, result.n_items, "a group/\xc3\xa4"));
    static const char *const others[] = {"a group/\xc3",
                                         ("a group/\xc3\xa4"
                                          "b"),
                                         "a group",
                                         "",
                                         "a%20group%2F%C3%A4",
                                         "b"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(headers_are_of_group(result.items, result.n_items, others[i]));
    char name[302];
    memset(name, '/', sizeof name);
    name[300] = name[301] = '\0';
    headers_of_result(&result, job, name, "w", 1); // it is cut
    assert_true(headers_are_of_group(result.items, result.n_items, name));
    name[200] = '\0';
    assert_false(headers_are_of_group(result.items, result.n_items, name));
    static const char *const without[] = {"/sheaf/jobs", "/sheaf/", "/sheaf", "", "elsewhere/b/jobs"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        struct header header = {TEXT("ce_source"), text_from_string(without[i])};
        assert_true(headers_are_of_group(&header, 1, "a"));
    }
    assert_true(headers_are_of_group(NULL, 0, "a"));
    job_destroy(job);
}

TEST(a_header_s_integer_is_digits_that_fit)
{
    static const struct {
        const char *text;
        int64_t expected; // -1: none
    } cases[] = {{"0", 0},
                 {"9223372036854775807", INT64_MAX},
                 {"9223372036854775808", -1},
                 {"-1", -1},
                 {"", -1},
                 {"7 ", -1},
                 {"00000000000000000000007", 7},    // 23 bytes
                 {"000000000000000000000007", -1}}; // 24
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct header headers[] = {{TEXT("other"), TEXT("5")}, {TEXT("n"), text_from_string(cases[i].text)}};
        int64_t value = 77;
        assert_int_equal(headers_read_integer(headers, 2, "n", &value), cases[i].expected >= 0);
        assert_true(value == (cases[i].expected >= 0 ? cases[i].expected : 77));
    }
}

TEST(an_identity_is_read_from_the_headers_of_a_submitter)
{
    const struct header headers[] = {
        {TEXT(HEADER_DATASET), TEXT("d")},     {TEXT(HEADER_JOB_ID), TEXT("d-3")},
        {TEXT(HEADER_CUSTOM_ID), TEXT("c")},   {TEXT(HEADER_INDEX), TEXT("0")},
        {TEXT(HEADER_CREATED), TEXT("17000")}, {TEXT(HEADER_DATASET), TEXT("e")}};
    struct job_identity identity = headers_identity(headers, 6);
    assert_true(text_equal(identity.dataset, TEXT("d"))); // the first of the name
    assert_true(text_equal(identity.job_id, TEXT("d-3")));
    assert_true(text_equal(identity.custom_id, TEXT("c")));
    assert_true(identity.has_index && identity.index == 0);
    assert_true(identity.has_created && identity.created_s == 17000);
    const struct header invalid[] = {{TEXT(HEADER_INDEX), TEXT("-1")}, {TEXT(HEADER_CREATED), TEXT("soon")}};
    identity = headers_identity(invalid, 2);
    assert_false(identity.has_index || identity.has_created);
    assert_int_equal(identity.dataset.size + identity.job_id.size + identity.custom_id.size, 0);
}

// ---- partitions ----

TEST(partitions_are_made_up_to_their_limit)
{
    struct partition_table table = {0};
    assert_null(partition_find(&table, 0));
    assert_null(partition_find(&table, -1));
    struct partition *partition = partition_add(&table, 9, 10);
    assert_non_null(partition);
    assert_int_equal(partition->map.watermark, OFFSET_UNKNOWN);
    assert_null(partition_add(&table, 10, 10));
    assert_null(partition_add(&table, -1, 10));
    assert_ptr_equal(partition_add(&table, 9, 10), partition);
    assert_ptr_equal(partition_find(&table, 9), partition);
    assert_null(partition_find(&table, 8));
    partition_table_finish(&table);
}

// Every single allocation fails, alone and with all after it: the result is an error or a failed buffer,
// never a crash or half a job.
#include "schemas/ranking_result.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/job_records.h"

// A job large enough that each of its parts needs memory of its own: names of 5000 bytes, many members.
static struct buffer make_record(void)
{
    struct buffer record = {0};
    buffer_add_string(&record, "{'messages':[{'role':'user','content':[");
    for (int i = 0; i < 50; i++)
        buffer_add_format(&record, "%s{'type':'text','text':'%0500d','x':1}", i ? "," : "", i);
    buffer_add_string(&record, "]}],'chat_template_kwargs':{'k':1},'stop':['a'],'unknown':{");
    for (int i = 0; i < 100; i++)
        buffer_add_format(&record, "%s'key%d':[[1]]", i ? "," : "", i);
    buffer_add_string(&record, "},'stream':false,'modalities':['text'],'logit_bias':{");
    for (int i = 0; i < 1000; i++)
        buffer_add_format(&record, "%s'%d':1", i ? "," : "", i);
    buffer_add_string(&record, "}}");
    assert_false(record.failed);
    unquote(record.data);
    return record;
}

TEST(a_job_is_decoded_whole_or_tried_again_later)
{
    struct buffer json = make_record(), msgpack = to_msgpack(json.data);
    const struct buffer *const records[] = {&json, &msgpack};
    for (int i = 0; i < 4; i++) {
        long n_failures = 0;
        enum status status = STATUS_RETRY;
        failing_memory.fails_alone = i / 2;
        for (; status != STATUS_OK; n_failures++) {
            struct job *job = job_create();
            struct error error;
            assert_non_null(job);
            failing_memory_after(n_failures);
            status = job_decode(job, (struct text){records[i % 2]->data, records[i % 2]->size},
                                i % 2 ? ENCODING_MSGPACK : ENCODING_JSON, &error);
            failing_memory.n_left = -1;
            assert_int_equal(status != STATUS_OK, failing_memory.has_failed);
            if (status != STATUS_OK) {
                assert_int_equal(status, STATUS_RETRY);
                assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
            }
            job_destroy(job);
        }
        assert_in_range(n_failures, 4, 1000);
    }
    buffer_finish(&json);
    buffer_finish(&msgpack);
}

// Two rows of scores for each kind of job; the items are built whole, or not at all.
TEST(a_ranking_is_decoded_and_its_result_built_whole_or_tried_again_later)
{
    static const struct text names[] = {TEXT("bad"), TEXT("good")};
    static const struct ranking_labels labels = {names, 2, 1, false};
    static const float scores[2] = {0.25f, 0.75f};
    static const char *const starts[] = {"{'return_documents':true,'query':'q','documents':['a'",
                                         "{'text_1':'q','text_2':['a'", "{'task':'classify','input':['a'"};
    for (int i = 0; i < 6; i++) {
        struct embedding rows[400] = {{.code = ERROR_CONTEXT_LENGTH, .message = TEXT("long")}};
        struct buffer record = {0};
        bool is_filled = false;
        buffer_add_string(&record, starts[i % 3]);
        for (int j = 1; j < 400; j++) {
            rows[j].items = scores;
            buffer_add_string(&record, ",'b'");
        }
        buffer_add_string(&record, "],'partial':true}");
        unquote(record.data);
        failing_memory.fails_alone = i / 3;
        long n_failures = 0;
        for (; !is_filled; n_failures++) {
            struct job *job = job_create();
            struct error error;
            failing_memory_after(n_failures);
            enum status status =
                job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error);
            is_filled = status == STATUS_OK && rankings_fill(job, rows, &labels);
            failing_memory.n_left = -1;
            assert_int_equal(!is_filled, failing_memory.has_failed);
            if (is_filled)
                assert_int_equal(job->result.rankings.items.array.n_items, i % 3 ? 400 : 399);
            job_destroy(job);
        }
        assert_in_range(n_failures, 4, 100);
        buffer_finish(&record);
    }
}

TEST(a_result_is_decoded_whole_or_tried_again_later)
{
    static const char *const names[] = {"result.json", "result.msgpack", "result_failed.json"};
    for (int i = 0; i < 6; i++) {
        struct buffer record = golden_read(names[i % 3]);
        failing_memory.fails_alone = i / 3;
        enum status status = STATUS_RETRY;
        for (long n_failures = 0; status != STATUS_OK; n_failures++) {
            struct job *job = job_create();
            struct error error;
            failing_memory_after(n_failures);
            status = result_decode(job, (struct text){record.data, record.size},
                                   i % 3 == 1 ? ENCODING_MSGPACK : ENCODING_JSON, &error);
            failing_memory.n_left = -1;
            assert_int_equal(status != STATUS_OK, failing_memory.has_failed);
            assert_true(status == STATUS_OK || (status == STATUS_RETRY && error.code == ERROR_OUT_OF_MEMORY));
            assert_in_range(n_failures, 0, 1000);
            job_destroy(job);
        }
        buffer_finish(&record);
    }
}

typedef void encode_function(const struct job *, enum encoding, struct buffer *);

static void encode_chat(const struct job *job, enum encoding encoding, struct buffer *out)
{
    result_encode_openai(job, true, out);
}

TEST(what_is_written_is_whole_or_says_that_it_failed)
{
    static encode_function *const encoders[] = {job_encode, result_encode, encode_chat};
    struct buffer record = make_record(), result = golden_read("result.json");
    struct job *job = job_create();
    struct error error;
    assert_ok(result_decode(job, (struct text){result.data, result.size}, ENCODING_JSON, &error), &error);
    assert_ok(job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error), &error);
    for (int i = 0; i < 12; i++) {
        bool failed = true;
        failing_memory.fails_alone = i / 6;
        for (long n_failures = 0; failed; n_failures++) {
            struct buffer out = {0};
            failing_memory_after(n_failures);
            encoders[i % 6 / 2](job, i % 2 ? ENCODING_MSGPACK : ENCODING_JSON, &out);
            failing_memory.n_left = -1;
            failed = out.failed;
            assert_int_equal(failed, failing_memory.has_failed);
            assert_true(failed || out.size > 0);
            assert_in_range(n_failures, 0, 1000);
            buffer_finish(&out);
        }
    }
    job_destroy(job);
    buffer_finish(&record);
    buffer_finish(&result);
}

// A chat with warnings: all that a request's name is made of.
TEST(a_request_has_its_whole_hash_or_none)
{
    struct buffer record = make_record();
    struct job *job = job_create();
    struct error error;
    assert_ok(job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error), &error);
    assert_true(job->result.n_warnings > 0);
    const struct sampling defaults = {.given = SAMPLING_TEMPERATURE}; // greedy
    assert_true(job_hash_request(job, &defaults, true));
    struct digest whole = job->request_hash;
    int n_failed = 0;
    for (int i = 0; i < 2; i++) {
        bool done = false;
        failing_memory.fails_alone = i;
        for (long n_failures = 0; !done; n_failures++) {
            job->request_hash = (struct digest){0};
            failing_memory_after(n_failures);
            done = job_hash_request(job, &defaults, true);
            failing_memory.n_left = -1;
            assert_int_equal(done, !failing_memory.has_failed);
            assert_memory_equal(&job->request_hash, done ? &whole : &(struct digest){0}, sizeof whole);
            assert_in_range(n_failures, 0, 1000);
            n_failed += failing_memory.has_failed;
        }
    }
    assert_true(n_failed > 4);
    job_destroy(job);
    buffer_finish(&record);
}

TEST(a_job_is_named_and_warned_or_says_that_it_was_not)
{
    failing_memory.fails_alone = false;
    failing_memory.n_left = 0;
    assert_null(job_create());
    failing_memory.n_left = -1;
    struct job *job = job_create();
    failing_memory.n_left = 0;
    while (arena_allocate(&job->arena, 16))
        continue; // memory that a job owns is taken first
    assert_false(job_set_id(job, TEXT("a")));
    assert_false(job_warn(job, "w"));
    failing_memory.n_left = -1;
    assert_int_equal(job->job_id.size, 0);
    assert_int_equal(job->result.n_warnings, 0);
    assert_true(job_set_id(job, TEXT("a")));
    assert_true(job_warn(job, "w"));
    job_destroy(job);
}

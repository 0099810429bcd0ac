// The result of one job as that of another with an equal request.
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

static struct job *job_of(const char *record, const char *model)
{
    struct job *job = decode_good(record);
    job->result.model = text_from_string(model);
    job->result.system_fingerprint = TEXT("sheaf=1 model=9f backend=cpu");
    return job;
}

static struct buffer answer_of(struct job *job, enum encoding encoding)
{
    static struct choice choice = {TEXT("yes"), FINISH_STOP, 1, NULL};
    struct buffer out = {0};
    job->result.status = RESULT_DONE;
    job->result.choices = &choice;
    job->result.n_choices = 1;
    job->result.prompt_tokens = 12;
    job->result.completion_tokens = 2;
    result_encode(job, encoding, &out);
    assert_false(out.failed);
    return out;
}

static const char
    first[] = "{'job_id':'a','dataset':'d','custom_id':'line 1','index':1,'prompt':'x','metadata':{'k':1}}",
    second[] = "{'job_id':'b','dataset':'e','custom_id':'line 2','index':2,'prompt':'x','metadata':{'k':2}}";

TEST(a_shared_answer_leaves_a_job_its_own_names)
{
    for (int i = 0; i < 2; i++) {
        enum encoding encoding = i ? ENCODING_MSGPACK : ENCODING_JSON;
        struct job *answered = job_of(first, "m"), *job = job_of(second, "m");
        struct buffer record = answer_of(answered, encoding);
        struct error error;
        job->figures.attempts = 2;
        job->figures.queued_us = 5;
        job->result.reports_cached_tokens = true;
        assert_ok(result_reuse(job, (struct text){record.data, record.size}, encoding, &error), &error);
        assert_true(text_equals_string(job->job_id, "b") && text_equals_string(job->dataset, "e"));
        assert_true(text_equals_string(job->custom_id, "line 2"));
        assert_int_equal(job->index, 2);
        assert_int_equal(value_get(&job->metadata, "k")->integer, 2);
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(job->result.n_choices, 1);
        assert_true(text_equals_string(job->result.choices[0].text, "yes"));
        assert_int_equal(job->result.prompt_tokens, 12);
        assert_true(job->result.reports_cached_tokens);
        assert_true(job->figures.is_duplicate);
        assert_int_equal(job->figures.attempts, 2);
        assert_int_equal(job->figures.queued_us, 0);
        buffer_finish(&record);
        job_destroy(answered);
        job_destroy(job);
    }
}

TEST(an_answer_of_another_model_or_a_failure_is_not_shared)
{
    struct job *answered = job_of(first, "m"), *job = job_of(second, "other");
    struct buffer record = answer_of(answered, ENCODING_JSON), failure = {0};
    struct text text = {record.data, record.size};
    struct error error, cause;
    assert_int_equal(result_reuse(job, text, ENCODING_JSON, &error), STATUS_REJECT);
    job->result.model = TEXT("m");
    job->result.system_fingerprint = TEXT("sheaf=1 model=00 backend=cpu");
    assert_int_equal(result_reuse(job, text, ENCODING_JSON, &error), STATUS_REJECT);
    job->result.system_fingerprint = answered->result.system_fingerprint;
    assert_int_equal(result_reuse(job, TEXT("{"), ENCODING_JSON, &error), STATUS_REJECT);
    (void)error_set(&cause, STATUS_REJECT, ERROR_DEADLINE, "too late");
    job_fail(answered, &cause);
    result_encode(answered, ENCODING_JSON, &failure);
    assert_int_equal(result_reuse(job, (struct text){failure.data, failure.size}, ENCODING_JSON, &error),
                     STATUS_REJECT);
    assert_true(text_equals_string(job->job_id, "b")); // unchanged by all of them
    assert_int_equal(job->result.status, RESULT_NONE);
    assert_false(job->figures.is_duplicate);
    assert_ok(result_reuse(job, text, ENCODING_JSON, &error), &error);
    buffer_finish(&record);
    buffer_finish(&failure);
    job_destroy(answered);
    job_destroy(job);
}

TEST(warnings_about_one_request_are_not_shared)
{
    struct job *answered = job_of("{'prompt':'x','colour':1}", "m"),
               *job = job_of("{'prompt':'x','color':1}", "m");
    struct error error;
    assert_true(job_warn(answered, JOB_WARNING_OF_MODEL "\"gpt\", the answer is of \"m\""));
    assert_true(job_warn(answered, "the prompt begins with <s>"));
    struct buffer record = answer_of(answered, ENCODING_JSON);
    assert_int_equal(result_reuse(job, (struct text){record.data, record.size}, ENCODING_JSON, &error),
                     STATUS_OK);
    assert_int_equal(job->result.n_warnings, 2);
    assert_true(text_equals_string(job->result.warnings[0], "unknown field \"color\" ignored"));
    assert_true(text_equals_string(job->result.warnings[1], "the prompt begins with <s>"));
    buffer_finish(&record);
    job_destroy(answered);
    job_destroy(job);
}

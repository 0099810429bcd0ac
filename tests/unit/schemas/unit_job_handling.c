// Jobs outside their record: which of them an order names, and the free list of their memory.
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

// An order to cancel names a dataset, perhaps one job of it, and the moment up to which jobs were submitted.
TEST(an_order_names_jobs_of_its_dataset_and_id_up_to_its_moment)
{
    struct job *job = decode_good("{'prompt':'p','dataset':'d','job_id':'j'}");
    static const struct {
        int64_t created, written, submitted;
    } times[] = {{1000, 0, 1000}, {1000, 2000, 1000}, {0, 1000, 1000}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        job->created_s = times[i].created;
        job->source.written_s = times[i].written;
        assert_int_equal(job_submitted_s(job), times[i].submitted);
        assert_true(job_is_named(job, TEXT("d"), TEXT("j"), times[i].submitted));
        assert_true(job_is_named(job, TEXT("d"), (struct text){0}, times[i].submitted + 1));
        assert_false(job_is_named(job, TEXT("d"), (struct text){0}, times[i].submitted - 1));
        assert_false(job_is_named(job, TEXT("d"), TEXT("i"), INT64_MAX));
        assert_false(job_is_named(job, TEXT("e"), TEXT("j"), INT64_MAX));
        assert_false(job_is_named(job, TEXT("e"), (struct text){0}, INT64_MAX));
    }
    job_destroy(job);
}

TEST(jobs_from_the_reserve_are_as_new_and_no_more_are_kept_than_its_limit)
{
    struct job_reserve reserve = {0};
    struct job *jobs[JOB_RESERVE_MAX + 1];
    for (int i = 0; i <= JOB_RESERVE_MAX; i++) {
        jobs[i] = job_reserve_take(&reserve);
        assert_non_null(jobs[i]);
        assert_true(job_set_id(jobs[i], TEXT("used")) && job_warn(jobs[i], "used"));
        jobs[i]->index = 7;
        jobs[i]->request.n = 3;
    }
    assert_int_equal(reserve.n_jobs, 0);
    struct job *last = NULL; // that was kept; none is under a sanitizer
    for (int i = 0; i <= JOB_RESERVE_MAX; i++) {
        last = i < JOB_RESERVE_MAX ? jobs[i] : last;
        job_reserve_give(&reserve, jobs[i]);
    }
    assert_int_equal(reserve.n_jobs, JOB_RESERVE_MAX);
    struct job *job = job_reserve_take(&reserve);
    assert_true(!last || job == last); // its memory is the warmest
    assert_int_equal(reserve.n_jobs, last ? JOB_RESERVE_MAX - 1 : 0);
    assert_true(text_equals_string(job->dataset, "default") && job->job_id.size == 0 &&
                job->custom_id.size == 0);
    assert_true(job->index == -1 && job->request.n == 1 && job->request.stop.max_tokens == -1 &&
                job->result.n_warnings == 0);
    job_reserve_give(NULL, job);
    job_reserve_finish(&reserve);
    assert_null(reserve.first);
    assert_int_equal(reserve.n_jobs, 0);
}

TEST(a_warning_shows_the_first_128_bytes_of_a_name)
{
    for (int size = 127; size < 131; size++) {
        char name[140], record[200], expected[200];
        memset(name, 'x', sizeof name);
        name[size] = '\0';
        snprintf(record, sizeof record, "{'prompt':'p','%s':1}", name);
        snprintf(expected, sizeof expected, "unknown field \"%.128s\" ignored", name);
        struct job *job = decode_good(record);
        assert_int_equal(job->result.n_warnings, 1);
        if (!text_equals_string(job->result.warnings[0], expected))
            fail_msg("%.*s", (int)job->result.warnings[0].size, job->result.warnings[0].data);
        job_destroy(job);
    }
}

TEST(digests_are_equal_in_every_byte_and_none_equals_itself)
{
    struct digest digest = digest_of("request", 7), none = {0};
    assert_true(digest_equal(&digest, &digest) && !digest_equal(&none, &none));
    for (int i = 0; i < DIGEST_BYTES; i++) {
        struct digest other = digest, single = {0};
        other.bytes[i] ^= 1;
        single.bytes[i] = 1;
        assert_false(digest_equal(&digest, &other));
        assert_true(digest_is_set(&single) && digest_equal(&single, &single));
    }
}

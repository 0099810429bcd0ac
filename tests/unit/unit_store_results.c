// Results that the store has of jobs that its own queue did not compute: kept for equal requests, and taken
// for a table's rows.
#include "store/equal_requests.h"
#include "store/hashed_jobs.h"
#include "tests/store_jobs.h"

// On Kafka the store holds results for equal requests alone.
static void the_result_of_a_topics_job_is_found_by_its_request_within_its_dataset(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    struct job *job = job_create();
    struct buffer found = {0};
    assert_true(job && job_set_id(job, TEXT("k-1")) && job_set_text(job, &job->source.topic, TEXT("jobs")) &&
                job_set_text(job, &job->dataset, TEXT("d")));
    job->result.status = RESULT_DONE;
    job->request_hash = (struct digest){{7, 9}};
    const struct job *jobs[] = {job};
    const struct text results[] = {TEXT("{\"answer\":1}")};
    const struct store_record record = {.jobs = jobs, .n_jobs = 1, .results = results};
    assert_int_equal(store_record(store, &record, &error), STATUS_OK);
    assert_int_equal(store_find_equal(store, job, &found, &error), STATUS_OK);
    assert_int_equal(found.size, results[0].size);
    assert_memory_equal(found.data, results[0].data, found.size);
    job->request_hash.bytes[1] = 8;
    assert_int_equal(store_find_equal(store, job, &found, &error), STATUS_OK);
    assert_int_equal(found.size, 0);
    job->request_hash.bytes[1] = 9;
    assert_true(job_set_text(job, &job->dataset, TEXT("other")));
    assert_int_equal(store_find_equal(store, job, &found, &error), STATUS_OK);
    assert_int_equal(found.size, 0);
    buffer_finish(&found);
    job_destroy(job);
    store_close(store);
}

// Two topics' datasets of one name: the second is called NAME@TOPIC in the store, its jobs are not.
static void equal_requests_of_two_topics_have_each_their_own_results(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    struct buffer found = {0};
    static const char *const topics[] = {"one", "two"}, *const results[] = {"first", "second"};
    struct job *made[2];
    for (int i = 0; i < 2; i++) {
        made[i] = job_create();
        assert_true(made[i] && job_set_id(made[i], TEXT("k-1")) &&
                    job_set_text(made[i], &made[i]->source.topic, text_from_string(topics[i])) &&
                    job_set_text(made[i], &made[i]->dataset, TEXT("d")));
        made[i]->result.status = RESULT_DONE;
        made[i]->request_hash = (struct digest){{7, 9}};
        assert_int_equal(store_find_equal(store, made[i], &found, &error), STATUS_OK);
        assert_int_equal(found.size, 0);
        const struct job *jobs[] = {made[i]};
        const struct text kept[] = {text_from_string(results[i])};
        const struct store_record record = {.jobs = jobs, .n_jobs = 1, .results = kept};
        assert_int_equal(store_record(store, &record, &error), STATUS_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_find_equal(store, made[i], &found, &error), STATUS_OK);
        assert_int_equal(found.size, strlen(results[i]));
        assert_memory_equal(found.data, results[i], found.size);
    }
    for (int i = 0; i < 2; i++)
        job_destroy(made[i]);
    buffer_finish(&found);
    store_close(store);
}

// Of a table whose rows were computed elsewhere.
static void results_from_elsewhere_finish_the_queued_jobs_that_they_name_once(void **state)
{
    (void)state;
    struct store *store = open_store(false);
    assert_int_equal(submit(store, "d", 0, 3), 3);
    assert_int_equal(submit(store, "other", 3, 1), 1);
    struct finished_job finished[4] = {0};
    struct job *made[4];
    static const char *const names[] = {"d-0", "d-2", "other-3", "unknown"};
    for (int i = 0; i < 4; i++) {
        made[i] = job_create();
        assert_true(made[i] && job_set_id(made[i], text_from_string(names[i])) &&
                    job_set_text(made[i], &made[i]->dataset, TEXT("d")));
        made[i]->result.status = RESULT_DONE;
        made[i]->result.prompt_tokens = 10;
        made[i]->figures.is_duplicate = i == 1;
        finished[i] = (struct finished_job){made[i], text_from_string(names[i])};
    }
    for (int again = 0; again < 2; again++) {
        int64_t n_taken = -1;
        assert_int_equal(store_take_results(store, TEXT("d"), finished, 4, &n_taken, &error), STATUS_OK);
        assert_int_equal(n_taken, again ? 0 : 2);
        struct dataset_progress progress = progress_of(store, "d"), other = progress_of(store, "other");
        assert_int_equal(progress.done, 2);
        assert_int_equal(progress.submitted, 3);
        assert_int_equal(progress.prompt_tokens, 20);
        assert_int_equal(progress.duplicates.n_jobs, 1);
        assert_int_equal(progress.duplicates.n_tokens, 10);
        assert_int_equal(other.done, 0);
        struct collected collected;
        assert_int_equal(collect(store, "d", &collected), 1);
        assert_string_equal(collected.text, "d-0\nd-2\n");
    }
    for (int i = 0; i < 4; i++)
        job_destroy(made[i]);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_result_of_a_topics_job_is_found_by_its_request_within_its_dataset,
                               fresh_path),
        cmocka_unit_test_setup(equal_requests_of_two_topics_have_each_their_own_results, fresh_path),
        cmocka_unit_test_setup(results_from_elsewhere_finish_the_queued_jobs_that_they_name_once, fresh_path),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

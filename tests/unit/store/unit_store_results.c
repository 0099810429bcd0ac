// Results that the store has of jobs that its own queue did not compute: kept for equal requests, and taken
// for a table's rows.
#include "store/equal_requests.h"
#include "store/hashed_jobs.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

static bool take_found(void *context, struct text record)
{
    buffer_clear(context);
    buffer_add_text(context, record);
    return true;
}

// `answer` NULL: none is found.
static void assert_found(struct store *store, const struct job *job, enum equal_kind kind, const char *answer)
{
    struct buffer found = {0};
    const struct equal_search search = {.kind = kind, .max_tokens = job->request.stop.max_tokens};
    assert_ok(store_find_equal(store, job, &search, take_found, &found, &error), &error);
    assert_int_equal(found.size, answer ? strlen(answer) : 0);
    assert_memory_equal(found.data ? found.data : "", answer ? answer : "", found.size);
    buffer_finish(&found);
}

static struct job *make_done(const char *id, const char *topic, const char *dataset)
{
    static struct choice choice = {.text = TEXT("a"), .finish_reason = FINISH_STOP};
    struct job *job = job_create();
    assert_true(job && job_set_id(job, text_from_string(id)) &&
                job_set_text(job, &job->source.topic, text_from_string(topic)) &&
                job_set_text(job, &job->dataset, text_from_string(dataset)));
    job->result.status = RESULT_DONE;
    job->result.choices = &choice;
    job->result.n_choices = 1;
    job->request_hash = (struct digest){{7, 9}};
    return job;
}

static void record_result(struct store *store, const struct job *job, const char *result)
{
    const struct job *jobs[] = {job};
    const struct text results[] = {text_from_string(result)};
    const struct store_record record = {.jobs = jobs, .n_jobs = 1, .results = results};
    assert_ok(store_record(store, &record, &error), &error);
}

// On Kafka the store holds results for equal requests alone.
TEST(the_result_of_a_topics_job_is_found_by_its_request)
{
    struct store *store = open_store(true);
    struct job *job = make_done("k-1", "jobs", "d");
    record_result(store, job, "{\"answer\":1}");
    assert_found(store, job, EQUAL_IN_DATASET, "{\"answer\":1}");
    assert_found(store, job, EQUAL_ANYWHERE, "{\"answer\":1}");
    job->request_hash.bytes[1] = 8;
    assert_found(store, job, EQUAL_ANYWHERE, NULL);
    job->request_hash.bytes[1] = 9;
    assert_true(job_set_text(job, &job->dataset, TEXT("other")));
    assert_found(store, job, EQUAL_IN_DATASET, NULL);
    assert_found(store, job, EQUAL_ANYWHERE, "{\"answer\":1}");
    job_destroy(job);
    store_close(store);
}

// Two topics' datasets of one name: the second is called NAME@TOPIC in the store, its jobs are not.
TEST(equal_requests_of_two_topics_have_each_their_own_results_first)
{
    struct store *store = open_store(true);
    static const char *const topics[] = {"one", "two"}, *const results[] = {"first", "second"};
    struct job *made[2];
    for (int i = 0; i < 2; i++) {
        made[i] = make_done("k-1", topics[i], "d");
        assert_found(store, made[i], EQUAL_IN_DATASET, NULL);
        record_result(store, made[i], results[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_found(store, made[i], EQUAL_IN_DATASET, results[i]);
        assert_found(store, made[i], EQUAL_ANYWHERE, results[i]);
    }
    for (int i = 0; i < 2; i++)
        job_destroy(made[i]);
    store_close(store);
}

TEST(an_answer_that_ended_by_itself_is_found_under_larger_limits_alone)
{
    struct store *store = open_store(true);
    struct job *job = make_done("k-1", "jobs", "d");
    job->open_hash = (struct digest){{3}};
    job->request.stop.max_tokens = 40;
    record_result(store, job, "40");
    assert_true(job_set_text(job, &job->dataset, TEXT("other")));
    for (int32_t most = 39; most <= 41; most++) {
        job->request.stop.max_tokens = most;
        assert_found(store, job, EQUAL_BUT_SHORTER, most < 40 ? NULL : "40");
    }
    job->open_hash = (struct digest){{4}};
    assert_found(store, job, EQUAL_BUT_SHORTER, NULL);
    job_destroy(job);
    struct choice cut = {.text = TEXT("a"), .finish_reason = FINISH_LENGTH};
    job = make_done("k-2", "jobs", "d");
    job->open_hash = (struct digest){{4}};
    job->request.stop.max_tokens = 40;
    job->result.choices = &cut;
    record_result(store, job, "cut");
    assert_found(store, job, EQUAL_BUT_SHORTER, NULL);
    job_destroy(job);
    store_close(store);
}

// Results of a table whose rows were computed elsewhere.
TEST(results_from_elsewhere_finish_the_queued_jobs_that_they_name_once)
{
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
    struct job_set rows = {0}; // the dataset's jobs but the last
    bool is_new;
    assert_true(job_set_add(&rows, 1, &is_new) && job_set_add(&rows, 2, &is_new));
    for (int again = 0; again < 2; again++) {
        int64_t n_taken = -1;
        assert_ok(store_take_results(store, TEXT("d"), finished, 4, &rows, &n_taken, &error), &error);
        assert_int_equal(n_taken, again ? 0 : 1);
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
    job_set_finish(&rows);
    store_close(store);
}

static enum status note_request(void *context, const struct stored_request *request, struct error *fault)
{
    buffer_add_format(context, "%lld %.*s%s\n", (long long)request->id, (int)request->job_id.size,
                      request->job_id.data, request->is_queued ? " queued" : "");
    assert_true(request->record.size > 0);
    return STATUS_OK;
}

TEST(each_request_of_a_table_is_passed_in_the_order_of_submission_with_its_state)
{
    struct store *store = open_store(false);
    struct buffer noted = {0};
    assert_int_equal(submit(store, "d", 0, 2), 2);
    assert_int_equal(submit(store, "other", 3, 1), 1);
    assert_int_equal(submit(store, "d", 5, 2), 2);
    struct job *job = job_create();
    assert_true(job && job_set_id(job, TEXT("d-1")) && job_set_text(job, &job->dataset, TEXT("d")));
    job->result.status = RESULT_CANCELLED;
    struct finished_job finished = {job, TEXT("d-1")};
    struct job_set rows = {0};
    int64_t n_taken;
    bool is_cancelled;
    assert_ok(store_take_results(store, TEXT("d"), &finished, 1, &rows, &n_taken, &error), &error);
    assert_int_equal(n_taken, 0);
    assert_ok(store_each_record(store, TEXT("d"), note_request, &noted, &error), &error);
    assert_string_equal(noted.data, "1 d-0 queued\n2 d-1\n4 d-5 queued\n5 d-6 queued\n");
    struct buffer record = {0};
    assert_ok(store_request_record(store, 2, &record, &error), &error); // finished
    assert_int_equal(record.size, strlen("{\"prompt\":\"1\"}"));
    assert_memory_equal(record.data, "{\"prompt\":\"1\"}", record.size);
    assert_int_equal(store_request_record(store, 7, &record, &error), STATUS_REFUSE);
    buffer_finish(&record);
    for (int64_t id = 1; id <= 6; id++) {
        assert_ok(store_is_cancelled(store, id, &is_cancelled, &error), &error);
        assert_int_equal(is_cancelled, id == 2);
    }
    assert_ok(store_hold_rows(store, TEXT("d"), &error), &error);
    assert_false(store_others_hold_rows(store, TEXT("d")));
    struct store *other = open_store(false);
    assert_ok(store_hold_rows(other, TEXT("d"), &error), &error);
    assert_true(store_others_hold_rows(store, TEXT("d")));
    store_close(other);
    job_destroy(job);
    buffer_finish(&noted);
    store_close(store);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);

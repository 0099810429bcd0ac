// Figures of datasets, of a bounded number of them.
#include "consumer/observe/dataset_tally.h"
#include "tests/support/cases.h"

static struct dataset_tally tally;

static int open_tally(void **state)
{
    tally = (struct dataset_tally){0};
    return 0;
}

static struct job *receive(const char *dataset)
{
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_text(job, &job->dataset, text_from_string(dataset)));
    dataset_tally_received(&tally, job);
    return job;
}

static void leave(struct job *job, enum result_status status, bool published)
{
    job->result.status = status;
    job->result.prompt_tokens = 10;
    job->result.completion_tokens = 5;
    job->figures.cached_tokens = 4;
    dataset_tally_left(&tally, job, published);
    job_destroy(job);
}

static const struct dataset_counts *find(const char *dataset)
{
    for (int i = 0; i < tally.n_entries; i++)
        if (text_equals_string((struct text){tally.entries[i].name, tally.entries[i].name_size}, dataset))
            return &tally.entries[i].counts;
    return NULL;
}

TEST(each_dataset_has_its_own_counts)
{
    struct job *first = receive("a"), *second = receive("a"), *third = receive("");
    assert_int_equal(find("a")->n_in_flight, 2);
    leave(first, RESULT_DONE, true);
    assert_true(job_set_text(second, &second->source.record, TEXT("no job")));
    leave(second, RESULT_FAILED, true);
    leave(third, RESULT_DONE, false); // released
    assert_int_equal(find("a")->n_in_flight, 0);
    assert_int_equal(find("a")->n_done, 1);
    assert_int_equal(find("a")->n_failed, 1);
    assert_int_equal(find("a")->n_dead, 1);
    assert_int_equal(find("a")->n_tokens, 2 * (10 - 4 + 5));
    assert_int_equal(find("")->n_in_flight, 0);
    assert_int_equal(find("")->n_done, 0);
}

TEST(the_dataset_that_was_used_the_longest_ago_is_added_to_the_others)
{
    struct job *kept = receive("kept");
    for (int i = 0; i < DATASET_TALLY_MAX + 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        leave(receive(name), RESULT_DONE, true);
    }
    assert_int_equal(tally.n_entries, DATASET_TALLY_MAX);
    assert_null(find("d0"));
    assert_null(find("d10"));
    assert_non_null(find("d11"));
    assert_int_equal(tally.others.n_done, 11);
    assert_int_equal(find("kept")->n_in_flight, 1); // used longest ago, but it has a job
    leave(kept, RESULT_DONE, true);
    assert_int_equal(find("kept")->n_in_flight, 0);
}

TEST(if_all_have_jobs_in_flight_a_further_one_is_among_the_others)
{
    struct job *jobs[DATASET_TALLY_MAX + 1];
    for (int i = 0; i <= DATASET_TALLY_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        jobs[i] = receive(name);
    }
    assert_int_equal(tally.others.n_in_flight, 1);
    for (int i = 0; i <= DATASET_TALLY_MAX; i++)
        leave(jobs[i], RESULT_DONE, true);
    assert_int_equal(tally.others.n_in_flight, 0);
    assert_int_equal(tally.others.n_done, 1);
}

TEST(unfinished_jobs_of_the_queue_are_known_until_they_are_forgotten)
{
    dataset_tally_set_unfinished(&tally, TEXT("a"), 7);
    assert_int_equal(find("a")->unfinished, 7);
    dataset_tally_forget_unfinished(&tally);
    assert_int_equal(find("a")->unfinished, -1);
}

TEST_FIXTURE(open_tally, NULL);

// A record's place and headers become a job's.
#include "consumer/intake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void a_job_knows_where_its_record_was(void **state)
{
    (void)state;
    const struct header headers[] = {{TEXT("own"), TEXT("kept")}, {TEXT(HEADER_DATASET), TEXT("d")}};
    const struct record record = {.topic = TEXT("t"),
                                  .partition = 3,
                                  .offset = 44,
                                  .key = TEXT("k"),
                                  .headers = headers,
                                  .n_headers = 2,
                                  .has_more_headers = true,
                                  .written_s = 1700000000,
                                  .value = TEXT("{\"job_id\":\"a\",\"prompt\":\"p\"}"),
                                  .crashes = 2};
    const struct result_names names = {TEXT("m"), TEXT("f")};
    struct job_reserve reserve = {0};
    struct job *job = intake_job(&record, &names, &reserve);
    assert_non_null(job);
    const struct job_source *source = &job->source;
    assert_int_equal(job->result.status, RESULT_NONE);
    assert_true(text_equal(source->topic, TEXT("t")) && text_equal(source->key, TEXT("k")));
    assert_int_equal(source->partition, 3);
    assert_int_equal(source->offset, 44);
    assert_int_equal(source->crashes, 2);
    assert_true(source->has_more_headers);
    assert_int_equal(source->n_headers, 2);
    assert_true(text_equal(source->headers[0].value, TEXT("kept")));
    assert_true(text_equal(job->dataset, TEXT("d")));
    assert_int_equal(source->written_s, 1700000000); // the time that the job has where it names none
    job_destroy(job);
}

static uint64_t seed_of(const struct record *record)
{
    const struct result_names names = {TEXT("m"), TEXT("f")};
    struct job *job = intake_job(record, &names, NULL);
    assert_non_null(job);
    assert_int_equal(job->result.status, RESULT_NONE);
    uint64_t seed = job->request.sampling.seed;
    assert_true(seed == job_default_seed(job)); // as the engine thread computes it later
    job_destroy(job);
    return seed;
}

// A record of another producer, without a name.
static void a_record_without_a_name_draws_by_its_place_in_any_topic(void **state)
{
    (void)state;
    struct record record = {
        .topic = TEXT("t"), .partition = 3, .offset = 44, .value = TEXT("{\"prompt\":\"p\"}")};
    uint64_t first = seed_of(&record);
    record.topic = TEXT("other");
    assert_true(seed_of(&record) == first);
    record.offset = 45;
    assert_true(seed_of(&record) != first);
    record.offset = 44;
    record.partition = 4;
    assert_true(seed_of(&record) != first);
}

static uint64_t seed_of_line(const char *dataset, const char *custom_id, const char *line)
{
    char job_id[64];
    snprintf(job_id, sizeof job_id, "%s-1", dataset);
    const struct header headers[] = {{TEXT(HEADER_DATASET), text_from_string(dataset)},
                                     {TEXT(HEADER_JOB_ID), text_from_string(job_id)},
                                     {TEXT(HEADER_CUSTOM_ID),
                                      text_from_string(custom_id ? custom_id : job_id)},
                                     {TEXT(HEADER_INDEX), TEXT("1")}};
    const struct record record = {.headers = headers, .n_headers = 4, .value = text_from_string(line)};
    return seed_of(&record);
}

// As `submit` sends lines: those without a custom_id have one made of the dataset's name.
static void a_line_draws_alike_in_every_dataset(void **state)
{
    (void)state;
    static const char unnamed[] = "{\"prompt\":\"p\"}",
                      named[] = "{\"prompt\":\"p\",\"custom_id\":\"run-1\"}";
    uint64_t first = seed_of_line("run", "run-1", named);
    assert_true(seed_of_line("other", "run-1", named) == first);
    assert_true(seed_of_line("run", NULL, unnamed) == seed_of_line("other", NULL, unnamed));
    assert_true(seed_of_line("run", NULL, unnamed) != first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_knows_where_its_record_was),
                                       cmocka_unit_test(
                                           a_record_without_a_name_draws_by_its_place_in_any_topic),
                                       cmocka_unit_test(a_line_draws_alike_in_every_dataset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

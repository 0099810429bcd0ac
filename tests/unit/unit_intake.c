// A record's place and headers become a job's.
#include "consumer/intake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_knows_where_its_record_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Results spooled on disk: their order, missing ones, and the memory used.
#include "store/database.h"
#include "store/spool.h"
#include "tests/support/cases.h"

static struct error error;

static void add_record(struct spool *spool, const char *job_id, int64_t index, const char *record)
{
    assert_ok(spool_add_result(spool, text_from_string(job_id), index, 0, text_from_string(record), &error),
              &error);
}

static enum status append(void *context, struct text record, struct error *unused)
{
    buffer_add_text(context, record);
    return STATUS_OK;
}

TEST(results_come_by_index_then_as_they_came_and_the_first_of_an_id_counts)
{
    struct spool *spool;
    assert_ok(spool_open(&spool, SPOOL_CACHE_KIB, &error), &error);
    const char *jobs[] = {"a", "b", "c", "a", "d"};
    for (int i = 0; i < 5; i++)
        assert_ok(spool_add_job(spool, text_from_string(jobs[i]), false, 0, &error), &error);
    add_record(spool, "x", -1, "5");
    add_record(spool, "c", 2, "3");
    add_record(spool, "y", -1, "6");
    add_record(spool, "a", 0, "1");
    add_record(spool, "a", 0, "again");
    add_record(spool, "b", 1, "2");
    add_record(spool, "z", 2, "4");
    struct spool_counts counts;
    assert_ok(spool_count(spool, &counts, &error), &error);
    assert_int_equal(counts.n_jobs, 4);
    assert_int_equal(counts.n_results, 6);
    assert_int_equal(counts.n_missing, 1); // d
    assert_int_equal(counts.n_finished, 0);
    struct buffer all = {0};
    assert_ok(spool_read(spool, append, &all, &error), &error);
    assert_string_equal(all.data, "123456");
    buffer_finish(&all);
    spool_close(spool);
}

TEST(the_result_of_the_highest_round_counts_and_a_job_of_a_later_round_is_missing)
{
    struct spool *spool;
    assert_ok(spool_open(&spool, SPOOL_CACHE_KIB, &error), &error);
    static const struct {
        const char *job_id;
        int64_t round;
        const char *record; // NULL: a job
    } added[] = {{"a", 0, NULL}, {"a", 1, NULL}, {"b", 0, NULL}, {"b", 1, NULL},
                 {"c", 2, NULL}, {"c", 1, NULL}, {"a", 0, "1"},  {"a", 1, "2"},
                 {"a", 0, "3"},  {"a", 1, "4"},  {"b", 0, "5"},  {"c", 2, "6"}};
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        struct text job_id = text_from_string(added[i].job_id);
        if (added[i].record)
            assert_ok(spool_add_result(spool, job_id, job_id.data[0], added[i].round,
                                       text_from_string(added[i].record), &error),
                      &error);
        else
            assert_ok(spool_add_job(spool, job_id, added[i].round == 0, added[i].round, &error), &error);
    }
    struct spool_counts counts;
    struct buffer all = {0};
    assert_ok(spool_count(spool, &counts, &error), &error);
    assert_ok(spool_read(spool, append, &all, &error), &error);
    assert_string_equal(all.data, "256");
    assert_int_equal(counts.n_results, 2);
    assert_int_equal(counts.n_missing, 1);  // b's second
    assert_int_equal(counts.n_finished, 0); // although its first is
    assert_int_equal(counts.n_repeated, 1); // "4"
    buffer_finish(&all);
    spool_close(spool);
}

TEST(a_job_without_a_result_is_finished_if_each_submission_of_it_is)
{
    struct spool *spool;
    struct spool_counts counts;
    static const struct {
        const char *job_id;
        bool is_finished;
    } jobs[] = {{"a", true}, {"b", true}, {"c", true}, {"c", false}, {"d", false},
                {"d", true}, {"e", true}, {"e", true}, {"f", false}};
    assert_ok(spool_open(&spool, SPOOL_CACHE_KIB, &error), &error);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        assert_ok(spool_add_job(spool, text_from_string(jobs[i].job_id), jobs[i].is_finished, 0, &error),
                  &error);
    add_record(spool, "a", 0, "1"); // not missing
    add_record(spool, "a", 0, "2"); // foreign: left out
    assert_ok(spool_count(spool, &counts, &error), &error);
    assert_int_equal(counts.n_repeated, 1);
    assert_int_equal(counts.n_jobs, 6);
    assert_int_equal(counts.n_missing, 5);
    assert_int_equal(counts.n_finished, 2); // b and e
    spool_close(spool);
}

static enum status count_record(void *context, struct text record, struct error *unused)
{
    int *n = context;
    assert_int_equal(record.size, 16384);
    assert_int_equal((unsigned char)record.data[0], *n % 251); // as their index says
    *n += 1;
    return STATUS_OK;
}

static enum status stop(void *context, struct text record, struct error *refused)
{
    return error_set(refused, STATUS_REFUSE, ERROR_FILE, "no room");
}

TEST(memory_is_bounded_however_many_there_are)
{
    enum { N = 2000, BYTES = 16384, CACHE_KIB = 1024 };
    struct spool *spool;
    sqlite3_memory_highwater(1);
    sqlite3_int64 before = sqlite3_memory_used();
    assert_ok(spool_open(&spool, CACHE_KIB, &error), &error);
    char *record = malloc(BYTES);
    for (int i = 0; i < N; i++) { // 32 MB, in an order of their own
        int index = (int)((int64_t)i * 1237 % N);
        char id[16];
        int length = snprintf(id, sizeof id, "%d", index);
        memset(record, index % 251, BYTES);
        assert_ok(spool_add_result(spool, (struct text){id, (size_t)length}, index, 0,
                                   (struct text){record, BYTES}, &error),
                  &error);
    }
    int n = 0;
    assert_ok(spool_read(spool, count_record, &n, &error), &error);
    assert_int_equal(n, N);
    assert_int_equal(spool_read(spool, stop, NULL, &error), STATUS_REFUSE);
    assert_in_range(sqlite3_memory_highwater(0) - before, 1, 4 * CACHE_KIB * 1024);
    free(record);
    spool_close(spool);
}

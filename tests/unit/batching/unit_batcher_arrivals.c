// The batcher with jobs that take long to prepare: no other waits for them.
#include "batching/arrivals.h"
#include "tests/support/cases.h"
#include "tests/support/thread_names.h"
#include "tests/unit/batching/batcher_bench.h"

#include <pthread.h>

static const struct batch_limits limits = {
    .n_sequences_max = 8, .n_tokens_max = 64, .n_jobs_max = 100, .n_pages = 200, .page_positions = 16};

// A text of that many bytes as a record; the prompt itself is short.
static struct job *text_job(const char *text, size_t record_bytes, const char *id)
{
    struct job *job = job_of((const int32_t[]){0}, 0, 12, id);
    job->request.prompt.kind = PROMPT_TEXT;
    assert_true(job_set_text(job, &job->request.prompt.text, text_from_string(text)));
    job->source.bytes.record = record_bytes;
    return job;
}

static void take_long(struct bench *bench, const char *text, const char *id)
{
    batcher_take(bench->batcher, text_job(text, ARRIVALS_BYTES_MAX + 1, id));
}

static void take_short(struct bench *bench, const char *text, const char *id)
{
    batcher_take(bench->batcher, text_job(text, 100, id));
}

static void round_once(struct bench *bench)
{
    struct step_figures figures;
    struct error error;
    assert_ok(batcher_round(bench->batcher, &bench->finished, &figures, &error), &error);
}

static void round_until(struct bench *bench, size_t n_finished)
{
    while (bench->finished.n_jobs < n_finished)
        round_once(bench);
}

static void assert_finished(const struct bench *bench, const char *const *ids, size_t n)
{
    assert_int_equal(bench->finished.n_jobs, n);
    for (const struct job *job = bench->finished.first; job; job = job->next, ids++)
        if (!text_equals_string(job->job_id, *ids))
            fail_msg("expected %s, got %.*s", *ids, (int)job->job_id.size, job->job_id.data);
}

// The long one is prepared only after the others have their answers, and has the answer that it has alone.
TEST(a_job_that_is_prepared_for_long_keeps_no_other_from_its_steps)
{
    struct bench bench = bench_open(limits);
    int n_held = fake_tokenizer_n_texts(true);
    fake_tokenizer_hold(true);
    take_long(&bench, "#a long text", "long 0");
    take_short(&bench, "a short text", "short 0");
    take_long(&bench, "#another one", "long 1");
    round_until(&bench, 1);
    assert_true(fake_model_steps(bench.model) > 1);
    take_short(&bench, "a late text", "short 1");
    take_long(&bench, "#a late long one", "long 2");
    round_until(&bench, 2);
    assert_in_range(fake_tokenizer_n_texts(true) - n_held, 0, 1); // one at a time
    fake_tokenizer_hold(false);
    run_to_end(&bench);
    assert_int_equal(fake_tokenizer_n_texts(true) - n_held, 3);
    assert_int_equal(bench.finished.n_jobs, 5);
    struct bench alone = bench_open(limits);
    batcher_take(alone.batcher, text_job("#a long text", 100, "long 0"));
    run_to_end(&alone);
    const struct job *expected = alone.finished.first;
    int i = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next, i++) {
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(i < 2, memcmp(job->job_id.data, "short", 5) == 0);
        if (text_equal(job->job_id, expected->job_id))
            assert_true(text_equal(job->result.choices[0].text, expected->result.choices[0].text));
    }
    bench_close(&alone);
    bench_close(&bench);
}

TEST(short_jobs_are_prepared_in_their_order_as_many_as_a_step_may_wait_for)
{
    struct bench bench = bench_open(limits);
    int n_before = fake_tokenizer_n_texts(false), n_round = 2 * 4; // two threads
    for (int i = 0; i < 40; i++)
        batcher_take(bench.batcher, text_job("text", ARRIVALS_BYTES_MAX / 4, i == 39 ? "last" : "other"));
    take_short(&bench, "text", "behind"); // small, but it overtakes none
    for (int round = 1; round <= 5; round++) {
        round_once(&bench);
        assert_int_equal(fake_tokenizer_n_texts(false) - n_before, round * n_round);
    }
    round_once(&bench);
    assert_int_equal(fake_tokenizer_n_texts(false) - n_before, 41);
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, 41);
    batcher_take(bench.batcher, text_job("text", ARRIVALS_BYTES_MAX, "the longest short one"));
    round_once(&bench);
    assert_int_equal(fake_tokenizer_n_texts(false) - n_before, 42);
    run_to_end(&bench);
    bench_close(&bench);
}

TEST(a_long_job_is_cancelled_wherever_it_is)
{
    struct bench bench = bench_open(limits);
    fake_tokenizer_hold(true);
    take_long(&bench, "#first", "prepared");
    take_long(&bench, "#second", "waiting");
    take_short(&bench, "short", "short");
    round_once(&bench);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("waiting"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("prepared"), INT64_MAX);
    round_until(&bench, 2);
    fake_tokenizer_hold(false);
    run_to_end(&bench);
    static const char *const ids[] = {"waiting", "short", "prepared"};
    assert_finished(&bench, ids, 3);
    for (const struct job *job = bench.finished.first; job; job = job->next)
        assert_int_equal(job->result.status,
                         text_equals_string(job->job_id, "short") ? RESULT_DONE : RESULT_CANCELLED);
    bench_close(&bench);
}

static int64_t now_us;

static int64_t set_clock(void)
{
    return now_us;
}

TEST(a_long_job_past_its_deadline_ends_when_it_is_prepared)
{
    now_us = 1000000000;
    struct bench bench = bench_open_at(limits, set_clock);
    fake_tokenizer_hold(true);
    for (int i = 0; i < 2; i++) {
        struct job *job = text_job("#long", ARRIVALS_BYTES_MAX + 1, i ? "waiting" : "prepared");
        job->deadline_s = 2000;
        batcher_take(bench.batcher, job);
    }
    round_once(&bench);
    now_us = 2000000000;
    round_until(&bench, 1);
    fake_tokenizer_hold(false);
    run_to_end(&bench);
    static const char *const ids[] = {"waiting", "prepared"};
    assert_finished(&bench, ids, 2);
    for (const struct job *job = bench.finished.first; job; job = job->next)
        assert_int_equal(job->result.error.code, ERROR_DEADLINE);
    assert_int_equal(fake_model_steps(bench.model), 0);
    bench_close(&bench);
}

static void *let_go(void *context)
{
    fake_tokenizer_hold(false);
    return NULL;
}

// Of lost partitions only what waits; else also what is being prepared, once it is.
TEST(long_jobs_are_released_as_they_came)
{
    for (int running_too = 0; running_too < 2; running_too++) {
        struct bench bench = bench_open(limits);
        struct job_list released = {0};
        int32_t partition = 0;
        const struct partition_ids ids = {&partition, 1};
        pthread_t thread;
        fake_tokenizer_hold(true);
        take_long(&bench, "#first", "prepared");
        take_long(&bench, "#second", "waiting");
        round_once(&bench);
        batcher_release_partitions(bench.batcher, &ids, &released);
        assert_int_equal(released.n_jobs, 1);
        assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
        batcher_release(bench.batcher, running_too, &released);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(batcher_is_empty(bench.batcher));
        assert_int_equal(released.n_jobs, 2);
        assert_int_equal(bench.finished.n_jobs, 0);
        for (struct job *job; (job = job_list_take(&released));) {
            assert_int_equal(job->result.status, RESULT_NONE);
            assert_int_equal(job->result.prompt_tokens, 0);
            job_destroy(job);
        }
        bench_close(&bench);
    }
}

TEST(the_thread_of_long_jobs_has_a_name)
{
    struct bench bench = bench_open(limits);
    take_long(&bench, "long", "0");
    round_until(&bench, 1);
    assert_int_equal(threads_count("sheaf-prepare"), 1);
    bench_close(&bench);
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}

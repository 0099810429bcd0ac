// The scheduler: tokens of a step, shared and released pages, figures of a job.
#include "tests/support/cases.h"
#include "tests/unit/batching/batcher_bench.h"

static struct job *long_job(int32_t first, int32_t n_prompt, int32_t max_tokens, const char *id)
{
    int32_t tokens[200];
    for (int32_t i = 0; i < n_prompt; i++)
        tokens[i] = first + i;
    struct job *job = job_of(tokens, n_prompt, max_tokens, id);
    job->request.stop.ignore_eos = true;
    return job;
}

static struct step_figures run_round(struct bench *bench)
{
    struct step_figures figures;
    struct error error;
    assert_ok(batcher_round(bench->batcher, &bench->finished, &figures, &error), &error);
    bench->preempted += figures.n_preempted;
    return figures;
}

TEST(a_job_cancelled_within_a_page_leaves_the_tokens_it_has_computed)
{
    enum { PAGE = 4, PROMPT = 40 };
    for (int32_t n_rows = 1; n_rows <= 11; n_rows++) {
        struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 1,
                                                              .n_tokens_max = n_rows,
                                                              .n_jobs_max = 4,
                                                              .n_pages = 40,
                                                              .page_positions = PAGE});
        for (int32_t n_rounds = 1; n_rounds <= 3; n_rounds++) {
            batcher_take(bench.batcher, long_job(20 + 50 * n_rounds, PROMPT, 3, "cancelled"));
            for (int32_t i = 0; i < n_rounds; i++)
                (void)run_round(&bench);
            batcher_cancel(bench.batcher, TEXT("test"), TEXT("cancelled"), INT64_MAX);
            batcher_take(bench.batcher, long_job(20 + 50 * n_rounds, PROMPT, 3, "same prompt"));
            run_to_end(&bench);
            assert_true(text_equals_string(bench.finished.last->job_id, "same prompt"));
            check_answer(bench.finished.last);
            assert_int_equal(bench.finished.last->figures.cached_tokens, n_rounds * n_rows);
        }
        bench_close(&bench);
    }
}

// Admitted because short answers are expected, preempted when they turn out long, admitted again.
TEST(tokens_a_preempted_job_shared_are_counted_once)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 6, .n_tokens_max = 16, .n_jobs_max = 300, .n_pages = 64, .page_positions = 4});
    for (int j = 0; j < 200; j++)
        batcher_take(bench.batcher, job_of((int32_t[]){150 + j % 50, 160 + j / 50}, 2, 1, "short"));
    run_to_end(&bench);
    assert_int_equal(bench.preempted, 0);
    for (int j = 0; j < 5; j++)
        batcher_take(bench.batcher, long_job(20, 9, 150, j ? "shares" : "first"));
    run_to_end(&bench);
    assert_true(bench.preempted > 0);
    int n_shares = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        if (text_equals_string(job->job_id, "short"))
            continue;
        check_answer(job);
        n_shares += text_equals_string(job->job_id, "shares");
        assert_int_equal(job->figures.cached_tokens, text_equals_string(job->job_id, "shares") ? 8 : 0);
    }
    assert_int_equal(n_shares, 4);
    bench_close(&bench);
}

TEST(several_answers_of_a_job_count_its_cached_prompt_once)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 16, .n_jobs_max = 8, .n_pages = 64, .page_positions = 4});
    for (int j = 0; j < 2; j++) {
        struct job *job = long_job(20, 22, 3, j ? "second" : "first");
        job->request.n = 4;
        batcher_take(bench.batcher, job);
        run_to_end(&bench);
    }
    assert_int_equal(bench.finished.first->figures.cached_tokens, 0);
    assert_int_equal(bench.finished.last->figures.cached_tokens, 21); // all but the last token
    assert_int_equal(bench.finished.last->result.prompt_tokens, 22);
    bench_close(&bench);
}

TEST(a_long_prompt_fills_every_step_and_answers_go_on_beside_it)
{
    enum { ROWS = 10, ANSWERS = 3 };
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 8, .n_tokens_max = ROWS, .n_jobs_max = 8, .n_pages = 100, .page_positions = 4});
    for (int32_t j = 0; j < ANSWERS; j++)
        batcher_take(bench.batcher, long_job(20 + 20 * j, 2, 60, "answer"));
    for (int i = 0; i < 4; i++)
        (void)run_round(&bench);
    batcher_take(bench.batcher, long_job(100, 90, 2, "long prompt"));
    for (int i = 0; i < 90 / (ROWS - ANSWERS); i++) {
        struct step_figures figures = run_round(&bench);
        if (i == 0 && ahead) // of the step before
            continue;
        assert_int_equal(figures.n_tokens, ROWS);
        assert_int_equal(figures.decode_tokens, ANSWERS);
    }
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next)
        check_answer(job);
    bench_close(&bench);
}

// An answer of 20 pages, and another one beside the 21 that the first is expected to reach; else it would
// have to give its pages back.
TEST(jobs_wait_for_the_pages_that_running_ones_are_expected_to_take)
{
    for (int32_t n_pages = 40; n_pages <= 41; n_pages++) {
        struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 8,
                                                              .n_tokens_max = 32,
                                                              .n_jobs_max = 8,
                                                              .n_pages = n_pages,
                                                              .page_positions = 4});
        for (int32_t j = 0; j < 6; j++)
            batcher_take(bench.batcher, long_job(20 + 20 * j, 4, 76, "job"));
        run_to_end(&bench);
        assert_int_equal(bench.preempted, 0);
        assert_int_equal(fake_model_largest_batch(bench.model), n_pages == 40 ? 1 : 2);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            check_answer(job);
        bench_close(&bench);
    }
}

// An answer that is expected to be larger than the memory may end early: it starts when nothing else runs.
TEST(a_job_expected_to_outgrow_the_memory_starts_alone)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 8, .n_tokens_max = 32, .n_jobs_max = 8, .n_pages = 20, .page_positions = 4});
    int32_t answer[80], first = 20;
    while (fake_model_answer((int32_t[]){first, first + 1, first + 2}, 3, 5, 0, 70, false, answer) > 40)
        first++;
    struct job *job = long_job(first, 3, -1, "ends early");
    job->request.stop.ignore_eos = false;
    batcher_take(bench.batcher, job);
    run_to_end(&bench);
    job->request.stop.max_tokens = 4096 - 3;
    check_answer(job);
    bench_close(&bench);
}

// ---- results beyond what can be read back ----

static struct step_executor inner;

static void add_alternatives(const struct step *step, struct sample_result *results)
{
    for (int32_t i = 0; i < step->n_outputs; i++) {
        results[i].n_top = JOB_TOP_LOGPROBS_MAX;
        memset(results[i].top, 0, sizeof results[i].top);
    }
}

static enum status step_with_alternatives(void *context, struct step *step, struct sample_result *results,
                                          struct error *error)
{
    enum status status = inner.step(context, step, results, error);
    add_alternatives(step, results);
    return status;
}

static enum status collect_with_alternatives(void *context, struct step *step, struct sample_result *results,
                                             struct error *error)
{
    enum status status = inner.collect(context, step, results, error);
    add_alternatives(step, results);
    return status;
}

TEST(a_result_too_large_to_be_read_back_is_an_error)
{
    // A plain completion's token has 2 values, and 3 for each alternative and for itself.
    enum {
        CHOICES = 64,
        VALUES = 2 + 3 * (JOB_TOP_LOGPROBS_MAX + 1),
        MOST = VALUE_COUNT_MAX / VALUES / CHOICES
    };
    struct batch_limits limits = {.n_sequences_max = CHOICES,
                                  .n_tokens_max = CHOICES,
                                  .n_jobs_max = 2,
                                  .n_pages = 5000,
                                  .page_positions = 16};
    for (int over = 0; over < 2; over++) {
        struct bench bench = bench_open(limits);
        struct error error;
        inner = ahead ? fake_model_executor_ahead(bench.model) : fake_model_executor(bench.model);
        struct batcher_config config = {
            .executor = inner,
            .pool = bench.pool,
            .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
            .limits = limits};
        config.executor.step = step_with_alternatives;
        config.executor.collect = ahead ? collect_with_alternatives : NULL;
        batcher_destroy(bench.batcher);
        assert_ok(batcher_create(&bench.batcher, &config, &error), &error);
        struct job *job = long_job(20, 3, over ? MOST + 1 : MOST - 2, "job");
        job->request.n = CHOICES;
        job->request.sampling.logprobs = true;
        job->request.sampling.top_logprobs = JOB_TOP_LOGPROBS_MAX;
        batcher_take(bench.batcher, job);
        run_to_end(&bench);
        assert_int_equal(job->result.status, over ? RESULT_FAILED : RESULT_DONE);
        assert_int_equal(job->result.error.code, over ? ERROR_RESULT_TOO_LARGE : ERROR_NONE);
        bench_close(&bench);
    }
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}

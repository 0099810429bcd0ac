// How jobs leave the batcher other than with an answer: bad, cancelled, released, too late, too large, on a
// lost device.
#include "batching/constraint_threads.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/batcher_bench.h"
#include "tests/unit/batching/random_jobs.h"

TEST(bad_jobs_fail_alone_with_their_own_error)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 8, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 20, .page_positions = 16});
    int32_t tokens[400] = {0};
    for (int32_t i = 0; i < 400; i++)
        tokens[i] = 20 + i % 100;
    batcher_take(bench.batcher, job_of(tokens, 20, 10, "good"));
    batcher_take(bench.batcher, job_of(tokens, 0, 10, "empty"));
    batcher_take(bench.batcher, job_of(tokens, 310, 4096 - 309, "long"));
    batcher_take(bench.batcher, job_of(tokens, 310, 11, "large")); // one more than the pages hold
    batcher_take(bench.batcher, job_of(tokens, 310, 10, "fits"));
    batcher_take(bench.batcher, job_of((int32_t[]){3, FAKE_VOCAB}, 2, 10, "range"));
    batcher_take(bench.batcher, job_of((int32_t[]){3, FAKE_POISON, 4}, 3, 10, "nan"));
    batcher_take(bench.batcher, job_of(tokens, 20, 0, "zero"));
    struct job *messages = job_of(tokens, 1, 4, "messages");
    messages->request.prompt.kind = PROMPT_MESSAGES;
    batcher_take(bench.batcher, messages);
    struct job *choices = job_of((int32_t[]){3, 4, 5, FAKE_POISON}, 4, 10, "nan choices");
    choices->request.n = 4;
    batcher_take(bench.batcher, choices);
    run_to_end(&bench);
    const struct {
        const char *id;
        enum error_code code;
    } expected[] = {{"good", ERROR_NONE},           {"empty", ERROR_EMPTY_PROMPT},
                    {"long", ERROR_CONTEXT_LENGTH}, {"large", ERROR_OUT_OF_MEMORY},
                    {"fits", ERROR_NONE},           {"range", ERROR_TOKEN_RANGE},
                    {"nan", ERROR_LOGITS_NAN},      {"zero", ERROR_NONE},
                    {"messages", ERROR_TEMPLATE},   {"nan choices", ERROR_LOGITS_NAN}};
    assert_int_equal(bench.finished.n_jobs, 10);
    for (size_t e = 0; e < 10; e++) {
        const struct job *job = bench.finished.first;
        while (!text_equals_string(job->job_id, expected[e].id))
            job = job->next;
        if (expected[e].code == ERROR_NONE) {
            check_answer(job);
        } else {
            assert_int_equal(job->result.status, RESULT_FAILED);
            assert_int_equal(job->result.error.code, expected[e].code);
        }
    }
    bench_close(&bench);
}

TEST(cancelled_jobs_finish_in_the_next_round_and_the_others_go_on)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 20 + i;
    const char *ids[] = {"running", "kept", "waiting"};
    for (int i = 0; i < 3; i++) {
        struct job *job = job_of(tokens, 40, 30, ids[i]);
        job->request.stop.ignore_eos = true;
        batcher_take(bench.batcher, job);
    }
    struct step_figures figures;
    struct error error;
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    batcher_take(bench.batcher, job_of(tokens, 30, 30, "arrived"));
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("running"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("waiting"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("arrived"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("another"), (struct text){0}, INT64_MAX);
    int64_t n_steps = fake_model_steps(bench.model);
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    assert_int_equal(bench.finished.n_jobs, 3);
    assert_int_equal(fake_model_steps(bench.model), n_steps + 1);
    assert_int_equal(figures.n_sequences, 1); // the one that goes on; ahead, the step that had begun before
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        assert_int_equal(job->result.status, RESULT_CANCELLED);
        assert_int_equal(job->result.error.code, ERROR_CANCELLED);
    }
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, 4);
    check_answer(bench.finished.last);
    bench_close(&bench);
}

// Jobs that were submitted again under a cancelled dataset's name may be here before the cancellation is.
TEST(a_cancellation_spares_what_was_submitted_after_it)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    int32_t tokens[8] = {20, 21, 22, 23, 24, 25, 26, 27};
    const struct {
        const char *id;
        int64_t created, written;
        bool spared;
    } cases[] = {{"created", 1000, 2000, false},
                 {"created-later", 1001, 500, true},
                 {"unknown", 0, 0, false},
                 {"written", 0, 1000, false},
                 {"written-later", 0, 1001, true}};
    struct step_figures figures;
    struct error error;
    for (int when = 0; when < 2; when++) { // before the first round, and after it
        for (int i = 0; i < 5; i++) {
            struct job *job = job_of(tokens, 8, 30, cases[i].id);
            job->request.stop.ignore_eos = true;
            job->created_s = cases[i].created;
            job->source.written_s = cases[i].written;
            batcher_take(bench.batcher, job);
        }
        if (when == 1)
            assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
        batcher_cancel(bench.batcher, TEXT("test"), (struct text){0}, 1000);
        run_to_end(&bench);
        assert_int_equal(bench.finished.n_jobs, 5);
        for (struct job *job; (job = job_list_take(&bench.finished)); job_destroy(job))
            for (int i = 0; i < 5; i++)
                if (text_equals_string(job->job_id, cases[i].id))
                    assert_int_equal(job->result.status, cases[i].spared ? RESULT_DONE : RESULT_CANCELLED);
    }
    bench_close(&bench);
}

TEST(a_batcher_is_full_with_the_last_job_that_it_may_hold)
{
    enum { N_JOBS = 5 };
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = N_JOBS, .n_pages = 60, .page_positions = 16});
    for (int i = 0; i < N_JOBS; i++) {
        assert_false(batcher_is_full(bench.batcher));
        batcher_take(bench.batcher, job_of((int32_t[]){20, 21}, 2, 3, "one of several"));
    }
    assert_true(batcher_is_full(bench.batcher));
    run_to_end(&bench);
    assert_false(batcher_is_full(bench.batcher));
    bench_close(&bench);
}

TEST(a_job_that_comes_back_unfinished_holds_no_result)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 1, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 20 + i;
    const char *ids[] = {"running", "waiting", "arrived"};
    struct step_figures figures;
    struct error error;
    for (int i = 0; i < 3; i++) {
        struct job *job = job_of(tokens, 40, 30, ids[i]);
        job->request.stop.ignore_eos = true;
        job->figures.attempts = i + 2;
        batcher_take(bench.batcher, job);
        for (int round = 0; i == 1 && round < 3; round++)
            assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    }
    struct job_list waiting = {0}, running = {0};
    batcher_release(bench.batcher, false, &waiting);
    batcher_release(bench.batcher, true, &running);
    assert_true(batcher_is_empty(bench.batcher));
    assert_int_equal(waiting.n_jobs, 2);
    assert_int_equal(running.n_jobs, 1);
    job_list_append(&waiting, job_list_take(&running));
    for (struct job *job; (job = job_list_take(&waiting)); job_destroy(job)) {
        const struct job_figures *own = &job->figures;
        assert_int_equal(job->result.n_choices, 0);
        assert_int_equal(job->result.prompt_tokens, 0);
        assert_int_equal(job->result.completion_tokens, 0);
        assert_int_equal(own->attempts, text_equals_string(job->job_id, "running")   ? 2
                                        : text_equals_string(job->job_id, "waiting") ? 3
                                                                                     : 4);
        assert_int_equal(own->queued_us + own->prefill_us + own->decode_us, 0);
    }
    bench_close(&bench);
}

// A result that nobody could read back (schemas/result.h) fails its job, and no other.
TEST(a_result_of_more_values_than_can_be_read_fails_its_job)
{
    for (int over = 0; over < 2; over++) {
        struct bench bench = bench_open((struct batch_limits){.n_sequences_max = JOB_N_MAX,
                                                              .n_tokens_max = 256,
                                                              .n_jobs_max = 20,
                                                              .n_pages = 2000,
                                                              .page_positions = 16});
        // 65 values a token: 64 answers of 252 tokens have 1,048,320 and a few hundred more, of 2^20.
        struct job *job = job_of((int32_t[]){3, 4, 5}, 3, over ? 252 : 250, "many");
        job->request.n = JOB_N_MAX;
        job->request.stop.ignore_eos = true;
        job->request.sampling.logprobs = true;
        job->request.sampling.top_logprobs = JOB_TOP_LOGPROBS_MAX;
        batcher_take(bench.batcher, job);
        batcher_take(bench.batcher, job_of((int32_t[]){3, 4, 6}, 3, 10, "other"));
        run_to_end(&bench);
        assert_int_equal(bench.finished.n_jobs, 2);
        for (; (job = job_list_take(&bench.finished)); job_destroy(job))
            if (!over || text_equals_string(job->job_id, "other")) {
                check_answer(job);
            } else {
                assert_int_equal(job->result.status, RESULT_FAILED);
                assert_int_equal(job->result.error.code, ERROR_RESULT_TOO_LARGE);
                assert_int_equal(job->result.n_choices, 0);
            }
        bench_close(&bench);
    }
}

static int64_t now_s; // of the batcher's clock

static int64_t now_us(void)
{
    return now_s * 1000000;
}

TEST(a_job_past_its_deadline_stops_within_one_step_and_the_others_go_on)
{
    now_s = 1000;
    struct bench bench = bench_open_at(
        (struct batch_limits){
            .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16},
        now_us);
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 20 + i;
    static const struct {
        const char *id;
        int64_t deadline_s;
        int n_tokens;
    } jobs[] = {{"running", 1001, 40},
                {"kept", 5000, 40},
                {"waiting", 1002, 40},
                {"late", 1000, 40},
                {"empty", 999, 0}};
    for (size_t i = 0; i < 5; i++) {
        struct job *job = job_of(tokens, jobs[i].n_tokens, 30, jobs[i].id);
        job->request.stop.ignore_eos = true;
        job->deadline_s = jobs[i].deadline_s;
        batcher_take(bench.batcher, job);
    }
    struct step_figures figures;
    struct error error;
    // Expired when they arrived: not even their prompts are read.
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    assert_int_equal(bench.finished.n_jobs, 2);
    assert_true(text_equals_string(bench.finished.first->job_id, "late"));
    assert_true(text_equals_string(bench.finished.last->job_id, "empty"));
    now_s = 1001;
    int64_t n_steps = fake_model_steps(bench.model);
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    assert_int_equal(bench.finished.n_jobs, 3);
    assert_int_equal(fake_model_steps(bench.model), n_steps + 1);
    now_s = 1002;
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    assert_int_equal(bench.finished.n_jobs, 4);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        assert_int_equal(job->result.status, RESULT_FAILED);
        assert_int_equal(job->result.error.code, ERROR_DEADLINE);
    }
    now_s = 4999;
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, 5);
    check_answer(bench.finished.last);
    bench_close(&bench);
}

// Two sequences of three run, of 20 and 30 tokens; their prompts and the first token of each take four pages.
TEST(a_step_s_figures_are_its_sequences_tokens_and_pages)
{
    now_s = 1000;
    struct bench bench = bench_open_at(
        (struct batch_limits){
            .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16},
        now_us);
    int32_t tokens[30];
    for (int32_t i = 0; i < 30; i++)
        tokens[i] = 20 + i;
    for (int32_t i = 0; i < 3; i++) {
        tokens[0] = 100 + i; // nothing is shared
        struct job *job = job_of(tokens, i == 1 ? 30 : 20, 5, "a");
        job->request.stop.ignore_eos = true;
        batcher_take(bench.batcher, job);
    }
    struct step_figures figures;
    struct error error;
    if (ahead) // the first step is submitted, its results are of the next round
        assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    for (int step = 0; step < 2; step++) { // the prompts, then a token of each answer
        now_s = 1000 + 7 * step;
        int64_t start_us = clock_us();
        assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
        assert_true(figures.finished_us == now_s * 1000000);
        assert_int_equal(figures.n_sequences, 2);
        assert_int_equal(figures.n_tokens, step ? 2 : 50);
        assert_int_equal(figures.prefill_tokens, step ? 0 : 50);
        assert_int_equal(figures.decode_tokens, step ? 2 : 0);
        assert_int_equal(figures.n_generated, 2);
        assert_int_equal(figures.n_preempted, 0);
        assert_int_equal(figures.n_waiting, 1);
        assert_int_equal(figures.pages_used, 4);
        assert_int_equal(figures.pages_total, 60);
        int64_t most_us = clock_us() - start_us;
        assert_in_range(figures.prepare_us, 0, most_us);
        assert_in_range(figures.plan_us, 0, most_us);
        assert_in_range(figures.compute_us, 0, most_us);
        assert_in_range(figures.finish_us, 0, most_us);
    }
    run_to_end(&bench);
    bench_close(&bench);
}

TEST(a_lost_device_harms_no_job)
{
    struct batch_limits limits = {
        .n_sequences_max = 8, .n_tokens_max = 64, .n_jobs_max = 50, .n_pages = 60, .page_positions = 16};
    struct bench bench = bench_open(limits);
    random_state = random_seed(77);
    random_jobs(&bench, 50, 60);
    fake_model_fail_at(bench.model, 6);
    struct error error = {0};
    struct step_figures figures;
    enum status status;
    while ((status = batcher_round(bench.batcher, &bench.finished, &figures, &error)) == STATUS_OK)
        ;
    assert_int_equal(status, STATUS_RESTART);
    struct job_list released = {0};
    batcher_release(bench.batcher, true, &released);
    assert_true(batcher_is_empty(bench.batcher));
    assert_int_equal(released.n_jobs + bench.finished.n_jobs, 50);
    struct bench second = bench_open(limits);
    for (struct job *job; (job = job_list_take(&released));)
        batcher_take(second.batcher, job);
    run_to_end(&second);
    for (const struct job *job = second.finished.first; job; job = job->next)
        check_answer(job);
    bench_close(&second);
    bench_close(&bench);
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}

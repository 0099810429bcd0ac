// The batcher with a model whose answers reveal any wrong page, table or position (tests/support/fake_model.h): step
// by step, and with asynchronous scheduling.
#include "batching/constraint_threads.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/batcher_bench.h"
#include "tests/unit/batching/random_jobs.h"

TEST(answers_are_those_of_each_job_alone_whatever_the_batch_and_the_memory)
{
    const struct batch_limits cases[] = {
        {.n_sequences_max = 1, .n_tokens_max = 1, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
        {.n_sequences_max = 8, .n_tokens_max = 8, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
        {.n_sequences_max = 32, .n_tokens_max = 100, .n_jobs_max = 200, .n_pages = 400, .page_positions = 4},
        {.n_sequences_max = 64,
         .n_tokens_max = 512,
         .n_jobs_max = 200,
         .n_pages = 1000,
         .page_positions = 16},
        // So few pages that sequences are put back again and again.
        {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 41, .page_positions = 4},
        {.n_sequences_max = 16, .n_tokens_max = 30, .n_jobs_max = 200, .n_pages = 90, .page_positions = 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            random_state = seed;
            struct bench bench = bench_open(cases[c]);
            random_jobs(&bench, 200, 120);
            run_to_end(&bench);
            assert_int_equal(bench.finished.n_jobs, 200);
            for (const struct job *job = bench.finished.first; job; job = job->next)
                check_answer(job);
            bench_close(&bench);
        }
}

// Most answers are short, so the batcher takes in more than it can hold when a long one follows.
TEST(sequences_that_give_their_pages_back_answer_as_if_they_had_not)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        random_state = seed;
        // few rows: a prompt takes many steps, and gives its pages back in the middle
        int32_t n = 4 + 4 * (int32_t)(seed % 3);
        struct bench bench =
            bench_open((struct batch_limits){.n_sequences_max = n,
                                             .n_tokens_max = n + (int32_t)random_below(&random_state, 6),
                                             .n_jobs_max = 300,
                                             .n_pages = 64,
                                             .n_state_slots = seed % 2 ? n : 0,
                                             .page_positions = 4});
        int32_t tokens[100];
        for (int j = 0; j < 300; j++) {
            int32_t n_prompt = j % 7 == 0 ? 60 + (int32_t)random_below(&random_state, 40)
                                          : 1 + (int32_t)random_below(&random_state, 12);
            for (int32_t i = 0; i < n_prompt; i++)
                tokens[i] = i < 24 && j % 2 ? 20 + i : 10 + (int32_t)random_below(&random_state, 200);
            char id[32];
            snprintf(id, sizeof id, "job-%d", j);
            struct job *job = job_of(tokens, n_prompt, j % 5 == 0 ? 150 : 1 + j % 4, id);
            job->request.stop.ignore_eos = true;
            batcher_take(bench.batcher, job);
        }
        run_to_end(&bench);
        assert_int_equal(bench.finished.n_jobs, 300);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            check_answer(job);
        assert_true(bench.preempted > 10);
        bench_close(&bench);
    }
}

// Three long answers grow until the last prompt, one row a step, has to give its pages back in its
// middle.
TEST(a_prompt_that_gives_its_pages_back_in_its_middle_answers_as_if_it_had_not)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 4, .n_tokens_max = 4, .n_jobs_max = 300, .n_pages = 64, .page_positions = 4});
    int32_t tokens[100];
    for (int32_t i = 0; i < 100; i++)
        tokens[i] = 30 + i;
    for (int j = 0; j < 200; j++) // answers of one token: that is what the batcher learns to expect
        batcher_take(bench.batcher, job_of((int32_t[]){150 + j % 50, 160 + j / 50}, 2, 1, "short"));
    run_to_end(&bench);
    int64_t prefill_before = bench.prefill;
    for (int j = 0; j < 3; j++) {
        struct job *job = job_of((int32_t[]){11 + j, 12, 13, 14}, 4, 150, "long answer");
        job->request.stop.ignore_eos = true;
        batcher_take(bench.batcher, job);
    }
    batcher_take(bench.batcher, job_of(tokens, 100, 5, "long prompt"));
    batcher_take(bench.batcher, job_of(tokens, 90, 5, "shares it"));
    run_to_end(&bench);
    assert_true(bench.preempted > 0);
    assert_true(bench.prefill - prefill_before > 3 * 4 + 100); // part of the prompt was computed twice
    for (const struct job *job = bench.finished.first; job; job = job->next)
        if (!text_equals_string(job->job_id, "short"))
            check_answer(job);
    bench_close(&bench);
}

// The fake model's states follow each sequence's tokens: a slot that another sequence has, or a state that is
// behind the pages, ends the test. A slot that is not given back stops the batcher.
TEST(recurrent_states_are_each_sequence_s_own_and_their_slots_are_given_back)
{
    const struct batch_limits cases[] = {
        {.n_sequences_max = 1, .n_tokens_max = 7, .n_state_slots = 1, .n_pages = 64},
        {.n_sequences_max = 16, .n_tokens_max = 40, .n_state_slots = 16, .n_pages = 400},
        {.n_sequences_max = 16,
         .n_tokens_max = 40,
         .n_state_slots = 3,
         .n_pages = 400}, // fewer than sequences
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct batch_limits limits = cases[c];
            limits.n_jobs_max = 200;
            limits.page_positions = 4;
            random_state = seed;
            struct bench bench = bench_open(limits);
            random_jobs(&bench, 200, 120);
            run_to_end(&bench);
            assert_int_equal(bench.finished.n_jobs, 200);
            for (const struct job *job = bench.finished.first; job; job = job->next)
                check_answer(job);
            assert_true(fake_model_largest_batch(bench.model) <= limits.n_state_slots);
            bench_close(&bench);
        }
}

TEST(cancelled_jobs_give_the_slots_of_their_states_back)
{
    struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 2,
                                                          .n_tokens_max = 4,
                                                          .n_state_slots = 2,
                                                          .n_jobs_max = 8,
                                                          .n_pages = 64,
                                                          .page_positions = 4});
    struct step_figures figures;
    struct error error;
    for (int i = 0; i < 32; i++) { // some right after they have kept a snapshot for the other
        int32_t tokens[20];
        for (int32_t j = 0; j < 20; j++)
            tokens[j] = 20 + i + j;
        batcher_take(bench.batcher, job_of(tokens, 20, 5, "cancelled"));
        batcher_take(bench.batcher, job_of(tokens, 20, 5, "other"));
        for (int j = 0; j <= i % 8; j++)
            assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
        batcher_cancel(bench.batcher, TEXT("test"), TEXT("cancelled"), INT64_MAX);
        run_to_end(&bench);
        check_answer(bench.finished.last);
    }
    bench_close(&bench);
}

TEST(a_shared_prefix_is_computed_once_and_no_prompt_token_twice)
{
    struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 64,
                                                          .n_tokens_max = 256,
                                                          .n_jobs_max = 300,
                                                          .n_pages = 1000,
                                                          .page_positions = 16});
    int32_t tokens[200];
    for (int32_t i = 0; i < 200; i++)
        tokens[i] = 20 + i;
    int64_t generated = 0;
    for (int j = 0; j < 200; j++) { // 160 shared tokens, 10 of its own
        for (int32_t i = 160; i < 170; i++)
            tokens[i] = 10 + (j * 31 + i * 7) % 200;
        tokens[160] = 10 + j;
        char id[32];
        snprintf(id, sizeof id, "job-%d", j);
        batcher_take(bench.batcher, job_of(tokens, 170, 8, id));
    }
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        check_answer(job);
        generated += job->result.completion_tokens;
    }
    assert_int_equal(bench.prefill, 160 + 200 * 10);
    // The last token of an answer is never computed; one that stops at the end token has computed all it
    // shows. Ahead, the end token has a row too: nobody knew yet that it was one.
    assert_true(bench.decode <= generated + (ahead ? 200 : 0));
    struct prefix_report report;
    batcher_report_prefixes(bench.batcher, &report);
    assert_int_equal(report.n_lookups, 200);
    assert_int_equal(report.n_hits, 199);
    assert_int_equal(report.tokens_saved, 199 * 160);
    assert_int_equal(report.n_entries, 1);
    assert_int_equal(report.entries[0].n_tokens, 160);
    assert_true(fake_model_largest_batch(bench.model) > 20);
    bench_close(&bench);
}

TEST(equal_prompts_share_all_but_the_last_token)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 4, .n_tokens_max = 64, .n_jobs_max = 10, .n_pages = 100, .page_positions = 16});
    int32_t tokens[32];
    for (int32_t i = 0; i < 32; i++)
        tokens[i] = 50 + i;
    batcher_take(bench.batcher, job_of(tokens, 32, 4, "a"));
    batcher_take(bench.batcher, job_of(tokens, 32, 4, "b"));
    run_to_end(&bench);
    assert_int_equal(bench.prefill, 32 + 1);
    check_answer(bench.finished.first);
    check_answer(bench.finished.first->next);
    bench_close(&bench);
}

TEST(urgent_jobs_run_first_and_answer_the_same)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 1, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    static const int32_t priorities[] = {0, -1, 7, 0, 7, 3};
    static const int order[] = {2, 4, 5, 0, 3, 1};
    int32_t tokens[40];
    for (int i = 0; i < 6; i++) {
        for (int32_t t = 0; t < 40; t++)
            tokens[t] = 20 + t + i;
        char id[2] = {(char)('0' + i), 0};
        struct job *job = job_of(tokens, 40, 5, id);
        job->priority = priorities[i];
        batcher_take(bench.batcher, job);
    }
    run_to_end(&bench);
    int n = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        assert_int_equal(job->job_id.data[0] - '0', order[n++]);
        check_answer(job);
    }
    assert_int_equal(n, 6);
    bench_close(&bench);
}

TEST(an_old_job_is_not_passed_over_for_ever)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 1, .n_tokens_max = 64, .n_jobs_max = 64, .n_pages = 40, .page_positions = 16});
    int32_t shared[40], lonely[40];
    for (int32_t i = 0; i < 40; i++) {
        shared[i] = 20 + i;
        lonely[i] = 100 + i;
    }
    struct step_figures figures;
    struct error error;
    batcher_take(bench.batcher, job_of(shared, 40, 1, "first"));
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    batcher_take(bench.batcher, job_of(lonely, 40, 1, "lonely"));
    bool found = false;
    int n = 0;
    for (; !found && n < 10000; n++) { // there is always one more that shares the cached prefix
        while (!batcher_is_full(bench.batcher))
            batcher_take(bench.batcher, job_of(shared, 40, 1, "more"));
        assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
        for (struct job *job; (job = job_list_take(&bench.finished)); job_destroy(job))
            found = found || text_equals_string(job->job_id, "lonely");
    }
    assert_true(found);
    assert_in_range(n, 1000, 4000); // sharing had priority, but not for ever
    run_to_end(&bench);
    bench_close(&bench);
}

TEST(stop_strings_end_an_answer_across_tokens_and_are_not_part_of_it)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 4, .n_pages = 60, .page_positions = 16});
    int32_t prompt[3] = {30, 40, 50}, answer[40];
    char text[41];
    int32_t n = fake_model_answer(prompt, 3, 5, 0, 40, true, answer);
    fake_model_text(answer, n, text);
    struct job *job = job_of(prompt, 3, 40, "stop");
    job->request.stop.ignore_eos = true;
    job->request.stop.strings = arena_allocate_array(&job->arena, 2, sizeof *job->request.stop.strings);
    assert_true(job_set_text(job, &job->request.stop.strings[0], TEXT("no such text")));
    assert_true(job_set_text(job, &job->request.stop.strings[1], (struct text){text + 10, 3}));
    job->request.stop.n_strings = 2;
    size_t at = (size_t)(strstr(text, (char[]){text[10], text[11], text[12], 0}) - text);
    batcher_take(bench.batcher, job);
    run_to_end(&bench);
    const struct choice *choice = &bench.finished.first->result.choices[0];
    assert_int_equal(choice->finish_reason, FINISH_STOP);
    assert_int_equal(choice->text.size, at);
    assert_memory_equal(choice->text.data, text, at);
    assert_int_equal(choice->n_tokens, at + 3);
    bench_close(&bench);
}

// Answers that end by a token are one row longer than needed, those that end by their length are not.
TEST(a_row_after_the_last_token_shows_nowhere)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 1, .n_tokens_max = 8, .n_jobs_max = 4, .n_pages = 30, .page_positions = 4});
    int32_t answer[40], n_stop = 40, tokens[] = {0, 30, 31};
    while (n_stop == 40 || n_stop < 3) {
        tokens[0]++;
        n_stop = fake_model_answer(tokens, 3, 5, 0, 40, false, answer);
    }
    struct step_figures figures;
    struct error error;
    for (int32_t round = 0; round < 2; round++) {
        int64_t steps_before = fake_model_steps(bench.model);
        int32_t max_tokens = round ? n_stop : 40, n_generated = 0;
        batcher_take(bench.batcher, job_of(tokens, 3, max_tokens, "job"));
        while (!batcher_is_empty(bench.batcher)) {
            assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
            n_generated += figures.n_generated;
        }
        check_answer(bench.finished.last);
        assert_int_equal(n_generated, round ? n_stop : n_stop + 1); // with the end token
        // The first job's last row is still under way when it is finished, and waited for in the second's
        // first round.
        assert_int_equal(fake_model_steps(bench.model) - steps_before,
                         round ? n_stop + (ahead ? 1 : 0) : n_stop + 1);
    }
    bench_close(&bench);
}

TEST(rows_have_tokens_that_nobody_knew)
{
    assert_true(ahead ? n_rows_ahead > 10000 : n_rows_ahead == 0);
}

// Equal bytes or a refusal: an answer without max_tokens is bounded by the context, whatever the pages hold.
TEST(page_memory_never_shortens_an_answer)
{
    enum { CONTEXT = 4096, JOBS = 48, PAGE = 4 };
    static const int32_t pages[] = {2, 3, 5, 8, 40, CONTEXT / PAGE};
    for (size_t m = 0; m < sizeof pages / sizeof *pages; m++) {
        struct bench bench = bench_open((struct batch_limits){8, 32, JOBS, pages[m], PAGE});
        for (int32_t j = 0; j < JOBS; j++) {
            int32_t tokens[] = {20 + j, 30, 31, 32, 33, 34};
            char id[16];
            snprintf(id, sizeof id, "j%d", j);
            struct job *job = job_of(tokens, 2 + j % 5, -1, id);
            job->request.stop.ignore_eos = j == 7;
            batcher_take(bench.batcher, job);
        }
        run_to_end(&bench);
        int n_refused = 0;
        int32_t *answer = malloc(CONTEXT * sizeof *answer);
        for (struct job *job = bench.finished.first; job; job = job->next) {
            const struct request *request = &job->request;
            int32_t most = CONTEXT - request->prompt.n_tokens;
            int32_t n = fake_model_answer(request->prompt.tokens, request->prompt.n_tokens, 5, 0, most,
                                          request->stop.ignore_eos, answer);
            job->request.stop.max_tokens = most;
            if (request->prompt.n_tokens + n <= pages[m] * PAGE) {
                check_answer(job);
                continue;
            }
            n_refused++;
            assert_int_equal(job->result.status, RESULT_FAILED);
            assert_int_equal(job->result.error.code, ERROR_OUT_OF_MEMORY);
            assert_non_null(strstr(job->result.error.text, "--kv-memory"));
        }
        free(answer);
        assert_int_equal(bench.finished.n_jobs, JOBS);
        assert_true(pages[m] == CONTEXT / PAGE ? n_refused == 0 : n_refused > 0);
        bench_close(&bench);
    }
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}

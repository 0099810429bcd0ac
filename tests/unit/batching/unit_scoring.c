// Scores of given tokens against a model whose logprobs betray any wrong page, table or position
// (tests/support/fake_model.h): the same sums in every batch, with little memory, and with an engine that computes
// while the next step is planned.
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/batcher_bench.h"

#include <math.h>

static uint64_t random_state;

static const struct batch_limits batches[] = {
    {.n_sequences_max = 1, .n_tokens_max = 1, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
    {.n_sequences_max = 8, .n_tokens_max = 8, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
    {.n_sequences_max = 32, .n_tokens_max = 100, .n_jobs_max = 200, .n_pages = 400, .page_positions = 4},
    {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 1000, .page_positions = 16},
    // So few pages that sequences are put back again and again.
    {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 41, .page_positions = 4},
    {.n_sequences_max = 16, .n_tokens_max = 30, .n_jobs_max = 200, .n_pages = 90, .page_positions = 2},
};

enum { N_BATCHES = sizeof batches / sizeof *batches, LENGTH_MAX = 100 };

static struct text choices[] = {{"abc", 3}, {"abd", 3}, {"zz", 2}, {"a", 1}, {"abcabcabcabc", 12}};

enum { N_CHOICES = sizeof choices / sizeof *choices };

// A prompt of random length that begins as others do.
static struct job *random_job(int number, int32_t max_tokens)
{
    int32_t tokens[LENGTH_MAX], n = 1 + (int32_t)random_below(&random_state, LENGTH_MAX);
    int32_t shared = (int32_t)random_below(&random_state, (uint32_t)n + 1);
    for (int32_t i = 0; i < n; i++)
        tokens[i] = i < shared ? 20 + i : 10 + (int32_t)random_below(&random_state, 200);
    char id[32];
    snprintf(id, sizeof id, "%d", number);
    struct job *job = job_of(tokens, n, max_tokens, id);
    job->request.n = random_below(&random_state, 5) == 0 ? 3 : 1;
    return job;
}

static void ask_for_choices(struct job *job, int32_t n_choices)
{
    job->request.constraint = (struct constraint){
        .kind = CONSTRAINT_CHOICE, .choices = choices, .n_choices = n_choices, .field = "choice"};
    job->request.scores.wanted = true;
    job->request.scores.include_end = random_below(&random_state, 2);
}

static void check_scores(const struct job *job)
{
    const struct request *request = &job->request;
    const struct result *result = &job->result;
    assert_int_equal(result->status, RESULT_DONE);
    assert_int_equal(result->n_choice_logprobs, request->scores.wanted ? request->constraint.n_choices : 0);
    double sum = 0.0;
    for (int32_t i = 0; i < result->n_choice_logprobs; i++) {
        struct text choice = request->constraint.choices[i];
        struct token_array targets = {0};
        struct error error;
        assert_ok(tokenizer_encode(NULL, choice, 0, &targets, &error), &error);
        if (request->scores.include_end)
            token_array_add(&targets, FAKE_EOS);
        double expected = fake_model_score(request->prompt.tokens, request->prompt.n_tokens, targets.ids,
                                           (int32_t)targets.n_ids);
        assert_true(result->choice_logprobs[i].logprob == expected);
        assert_true(text_equal(result->choice_logprobs[i].choice, choice));
        sum += (double)result->choice_logprobs[i].probability;
        token_array_finish(&targets);
    }
    assert_true(result->n_choice_logprobs == 0 || (sum > 0.999999 && sum < 1.000001));
}

// So that no job waits for its constraint later, and the order in which they run is one.
static void compile_choices(struct bench *bench)
{
    for (int n = 1; n <= N_CHOICES; n++) {
        struct job *job = random_job(n, 1);
        ask_for_choices(job, n);
        batcher_take(bench->batcher, job);
    }
    run_to_end(bench);
    for (struct job *job; (job = job_list_take(&bench->finished));)
        job_destroy(job);
    bench->preempted = 0;
}

TEST(choices_are_scored_the_same_whatever_the_batch_and_the_memory)
{
    int64_t n_preempted = 0;
    for (int c = 0; c < N_BATCHES; c++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            random_state = seed;
            struct bench bench = bench_open(batches[c]);
            compile_choices(&bench);
            for (int number = 0; number < 120; number++) {
                // after many short answers a long one outgrows the pages
                int32_t max_tokens = (int32_t)random_below(&random_state, 5);
                struct job *job = random_job(number, number % 9 ? max_tokens : 60);
                job->request.stop.ignore_eos = number % 9 == 0;
                if (number % 9)
                    ask_for_choices(job, 1 + number % N_CHOICES);
                batcher_take(bench.batcher, job);
            }
            run_to_end(&bench);
            assert_int_equal(bench.finished.n_jobs, 120);
            for (const struct job *job = bench.finished.first; job; job = job->next)
                job->request.scores.wanted ? check_scores(job) : check_answer(job);
            n_preempted += bench.preempted;
            bench_close(&bench);
        }
    assert_true(n_preempted > 20);
}

// Branches read the prompt's whole pages: its own last tokens, and the choice's but the last, are theirs.
TEST(a_prompt_is_computed_once_for_all_its_choices)
{
    struct bench bench = bench_open(batches[3]);
    int32_t tokens[16 * 5 + 3];
    for (int32_t i = 0; i < 16 * 5 + 3; i++)
        tokens[i] = 20 + i;
    struct job *job = job_of(tokens, 16 * 5 + 3, 0, "job");
    ask_for_choices(job, N_CHOICES);
    job->request.scores.include_end = false;
    batcher_take(bench.batcher, job);
    run_to_end(&bench);
    int64_t n_rows = 16 * 5 + 2; // all but the last token
    for (int i = 0; i < N_CHOICES; i++)
        n_rows += (int64_t)choices[i].size;
    assert_int_equal(fake_model_rows(bench.model), n_rows);
    check_scores(bench.finished.first);
    assert_int_equal(bench.finished.first->result.choices[0].text.size, 0);
    bench_close(&bench);
}

// The answer's sequence is the first; without an answer the first branch is.
TEST(the_cached_prompt_of_scores_is_counted_once_with_or_without_an_answer)
{
    enum { PROMPT = 16 * 5 + 3 };
    int32_t tokens[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++)
        tokens[i] = 20 + i;
    for (int32_t max_tokens = 0; max_tokens <= 2; max_tokens++)
        for (int scores_prompt = 0; scores_prompt <= 1; scores_prompt++) {
            // one slot: the answer's sequence ends before a branch is admitted
            for (int slots = 1; slots <= 8; slots += 7) {
                struct batch_limits limits = batches[3];
                limits.n_sequences_max = slots;
                struct bench bench = bench_open(limits);
                for (int j = 0; j < 2; j++) {
                    struct job *job = job_of(tokens, PROMPT, max_tokens, j ? "second" : "first");
                    job->request.prompt_logprobs = scores_prompt ? 0 : -1;
                    ask_for_choices(job, N_CHOICES);
                    batcher_take(bench.batcher, job);
                    run_to_end(&bench);
                }
                assert_int_equal(bench.finished.first->figures.cached_tokens, 0);
                // each row of a prompt that is scored itself is computed
                assert_int_equal(bench.finished.last->figures.cached_tokens, scores_prompt ? 0 : PROMPT - 1);
                bench_close(&bench);
            }
        }
}

TEST(choices_that_fit_no_context_fail_their_job_alone)
{
    struct bench bench = bench_open(batches[3]);
    static int32_t tokens[4096];
    for (int32_t i = 0; i < 4096; i++)
        tokens[i] = 10 + i % 190;
    for (int32_t n = 4094; n <= 4096; n++) {
        struct job *job = job_of(tokens, n, 0, "job");
        ask_for_choices(job, 3);
        job->request.scores.include_end = false;
        batcher_take(bench.batcher, job);
    }
    batcher_take(bench.batcher, job_of((int32_t[]){FAKE_POISON, 9}, 2, 3, "poison"));
    struct job *poisoned = job_of((int32_t[]){FAKE_POISON, 9}, 2, 0, "poison");
    ask_for_choices(poisoned, 2);
    batcher_take(bench.batcher, poisoned);
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        if (text_equals_string(job->job_id, "poison")) {
            assert_int_equal(job->result.error.code, ERROR_LOGITS_NAN);
        } else if (job->request.prompt.n_tokens == 4094) {
            check_scores(job);
        } else {
            assert_string_equal(
                job->result.error.text,
                job->request.prompt.n_tokens == 4095
                    ? "the model's context holds 4096 tokens: the prompt and its longest choice have 4097"
                    : "the model's context holds 4096 tokens: the prompt and its longest choice have 4098");
            assert_int_equal(job->result.error.code, ERROR_CONTEXT_LENGTH);
        }
    }
    bench_close(&bench);
}

// ---- the prompt's own tokens ----

static void check_prompt(const struct job *job)
{
    const struct request *request = &job->request;
    const struct result *result = &job->result;
    assert_int_equal(result->n_prompt_logprobs, request->prompt.n_tokens);
    assert_true(isnan(result->prompt_logprobs[0].chosen.logprob));
    for (int32_t i = 0; i < request->prompt.n_tokens; i++) {
        const struct logprob_entry *entry = &result->prompt_logprobs[i];
        assert_int_equal(entry->chosen.token, request->prompt.tokens[i]);
        if (i > 0)
            assert_true((double)entry->chosen.logprob ==
                        fake_model_score(request->prompt.tokens, i, request->prompt.tokens + i, 1));
    }
}

TEST(prompts_are_scored_the_same_whatever_the_batch_and_the_memory)
{
    int64_t n_preempted = 0;
    for (int c = 0; c < N_BATCHES; c++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            random_state = seed;
            struct bench bench = bench_open(batches[c]);
            for (int number = 0; number < 120; number++) {
                int32_t max_tokens = (int32_t)random_below(&random_state, 5);
                struct job *job = random_job(number, number % 9 ? max_tokens : 60);
                job->request.stop.ignore_eos = number % 9 == 0;
                if (number % 2)
                    job->request.prompt_logprobs = 0;
                batcher_take(bench.batcher, job);
            }
            run_to_end(&bench);
            assert_int_equal(bench.finished.n_jobs, 120);
            for (const struct job *job = bench.finished.first; job; job = job->next) {
                check_answer(job);
                if (job->request.prompt_logprobs == 0)
                    check_prompt(job);
            }
            n_preempted += bench.preempted;
            bench_close(&bench);
        }
    assert_true(n_preempted > 20);
}

// Both orders: the scored prompt is first and is shared, or finds its pages in the cache.
TEST(a_scored_prompt_shares_its_pages_and_computes_its_rows)
{
    int32_t tokens[16 * 3 + 1];
    for (int32_t i = 0; i < 16 * 3 + 1; i++)
        tokens[i] = 20 + i;
    for (int order = 0; order < 2; order++) {
        struct bench bench = bench_open(batches[3]);
        for (int i = 0; i < 2; i++) {
            struct job *job = job_of(tokens, 16 * 3 + 1, 0, "job");
            job->request.prompt_logprobs = i == order ? 0 : -1;
            job->request.stop.max_tokens = i == order ? 0 : 1;
            batcher_take(bench.batcher, job);
            run_to_end(&bench);
        }
        // the last token's row is the drawing job's
        assert_int_equal(fake_model_rows(bench.model), order == 0 ? 16 * 3 + 1 : 2 * 16 * 3 + 1);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            job->request.prompt_logprobs < 0 ? check_answer(job) : check_prompt(job);
        bench_close(&bench);
    }
}

TEST(an_echo_stands_before_the_answer_with_its_tokens)
{
    struct bench bench = bench_open(batches[3]);
    const int32_t tokens[] = {30, 31, 32, 33, 34};
    for (int with_logprobs = 0; with_logprobs < 2; with_logprobs++)
        for (int32_t max_tokens = 0; max_tokens < 3; max_tokens += 2) {
            struct job *job = job_of(tokens, 5, max_tokens, "job");
            job->request.echo = true;
            job->request.stop.ignore_eos = true;
            job->request.sampling.logprobs = with_logprobs;
            batcher_take(bench.batcher, job);
        }
    struct job *short_one = job_of(tokens, 1, 0, "no row to compute");
    short_one->request.prompt_logprobs = 3;
    batcher_take(bench.batcher, short_one);
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        const struct choice *choice = &job->result.choices[0];
        int32_t all[8] = {30, 31, 32, 33, 34}, n = job->request.stop.max_tokens;
        char text[9];
        if (!job->request.echo) {
            check_prompt(job);
            continue;
        }
        fake_model_answer(tokens, 5, 5, 0, n, true, all + 5);
        fake_model_text(all, 5 + n, text);
        assert_int_equal(choice->text.size, 5 + n);
        assert_memory_equal(choice->text.data, text, (size_t)n + 5);
        assert_int_equal(job->result.completion_tokens, n);
        assert_int_equal(choice->n_tokens, n);
        assert_int_equal(choice->n_echoed, job->request.sampling.logprobs ? 5 : 0);
        for (int32_t i = 0; choice->logprobs && i < 5 + n; i++) {
            assert_int_equal(choice->logprobs[i].chosen.token, all[i]);
            assert_int_equal(choice->logprobs[i].text_offset, i);
            if (i > 0 && i < 5)
                assert_true((double)choice->logprobs[i].chosen.logprob ==
                            fake_model_score(tokens, i, tokens + i, 1));
        }
    }
    bench_close(&bench);
}

// A score of no tokens would be that of certainty.
TEST(a_choice_without_tokens_is_refused)
{
    struct text unspelled[] = {TEXT("ab"), {(const char[]){FAKE_UNSPELLED}, 1}};
    const int32_t tokens[] = {30, 31};
    for (int with_end = 0; with_end < 2; with_end++) {
        struct bench bench = bench_open(batches[1]);
        struct job *job = job_of(tokens, 2, 0, "job");
        job->request.constraint = (struct constraint){
            .kind = CONSTRAINT_CHOICE, .choices = unspelled, .n_choices = 2, .field = "choice"};
        job->request.scores.wanted = true;
        job->request.scores.include_end = with_end;
        batcher_take(bench.batcher, job);
        run_to_end(&bench);
        assert_int_equal(bench.finished.first->result.status, RESULT_FAILED);
        assert_int_equal(bench.finished.first->result.error.code, ERROR_UNSUPPORTED_FIELD);
        assert_non_null(strstr(bench.finished.first->result.error.text, "no token for the choice"));
        bench_close(&bench);
    }
}

// A long choice is named by its first 64 bytes, which end with a whole character.
TEST(a_choice_that_is_refused_is_quoted_in_short)
{
    char bytes[80];
    memset(bytes, FAKE_UNSPELLED, sizeof bytes);
    const int32_t tokens[] = {30, 31};
    for (size_t n = 63; n <= 65; n++) {
        struct text choice = {bytes, n};
        char expected[128];
        int n_quoted = n < 64 ? (int)n : 64;
        snprintf(expected, sizeof expected, "\"%*s\"", n_quoted, ""); // control characters are blanks
        struct bench bench = bench_open(batches[1]);
        struct job *job = job_of(tokens, 2, 0, "job");
        job->request.constraint = (struct constraint){
            .kind = CONSTRAINT_CHOICE, .choices = &choice, .n_choices = 1, .field = "choice"};
        job->request.scores.wanted = true;
        batcher_take(bench.batcher, job);
        run_to_end(&bench);
        assert_non_null(strstr(bench.finished.first->result.error.text, expected));
        bench_close(&bench);
    }
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}

// Draft tokens against a model whose every answer betrays a wrong page, table, position or history
// (tests/support/fake_model.h): answers are those without drafts, whatever is drafted and whenever a draft is wrong.
#include "batching/batcher_state.h"
#include "tests/unit/batching/batcher_bench.h"
#include "schemas/base/hash.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static uint64_t random_state;

enum { N_JOBS = 90, LENGTH_MAX = 60 };

static const struct batch_limits batches[] = {
    {.n_sequences_max = 1, .n_tokens_max = 40, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
    {.n_sequences_max = 4, .n_tokens_max = 12, .n_jobs_max = 200, .n_pages = 64, .page_positions = 4},
    {.n_sequences_max = 16, .n_tokens_max = 100, .n_jobs_max = 200, .n_pages = 400, .page_positions = 4},
    {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 1000, .page_positions = 16},
    // So few pages that sequences are put back again and again.
    {.n_sequences_max = 16, .n_tokens_max = 60, .n_jobs_max = 200, .n_pages = 25, .page_positions = 4},
    {.n_sequences_max = 8, .n_tokens_max = 30, .n_jobs_max = 200, .n_pages = 120, .page_positions = 1},
};

enum { N_BATCHES = sizeof batches / sizeof *batches };

// ---- jobs of every kind ----

static const char *const expressions[] = {
    "(begin|start)[a-c]{4}(end|stop)", // forced, drawn among three, forced
    "[a-z]*",                          // nothing is forced
    "abcabc[ab]*(xyz)?",               // ends by itself in one way
    "(one|two|three)(four|five)(six|seven)",
};

static struct text words[] = {{"abc", 3}, {"abd", 3}, {"zz", 2}, {"a", 1}};
static struct text stops[] = {{"ab", 2}, {"q", 1}};
static int32_t stop_tokens[] = {60, 61, 62, 63, 64, 65, 66, 67};

static void constrain(struct job *job, int kind)
{
    if (kind < 4)
        job->request.constraint = (struct constraint){.kind = CONSTRAINT_REGEX,
                                                      .source = text_from_string(expressions[kind]),
                                                      .field = "regex"};
    if (kind == 4)
        job->request.constraint = (struct constraint){
            .kind = CONSTRAINT_CHOICE, .choices = words, .n_choices = 4, .field = "choice"};
    job->request.scores.wanted = kind == 4;
    job->request.constraint.closes = kind < 2 && random_below(&random_state, 3) == 0;
}

// Few prompts and few seeds, so that answers repeat, in whole or in part.
static struct job *random_job(int number)
{
    int32_t tokens[LENGTH_MAX], n = 1 + (int32_t)random_below(&random_state, 3) * 20;
    uint32_t stem = random_below(&random_state, 3);
    for (int32_t i = 0; i < n; i++)
        tokens[i] = 20 + (i * 7 + (int32_t)stem * 13) % 180;
    char id[32];
    snprintf(id, sizeof id, "%d", number);
    struct job *job = job_of(tokens, n, 1 + (int32_t)random_below(&random_state, 40), id);
    struct request *request = &job->request;
    request->sampling.seed = random_below(&random_state, 2);
    request->n = random_below(&random_state, 5) == 0 ? 3 : 1;
    request->stop.ignore_eos = random_below(&random_state, 2);
    request->sampling.logprobs = random_below(&random_state, 3) == 0;
    request->sampling.top_logprobs = request->sampling.logprobs ? (int32_t)random_below(&random_state, 3) : 0;
    constrain(job, (int)random_below(&random_state, 9));
    if (random_below(&random_state, 4) == 0) {
        request->stop.strings = stops;
        request->stop.n_strings = 2;
        request->stop.is_included = random_below(&random_state, 2);
    }
    if (random_below(&random_state, 4) == 0) {
        request->stop.tokens = stop_tokens;
        request->stop.n_tokens = 8;
    }
    if (random_below(&random_state, 4) == 0)
        request->stop.min_tokens = (int32_t)random_below(&random_state, (uint32_t)request->stop.max_tokens);
    if (random_below(&random_state, 6) == 0 && request->constraint.kind == CONSTRAINT_NONE) {
        request->vocabulary.bad_words = words;
        request->vocabulary.n_bad_words = 3;
    }
    if (random_below(&random_state, 6) == 0)
        request->prompt_logprobs = (int32_t)random_below(&random_state, 3);
    return job;
}

// ---- their results ----

static uint64_t hash_number(uint64_t hash, double number)
{
    return hash_bytes(&number, sizeof number, hash);
}

static uint64_t hash_logprobs(uint64_t hash, const struct logprob_entry *entries, int32_t n)
{
    for (int32_t i = 0; entries && i < n; i++) {
        hash = hash_number(hash_number(hash, entries[i].chosen.token), entries[i].text_offset);
        hash = hash_bytes(&entries[i].chosen.logprob, sizeof(float), hash);
        for (int32_t k = 0; k < entries[i].n_top; k++)
            hash = hash_number(hash_number(hash, entries[i].top[k].token), (double)entries[i].top[k].logprob);
    }
    return hash;
}

static uint64_t hash_result(const struct job *job)
{
    const struct result *result = &job->result;
    uint64_t hash = hash_number(hash_number(1, result->status), result->completion_tokens);
    if (result->status != RESULT_DONE)
        return hash_bytes(result->error.text, strlen(result->error.text), hash);
    for (int32_t i = 0; i < result->n_choices; i++) {
        const struct choice *choice = &result->choices[i];
        hash = hash_bytes(choice->text.data, choice->text.size, hash);
        hash = hash_number(hash_number(hash, choice->n_tokens), choice->finish_reason);
        hash = hash_logprobs(hash, choice->logprobs, choice->n_tokens);
    }
    for (int32_t i = 0; i < result->n_choice_logprobs; i++)
        hash = hash_number(hash, result->choice_logprobs[i].logprob);
    return hash_logprobs(hash, result->prompt_logprobs, result->n_prompt_logprobs);
}

struct totals {
    int64_t drafted, accepted, preempted, steps;
};

// Hashes of the results by job, in `hashes` [N_JOBS].
static void compute(struct batch_limits limits, int32_t n_drafts, uint64_t seed, uint64_t *hashes,
                    struct totals *totals)
{
    random_state = seed;
    limits.n_drafts_max = n_drafts;
    bench_drafts = n_drafts;
    struct bench bench = bench_open(limits);
    bench_drafts = 0;
    for (int number = 0; number < N_JOBS; number++)
        batcher_take(bench.batcher, random_job(number));
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, N_JOBS);
    int64_t drafted = 0, accepted = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        hashes[atoi(job->job_id.data)] = hash_result(job);
        drafted += job->figures.drafted_tokens;
        accepted += job->figures.accepted_tokens;
    }
    assert_int_equal(drafted, bench.drafted);
    assert_int_equal(accepted, bench.accepted);
    assert_true(bench.accepted <= bench.drafted && (n_drafts > 0 || bench.drafted == 0));
    assert_int_equal(bench.batcher->speculation.n_drafts, 0);
    totals->drafted += bench.drafted;
    totals->accepted += bench.accepted;
    totals->preempted += bench.preempted;
    totals->steps += fake_model_steps(bench.model);
    bench_close(&bench);
}

TEST(answers_are_those_without_drafts_whatever_the_batch_and_the_memory)
{
    static const int32_t lengths[] = {1, 3, 32};
    struct totals without = {0}, with = {0};
    for (int c = 0; c < N_BATCHES; c++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            uint64_t expected[N_JOBS], hashes[N_JOBS];
            compute(batches[c], 0, seed, expected, &without);
            for (int i = 0; i < 3; i++) {
                compute(batches[c], lengths[i], seed, hashes, &with);
                for (int k = 0; k < N_JOBS; k++)
                    if (hashes[k] != expected[k])
                        fail_msg("batch %d, seed %d, %d drafts: job %d", c, (int)seed, lengths[i], k);
            }
        }
    printf("# drafted %lld, accepted %lld, preempted %lld and %lld, steps %lld and %lld\n",
           (long long)with.drafted, (long long)with.accepted, (long long)without.preempted,
           (long long)with.preempted, (long long)without.steps, (long long)with.steps / 3);
    assert_true(with.accepted > 1000 && with.drafted - with.accepted > 1000);
    assert_true(without.preempted > 10 && with.preempted > 30);
    assert_true(with.steps / 3 < without.steps);
}

// ---- single cases ----

static const struct batch_limits roomy = {.n_sequences_max = 4,
                                          .n_tokens_max = 200,
                                          .n_jobs_max = 20,
                                          .n_pages = 100,
                                          .page_positions = 16,
                                          .n_drafts_max = 32};

static struct bench open_drafting(struct batch_limits limits, int32_t n_fixed)
{
    bench_drafts = n_fixed;
    struct bench bench = bench_open(limits);
    bench_drafts = 0;
    return bench;
}

static struct job *long_job(const char *id, uint64_t seed)
{
    struct job *job = job_of((const int32_t[]){10, 11, 12}, 3, 40, id);
    job->request.stop.ignore_eos = true;
    job->request.sampling.seed = seed;
    return job;
}

// Runs one job. Returns its steps.
static int64_t run_job(struct bench *bench, struct job *job)
{
    int64_t n_steps = fake_model_steps(bench->model);
    batcher_take(bench->batcher, job);
    run_to_end(bench);
    return fake_model_steps(bench->model) - n_steps;
}

TEST(an_answer_that_was_given_before_takes_few_steps)
{
    struct bench bench = open_drafting(roomy, 8);
    assert_int_equal(run_job(&bench, long_job("first", 5)), 40);
    assert_int_equal(bench.accepted, 0);
    // A step with the prompt and 8 draft tokens draws 9; the last one is the answer's end.
    assert_int_equal(run_job(&bench, long_job("second", 5)), 5);
    assert_int_equal(bench.accepted, 35);
    const struct job *second = bench.finished.last;
    assert_int_equal(second->figures.accepted_tokens, 35);
    assert_int_equal(second->figures.drafted_tokens, 35);
    assert_int_equal(bench.decode,
                     39 + 4 + bench.drafted); // a row of each step after the prompt, and the drafts
    for (const struct job *job = bench.finished.first; job; job = job->next)
        check_answer(job);
    bench_close(&bench);
}

// The answers begin alike and part: the draft is wrong from there on, and what was computed behind it is
// computed again.
TEST(a_draft_is_dropped_from_its_first_wrong_token_on)
{
    struct bench bench = open_drafting(roomy, 8);
    struct job *job = long_job("first", 5);
    job->request.constraint =
        (struct constraint){.kind = CONSTRAINT_REGEX, .source = TEXT("abcdefgh[a-z]{8}"), .field = "regex"};
    (void)run_job(&bench, job);
    job = long_job("second", 6);
    job->request.constraint =
        (struct constraint){.kind = CONSTRAINT_REGEX, .source = TEXT("[a-z]{20}"), .field = "regex"};
    int64_t drafted = bench.drafted, accepted = bench.accepted;
    (void)run_job(&bench, job);
    assert_true(bench.drafted > drafted && bench.accepted - accepted < bench.drafted - drafted);
    bench_close(&bench);
}

TEST(forced_tokens_are_drafted_after_a_token_that_leads_to_them)
{
    struct bench bench = open_drafting(roomy, 32);
    int64_t n_steps[2];
    for (int i = 0; i < 2; i++) {
        struct job *job = long_job(i ? "second" : "first", 5);
        job->request.constraint =
            (struct constraint){.kind = CONSTRAINT_REGEX,
                                .source = TEXT("name(one|two|three)size(big|small)kind(apple|pear)"),
                                .field = "regex"};
        n_steps[i] = run_job(&bench, job);
    }
    assert_int_equal(n_steps[0], 4); // tokens are drawn: t, h or w, b or s, a or p
    assert_int_equal(n_steps[1], 1);
    assert_true(text_equal(bench.finished.first->result.choices[0].text,
                           bench.finished.last->result.choices[0].text));
    assert_int_equal(bench.finished.first->figures.forced_tokens, bench.finished.last->figures.forced_tokens);
    bench_close(&bench);
}

TEST(draft_tokens_of_one_dataset_are_not_proposed_to_another)
{
    struct bench bench = open_drafting(roomy, 8);
    (void)run_job(&bench, long_job("first", 5));
    struct job *job = long_job("second", 5);
    assert_true(job_set_text(job, &job->dataset, TEXT("other")));
    assert_int_equal(run_job(&bench, job), 40);
    bench_close(&bench);
}

TEST(no_draft_exceeds_the_answers_length)
{
    struct bench bench = open_drafting(roomy, 32);
    (void)run_job(&bench, long_job("first", 5));
    for (int32_t max_tokens = 1; max_tokens <= 4; max_tokens++) {
        struct job *job = long_job("next", 5);
        job->request.stop.max_tokens = max_tokens;
        int64_t drafted = bench.drafted;
        assert_int_equal(run_job(&bench, job), 1);
        assert_int_equal(bench.drafted - drafted, max_tokens - 1);
        check_answer(bench.finished.last);
    }
    bench_close(&bench);
}

TEST(answers_with_bad_words_and_engines_that_compute_ahead_draft_nothing)
{
    struct bench bench = open_drafting(roomy, 8);
    (void)run_job(&bench, long_job("first", 5));
    struct job *job = long_job("second", 5);
    job->request.vocabulary.bad_words = words;
    job->request.vocabulary.n_bad_words = 3;
    int64_t drafted = bench.drafted;
    (void)run_job(&bench, job);
    assert_int_equal(bench.drafted, drafted);
    bench_close(&bench);
    ahead = true;
    bench = open_drafting(roomy, 8);
    ahead = false;
    for (int i = 0; i < 2; i++)
        (void)run_job(&bench, long_job("job", 5));
    assert_int_equal(bench.drafted, 0);
    bench_close(&bench);
}

// The other jobs' answers are unchanged; cancelled jobs leave no pages.
TEST(cancelled_jobs_and_released_ones_leave_their_drafts)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        random_state = seed;
        struct bench bench = open_drafting(batches[3], 8);
        struct batch_limits limits = batches[2];
        limits.n_drafts_max = 32;
        bench_close(&bench);
        bench = open_drafting(limits, 8);
        for (int i = 0; i < 20; i++) {
            char id[16];
            snprintf(id, sizeof id, "%d", i);
            batcher_take(bench.batcher, long_job(id, (uint64_t)i % 2));
        }
        for (uint32_t n = random_below(&random_state, 8); n > 0; n--) {
            struct step_figures figures;
            struct error error;
            assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
        }
        for (int i = 0; i < 4; i++) {
            char id[16];
            snprintf(id, sizeof id, "%d", (int)random_below(&random_state, 20));
            batcher_cancel(bench.batcher, TEXT("test"), text_from_string(id), INT64_MAX);
        }
        if (seed % 3 == 0) {
            struct job_list released = {0};
            batcher_release(bench.batcher, true, &released);
            for (struct job *job; (job = job_list_take(&released));) {
                assert_int_equal(job->figures.drafted_tokens, 0);
                batcher_take(bench.batcher, job);
            }
        }
        run_to_end(&bench);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            if (job->result.status == RESULT_DONE)
                check_answer(job);
            else
                assert_int_equal(job->result.error.code, ERROR_CANCELLED);
        bench_close(&bench);
    }
}

TEST(a_text_goes_on_after_a_token_that_was_replaced)
{
    enum { N_TEXT = 60, N_BEFORE = 12, REPLACED = 150 };
    int32_t text[N_TEXT], answer[N_BEFORE + 2];
    for (int32_t i = 0; i < N_TEXT; i++)
        text[i] = 20 + i;
    memcpy(answer, text + 20, (N_BEFORE + 1) * sizeof *answer);
    struct job job = {.dataset = TEXT("test")};
    struct prompt prompt = {.job = &job, .tokens = {.ids = text, .n_ids = N_TEXT}, .max_tokens = 40};
    struct sequence sequence = {
        .prompt = &prompt, .answer = {.generated = answer, .n_generated = N_BEFORE, .n_drawn = N_BEFORE + 1}};
    struct speculation speculation = {0};
    assert_true(speculation_propose(&speculation, &sequence, 8, 0.0, NULL));
    assert_int_equal(sequence.draft->tokens[0].token, text[20 + N_BEFORE]);
    sequence.answer.n_generated = N_BEFORE + 1; // as drafted, then another
    answer[N_BEFORE + 1] = REPLACED;
    sequence.answer.n_generated++;
    sequence.answer.n_drawn = sequence.answer.n_generated + 1;
    sequence.draft->n_rows = 1; // what the step computed
    assert_int_equal(speculation_settle(&speculation, &sequence), 1);
    assert_true(speculation_propose(&speculation, &sequence, 8, 0.0, NULL));
    for (int i = 0; i < 4; i++)
        assert_int_equal(sequence.draft->tokens[i].token, text[20 + N_BEFORE + 2 + i]);
    speculation_release(&speculation, &sequence);
    assert_int_equal(speculation.n_drafts, 0);
    speculation.n_drafts = SPECULATION_SEQUENCES_MAX; // others draft: the memory plan has no more
    assert_false(speculation_propose(&speculation, &sequence, 8, 0.0, NULL));
    assert_null(sequence.draft);
    speculation_finish(&speculation);
}

// Without a fixed number, drafts are computed where steps have shown that more rows cost nothing: the stand-in
// takes no time for any.
TEST(drafts_are_as_long_as_they_pay)
{
    struct bench bench = open_drafting(roomy, 0);
    for (int i = 0; i < 30; i++)
        (void)run_job(&bench, long_job("job", 5));
    assert_true(bench.accepted > 0);
    for (const struct job *job = bench.finished.first; job; job = job->next)
        check_answer(job);
    bench_close(&bench);
}

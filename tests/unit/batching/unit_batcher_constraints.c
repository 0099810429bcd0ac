// The batcher with jobs whose answers are constrained: compiled beside the batch, forced tokens, closing
// ends.
#include "batching/constraint_threads.h"
#include "batching/constraint.h"
#include "tests/unit/batching/batcher_bench.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/random_jobs.h"

#include <semaphore.h>
#include <stdatomic.h>

// ---- constraints ----

// Each token spells a letter: the shortest answer has 8.
TEST(an_answer_that_closes_is_complete_or_refused)
{
    const struct batch_limits limits = {
        .n_sequences_max = 8, .n_tokens_max = 32, .n_jobs_max = 200, .n_pages = 200, .page_positions = 16};
    struct bench bench = bench_open(limits);
    enum { N_JOBS = 120 };
    for (int i = 0; i < N_JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        struct job *job = job_of((const int32_t[]){10, 11, 12 + i}, 3, 6 + i % 20, id);
        job->request.sampling.seed = (uint64_t)i;
        job->request.constraint = (struct constraint){.kind = CONSTRAINT_REGEX,
                                                      .source = TEXT("(begin|start)[a-z]*x(end|stop)(zz)?"),
                                                      .field = "regex",
                                                      .closes = i % 3 != 0};
        batcher_take(bench.batcher, job);
    }
    run_to_end(&bench);
    int n_cut = 0, n_full = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        int i = atoi(job->job_id.data), max_tokens = 6 + i % 20;
        bool closes = i % 3 != 0;
        if (closes && max_tokens < 9) {
            char text[128];
            snprintf(text, sizeof text,
                     "close_at_max_tokens: the shortest answer has 9 tokens, max_tokens is %d", max_tokens);
            assert_int_equal(job->result.status, RESULT_FAILED);
            assert_string_equal(job->result.error.text, text);
            continue;
        }
        assert_int_equal(job->result.status, RESULT_DONE);
        const struct choice *choice = &job->result.choices[0];
        struct text text = choice->text;
        bool is_complete = text.size > 3 && (memcmp(text.data + text.size - 3, "end", 3) == 0 ||
                                             memcmp(text.data + text.size - 3, "top", 3) == 0 ||
                                             memcmp(text.data + text.size - 3, "dzz", 3) == 0 ||
                                             memcmp(text.data + text.size - 3, "pzz", 3) == 0);
        assert_true(choice->n_tokens <= max_tokens);
        if (closes)
            assert_true(is_complete && choice->finish_reason == FINISH_STOP);
        if (!is_complete)
            assert_int_equal(choice->finish_reason, FINISH_LENGTH);
        n_cut += !closes && !is_complete;
        n_full += closes && choice->n_tokens == max_tokens;
    }
    assert_true(n_cut > 0 && n_full > 0);
    bench_close(&bench);
}

static sem_t compile_allowed;

static atomic_int n_compiles;

static void compile_when_allowed(struct compiled_constraint *entry, struct constraint_cache *cache)
{
    n_compiles++;
    while (sem_wait(&compile_allowed) != 0)
        continue;
    constraint_compile(entry, cache);
}

static void take_of_regex(struct bench *bench, const char *regex, const char *id)
{
    struct job *job = job_of((const int32_t[]){10, 11, 12}, 3, 8, id);
    if (regex)
        job->request.constraint = (struct constraint){.kind = CONSTRAINT_REGEX,
                                                      .source = text_from_string(regex),
                                                      .field = "regex"};
    batcher_take(bench->batcher, job);
}

static void round_until(struct bench *bench, size_t n_finished)
{
    struct error error;
    while (bench->finished.n_jobs < n_finished) {
        struct step_figures figures;
        assert_ok(batcher_round(bench->batcher, &bench->finished, &figures, &error), &error);
    }
}

// The vocabulary is made, and the compile ends, only after all other jobs, those that come behind it too.
TEST(a_compile_delays_its_own_jobs_alone_and_is_done_once)
{
    const struct batch_limits limits = {
        .n_sequences_max = 8, .n_tokens_max = 32, .n_jobs_max = 20, .n_pages = 64, .page_positions = 16};
    assert_int_equal(sem_init(&compile_allowed, 0, 0), 0);
    n_compiles = 0;
    bench_compile = compile_when_allowed;
    struct bench bench = bench_open(limits);
    bench_compile = NULL;
    take_of_regex(&bench, "[a-c]{3}", "slow 0");
    take_of_regex(&bench, NULL, "free 0");
    take_of_regex(&bench, "[a-c]{3}", "slow 1");
    round_until(&bench, 1);
    take_of_regex(&bench, NULL, "free 1");
    take_of_regex(&bench, "[a-c]{3}", "slow 2");
    take_of_regex(&bench, "[a-c]{3}", "cancelled");
    round_until(&bench, 2);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("cancelled"), INT64_MAX);
    round_until(&bench, 3);
    static const char *const ids[] = {"free 0", "free 1", "cancelled", "slow 0", "slow 1", "slow 2"};
    sem_post(&compile_allowed);
    sem_post(&compile_allowed);
    run_to_end(&bench);
    assert_int_equal(n_compiles, 2); // the vocabulary and the regex
    assert_int_equal(bench.finished.n_jobs, 6);
    int i = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next, i++) {
        if (i < 3)
            assert_true(text_equals_string(job->job_id, ids[i]));
        assert_int_equal(job->result.status, i == 2 ? RESULT_CANCELLED : RESULT_DONE);
        if (i > 2)
            assert_int_equal(job->result.choices[0].text.size, 3);
    }
    bench_close(&bench);
}

// The one that is being compiled ends as it is; those behind it are dropped.
TEST(compiles_that_nobody_waits_for_end_with_the_batcher)
{
    const struct batch_limits limits = {
        .n_sequences_max = 8, .n_tokens_max = 32, .n_jobs_max = 500, .n_pages = 64, .page_positions = 16};
    assert_int_equal(sem_init(&compile_allowed, 0, CONSTRAINT_THREADS), 0);
    bench_compile = compile_when_allowed;
    struct bench bench = bench_open(limits);
    bench_compile = NULL;
    struct job_list released = {0};
    struct step_figures figures;
    struct error error;
    static char regexes[CONSTRAINTS_COMPILING_MAX + 20][32]; // the jobs hold them until the round
    for (int i = 0; i < CONSTRAINTS_COMPILING_MAX + 20; i++) {
        snprintf(regexes[i], sizeof regexes[i], "[ab]{%d}", i + 1);
        take_of_regex(&bench, regexes[i], "dropped");
    }
    assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    batcher_release(bench.batcher, true, &released);
    assert_true(batcher_is_empty(bench.batcher));
    // For each: a thread may take up several before the batcher closes.
    for (int i = 0; i < CONSTRAINTS_COMPILING_MAX + 20; i++)
        sem_post(&compile_allowed);
    for (struct job *job; (job = job_list_take(&released));)
        job_destroy(job);
    bench_close(&bench);
}

enum { N_CONSTRAINED = 90 };

// Those without a constraint: free, or with tokens that may not be drawn, of which one depends on the token
// before.
static void limit_tokens(struct job *job, int number)
{
    static struct text bad[] = {TEXT("ab"), TEXT("e")};
    job->request.vocabulary.bad_words = bad;
    job->request.vocabulary.n_bad_words = number / 6 % 2 ? 2 : 0;
    job->request.stop.min_tokens = number / 6 % 4 > 1 ? 1 + number % 33 / 2 : 0;
}

static void take_constrained(struct bench *bench, int number)
{
    static struct text choices[] = {{"abc", 3}, {"abd", 3}, {"zz", 2}};
    static const struct constraint constraints[] = {
        {.kind = CONSTRAINT_CHOICE, .choices = choices, .n_choices = 3, .field = "choice"},
        {.kind = CONSTRAINT_REGEX, .source = {"[a-m]{2,30}|q+", 14}, .field = "regex"},
        {.kind = CONSTRAINT_REGEX, .source = {"(x[a-c]*y)+", 11}, .field = "regex"},
        {.kind = CONSTRAINT_REGEX, .source = {"(a", 2}, .field = "regex"},
        {.kind = CONSTRAINT_REGEX, .source = {"the(cat|bird)sat[on]themat", 26}, .field = "regex"},
        {.kind = CONSTRAINT_NONE},
    };
    int32_t tokens[40];
    char id[32];
    snprintf(id, sizeof id, "%d", number);
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 10 + (i < 20 ? i : (i * 7 + number * 13) % 200);
    struct job *job = job_of(tokens, 1 + number % 40, 1 + number % 33, id);
    job->request.sampling.seed = (uint64_t)number;
    job->request.constraint = constraints[number % 6];
    job->request.n = number % 7 ? 1 : 3;
    job->request.sampling.logprobs = number % 5 == 0;
    if (number % 6 == 5)
        limit_tokens(job, number);
    batcher_take(bench->batcher, job);
}

static bool begins_sentence(struct text text, bool finished)
{
    static const char *const sentences[] = {"thecatsatothemat", "thecatsatnthemat", "thebirdsatothemat",
                                            "thebirdsatnthemat"};
    bool found = false;
    for (int i = 0; i < 4; i++)
        found |= text.size <= strlen(sentences[i]) && memcmp(text.data, sentences[i], text.size) == 0 &&
                 (!finished || text.size == strlen(sentences[i]));
    return found;
}

static bool is_spelled(struct text text, int kind, bool finished)
{
    size_t i = 0;
    if (kind == 0)
        return text_equals_string(text, "abc") || text_equals_string(text, "abd") ||
               text_equals_string(text, "zz") ||
               (!finished && (text.size == 0 || text_equals_string(text, "a") ||
                              text_equals_string(text, "ab") || text_equals_string(text, "z")));
    if (kind == 1) {
        bool q = text.size && text.data[0] == 'q';
        for (; i < text.size && (q ? text.data[i] == 'q' : text.data[i] <= 'm'); i++)
            continue;
        return i == text.size && (q || (text.size <= 30 && (!finished || text.size >= 2)));
    }
    if (kind == 4)
        return begins_sentence(text, finished);
    while (i < text.size && text.data[i] == 'x') {
        for (i++; i < text.size && text.data[i] <= 'c'; i++)
            continue;
        if (i == text.size)
            return !finished;
        if (text.data[i++] != 'y')
            return false;
    }
    return i == text.size && (!finished || i > 0);
}

// [N_CONSTRAINED] the answers of each job, three of some, step by step in a batch of one.
static struct text alone[N_CONSTRAINED * 3];

static void check_constrained(const struct job *job)
{
    int number = atoi(job->job_id.data), kind = number % 6;
    assert_int_equal(job->result.status, kind == 3 ? RESULT_FAILED : RESULT_DONE);
    if (kind == 3)
        assert_string_equal(job->result.error.text, "regex: pattern, byte 2: a group is not closed");
    for (int32_t c = 0; c < job->result.n_choices; c++) {
        struct text text = job->result.choices[c].text, *expected = &alone[number * 3 + c];
        if (kind < 3 || kind == 4)
            assert_true(is_spelled(text, kind, job->result.choices[c].finish_reason == FINISH_STOP));
        if (!expected->data)
            *expected = (struct text){memcpy(malloc(text.size + 1), text.data ? text.data : "", text.size),
                                      text.size};
        assert_true(text_equal(text, *expected));
    }
}

TEST(constrained_answers_are_those_of_each_job_alone)
{
    const struct batch_limits cases[] = {
        {.n_sequences_max = 1, .n_tokens_max = 1, .n_jobs_max = 1, .n_pages = 64, .page_positions = 16},
        {.n_sequences_max = 8, .n_tokens_max = 8, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
        {.n_sequences_max = 64,
         .n_tokens_max = 512,
         .n_jobs_max = 200,
         .n_pages = 1000,
         .page_positions = 16},
        {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 25, .page_positions = 4},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bench bench = bench_open(cases[c]);
        for (int number = 0; number < N_CONSTRAINED; number++) {
            while (batcher_is_full(bench.batcher))
                run_to_end(&bench);
            take_constrained(&bench, number);
        }
        run_to_end(&bench);
        assert_int_equal(bench.finished.n_jobs, N_CONSTRAINED);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            check_constrained(job);
        bench_close(&bench);
    }
}

// A job that ends between two steps takes its outputs and masks along; the others' stay.
TEST(constrained_answers_are_the_same_while_others_are_cancelled)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 16, .n_tokens_max = 64, .n_jobs_max = 200, .n_pages = 90, .page_positions = 4});
    struct error error;
    struct step_figures figures;
    int n_cancelled = 0;
    for (int number = 0; number < N_CONSTRAINED; number++)
        take_constrained(&bench, number);
    for (int round = 0; !batcher_is_empty(bench.batcher); round++) {
        char id[16];
        int length = snprintf(id, sizeof id, "%d", round * 7 % N_CONSTRAINED);
        if (round % 3 == 2)
            batcher_cancel(bench.batcher, TEXT("test"), (struct text){id, (size_t)length}, INT64_MAX);
        assert_ok(batcher_round(bench.batcher, &bench.finished, &figures, &error), &error);
    }
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        bool is_cancelled = job->result.status == RESULT_CANCELLED;
        n_cancelled += is_cancelled;
        if (!is_cancelled)
            check_constrained(job);
    }
    assert_in_range(n_cancelled, 5, N_CONSTRAINED / 2);
    bench_close(&bench);
}

// The step is lost: tokens that were taken before it are kept in the jobs that they finished.
TEST(a_sampling_that_fails_fails_its_step)
{
    if (!ahead)
        return;
    int n_finished = 0;
    for (int64_t failing = 0; failing < 60; failing += 6) {
        struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 16,
                                                              .n_tokens_max = 64,
                                                              .n_jobs_max = 200,
                                                              .n_pages = 90,
                                                              .page_positions = 4});
        struct step_figures figures;
        struct error error = {0};
        struct job_list released = {0};
        enum status status = STATUS_OK;
        for (int number = 0; number < N_CONSTRAINED; number++)
            take_constrained(&bench, number);
        fake_model_fail_sampling_at(bench.model, failing);
        while (status == STATUS_OK)
            status = batcher_round(bench.batcher, &bench.finished, &figures, &error);
        assert_int_equal(status, STATUS_RESTART);
        assert_string_equal(error.text, "the fake device was lost in sampling");
        batcher_release(bench.batcher, true, &released);
        assert_int_equal(bench.finished.n_jobs + released.n_jobs, N_CONSTRAINED);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            check_constrained(job);
        n_finished += (int)bench.finished.n_jobs;
        for (struct job *job; (job = job_list_take(&released));)
            job_destroy(job);
        bench_close(&bench);
    }
    assert_true(n_finished > 20);
}

static struct job *take_regex(struct bench *bench, const char *regex, int32_t max_tokens)
{
    struct job *job = job_of((int32_t[]){20, 21, 22}, 3, max_tokens, regex);
    job->request.constraint =
        (struct constraint){.kind = CONSTRAINT_REGEX, .source = text_from_string(regex), .field = "regex"};
    job->request.sampling.logprobs = true;
    job->request.sampling.top_logprobs = 3;
    batcher_take(bench->batcher, job);
    return job;
}

// Forced tokens are marked '^': their logprobs are those of the only token allowed.
static void check_forced(const struct job *job, const char *text, const char *forced, int32_t n_counted,
                         enum finish_reason finish_reason)
{
    const struct choice *choice = &job->result.choices[0];
    assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(choice->finish_reason, finish_reason);
    assert_int_equal(choice->n_tokens, strlen(text));
    assert_true(text_equals_string(choice->text, text));
    assert_int_equal(job->result.completion_tokens, n_counted);
    for (int32_t i = 0; i < choice->n_tokens; i++) {
        const struct logprob_entry *entry = &choice->logprobs[i];
        assert_int_equal(entry->n_top, forced[i] == '^' ? 1 : 3);
        if (forced[i] != '^')
            continue;
        assert_true(entry->chosen.logprob == 0.0f && entry->top[0].logprob == 0.0f);
        assert_int_equal(entry->top[0].token, entry->chosen.token);
    }
}

TEST(tokens_without_a_choice_are_not_drawn)
{
    static const struct {
        const char *regex;
        int32_t max_tokens;
        const char *text, *forced;
        int32_t n_counted, n_rows; // computed: the prompt's 3, and all but the answer's last tokens
        enum finish_reason finish_reason;
    } cases[] = {
        {"abcdef", 9, "abcdef", "^^^^^^", 7, 0, FINISH_STOP}, // with its end
        {"abcdef", 4, "abcd", "^^^^", 4, 0, FINISH_LENGTH},
        {"abcdef", 6, "abcdef", "^^^^^^", 6, 0, FINISH_STOP}, // complete with its last token
        {"ab[c]de[f-f](gh){2}", 20, "abcdefghgh", "^^^^^^^^^^", 11, 0, FINISH_STOP},
        {"ab[xc]?", 2, "ab", "^^", 2, 0, FINISH_LENGTH},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bench bench = bench_open((struct batch_limits){
            .n_sequences_max = 2, .n_tokens_max = 4, .n_jobs_max = 9, .n_pages = 60, .page_positions = 16});
        take_regex(&bench, cases[c].regex, cases[c].max_tokens);
        run_to_end(&bench);
        check_forced(bench.finished.first, cases[c].text, cases[c].forced, cases[c].n_counted,
                     cases[c].finish_reason);
        assert_int_equal(fake_model_rows(bench.model), cases[c].n_rows);
        bench_close(&bench);
    }
}

// Of many letters, each found anywhere: each leads to a text of all the others, and one more.
TEST(a_constraint_whose_first_mask_takes_too_much_fails_alone_and_uncomputed)
{
    enum { N_FOUND = 2500 };
    static char regex[6 * N_FOUND];
    size_t n = 0;
    for (unsigned i = 0; i < N_FOUND; i++) {
        unsigned letter = 0x4E00 + 2 * i;
        n += (size_t)snprintf(regex + n, sizeof regex - n, "%s.*%c%c%c", i ? "|" : "", 0xE0 | letter >> 12,
                              0x80 | (letter >> 6 & 0x3F), 0x80 | (letter & 0x3F));
    }
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 8, .n_tokens_max = 40, .n_jobs_max = 9, .n_pages = 100, .page_positions = 4});
    take_of_regex(&bench, regex, "hostile");
    run_to_end(&bench);
    const struct job *hostile = bench.finished.first;
    assert_int_equal(hostile->result.status, RESULT_FAILED);
    assert_string_equal(hostile->result.error.text, "regex: grammar_first_work: more than 12000000");
    assert_int_equal(fake_model_steps(bench.model), 0);
    take_of_regex(&bench, "[a-m]{30}", "other");
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, 2);
    assert_int_equal(bench.finished.last->result.status, RESULT_DONE);
    bench_close(&bench);
}

// Ahead, one more step is submitted before the last token is taken, and never collected.
TEST(a_sequence_under_a_constraint_draws_in_every_step)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 8, .n_tokens_max = 40, .n_jobs_max = 9, .n_pages = 100, .page_positions = 4});
    take_regex(&bench, "[a-m]{30}", 1); // compiles it
    run_to_end(&bench);
    int64_t n_before = fake_model_steps(bench.model);
    for (int i = 0; i < 6; i++) {
        struct job *job = take_regex(&bench, "[a-m]{30}", 40);
        job->request.sampling.seed = (uint64_t)i;
    }
    struct job *words = job_of((int32_t[]){20, 21, 22}, 3, 30, "bad words");
    struct text bad[] = {TEXT("ab"), TEXT("e")};
    words->request.vocabulary.bad_words = bad;
    words->request.vocabulary.n_bad_words = 2;
    words->request.stop.ignore_eos = true;
    batcher_take(bench.batcher, words);
    struct job *free_one = job_of((int32_t[]){20, 21, 23}, 3, 30, "free");
    free_one->request.stop.ignore_eos = true;
    batcher_take(bench.batcher, free_one);
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next)
        assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(fake_model_steps(bench.model) - n_before, 30);
    bench_close(&bench);
}

// Short answers are expected, so that more sequences are admitted than fit. Some tokens of these are forced.
static int64_t answer_in_pages(int32_t n_pages, char texts[5][160])
{
    struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 6,
                                                          .n_tokens_max = 16,
                                                          .n_jobs_max = 300,
                                                          .n_pages = n_pages,
                                                          .page_positions = 4});
    for (int j = 0; j < 200; j++)
        batcher_take(bench.batcher, job_of((int32_t[]){150 + j % 50, 160 + j / 50}, 2, 1, "short"));
    run_to_end(&bench);
    for (int j = 0; j < 5; j++) {
        struct job *job = take_regex(&bench, j % 2 ? "[a-m]{150}" : "([a-c]{3}xyxy){20}", 140);
        job->request.sampling.seed = (uint64_t)j;
        job->request.stop.max_tokens = 140 + j; // names the job
    }
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        int j = job->request.stop.max_tokens - 140;
        if (j < 0)
            continue;
        struct text text = job->result.choices[0].text;
        assert_in_range(text.size, 140, 144);
        snprintf(texts[j], sizeof texts[j], "%.*s", (int)text.size, text.data);
    }
    int64_t n_preempted = bench.preempted;
    bench_close(&bench);
    return n_preempted;
}

TEST(a_preempted_sequence_under_a_constraint_gives_the_same_answer)
{
    static char roomy[5][160], tight[5][160];
    assert_int_equal(answer_in_pages(400, roomy), 0);
    assert_true(answer_in_pages(64, tight) > 0);
    assert_memory_equal(roomy, tight, sizeof roomy);
}

TEST(forced_tokens_are_a_chunk_of_the_next_step)
{
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 40, .n_jobs_max = 9, .n_pages = 60, .page_positions = 4});
    struct job *job = take_regex(&bench, "abcd(ex|fx)ghijkl[mn]opq", 40);
    run_to_end(&bench);
    bool e = job->result.choices[0].text.data[4] == 'e', m = job->result.choices[0].text.data[12] == 'm';
    char text[32];
    snprintf(text, sizeof text, "abcd%cxghijkl%copq", e ? 'e' : 'f', m ? 'm' : 'n');
    check_forced(job, text, "^^^^ ^^^^^^^ ^^^", 17, FINISH_STOP);
    assert_int_equal(bench.forced, 15); // with its end
    assert_int_equal(job->figures.forced_tokens, 15);
    assert_int_equal(bench.generated, job->result.completion_tokens);
    assert_int_equal(fake_model_rows(bench.model), 3 + 12); // two steps with an output each
    bench_close(&bench);
}

// Longer than one piece of tokenization: no step computes a part of it.
TEST(a_long_text_without_a_choice_is_forced_whole)
{
    static const char *const regexes[] = {"a{255}b", "a{256}b", "a{257}b", "(ab){400}c"};
    static const int32_t sizes[] = {256, 257, 258, 801};
    for (int i = 0; i < 4; i++) {
        struct bench bench = bench_open((struct batch_limits){
            .n_sequences_max = 2, .n_tokens_max = 4, .n_jobs_max = 9, .n_pages = 60, .page_positions = 16});
        struct job *job = take_regex(&bench, regexes[i], 900);
        run_to_end(&bench);
        assert_int_equal(job->result.choices[0].finish_reason, FINISH_STOP);
        assert_int_equal(job->result.choices[0].n_tokens, sizes[i]);
        assert_int_equal(job->figures.forced_tokens, sizes[i] + 1); // with its end
        assert_int_equal(fake_model_rows(bench.model), 0);
        bench_close(&bench);
    }
}

TEST(constraints_are_kept_for_later_jobs_and_the_oldest_dropped_beyond_the_limit)
{
    assert_int_equal(sem_init(&compile_allowed, 0, 2 * CONSTRAINTS_MAX), 0);
    n_compiles = 0;
    bench_compile = compile_when_allowed;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 40, .n_jobs_max = 9, .n_pages = 60, .page_positions = 4});
    bench_compile = NULL;
    static char regexes[CONSTRAINTS_MAX + 1][32];
    for (int i = 0; i <= CONSTRAINTS_MAX; i++)
        snprintf(regexes[i], sizeof regexes[i], "[ab]{%d}", i + 1);
    const struct {
        int regex, n_more;
    } uses[] = {{0, 0}, {CONSTRAINTS_MAX, 1}, {0, 1}, {1, 2}};
    for (int i = 0; i < CONSTRAINTS_MAX; i++) {
        take_regex(&bench, regexes[i], 1);
        run_to_end(&bench);
    }
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        take_regex(&bench, regexes[uses[i].regex], 1);
        run_to_end(&bench);
        assert_int_equal(n_compiles, 1 + CONSTRAINTS_MAX + uses[i].n_more); // 1: the vocabulary
    }
    bench_close(&bench);
    sem_destroy(&compile_allowed);
}

TEST(forced_tokens_are_kept_by_state_up_to_a_limit_and_one_generation)
{
    struct forced_runs runs = {0};
    const int32_t tokens[] = {7, 8};
    assert_null(forced_runs_find(&runs, 3, 0));
    for (uint32_t i = 0; i <= FORCED_RUNS_MAX; i++)
        forced_runs_add(&runs, i * 2048, TEXT("ab"), tokens, i % 3, (int32_t)i - 1);
    forced_runs_add(&runs, 0, TEXT("other"), tokens, 2, -1); // the first stays
    for (uint32_t i = 0; i < FORCED_RUNS_MAX; i++) {
        const struct forced_run *run = forced_runs_find(&runs, 3, i * 2048);
        assert_non_null(run);
        assert_int_equal(run->bytes.size, 2);
        assert_int_equal(run->tokens.n_ids, i % 3);
        assert_int_equal(run->likely, (int32_t)i - 1);
    }
    assert_null(forced_runs_find(&runs, 3, FORCED_RUNS_MAX * 2048));
    assert_null(forced_runs_find(&runs, 4, 0));
    assert_null(forced_runs_find(&runs, 3, 0));
    forced_runs_add(&runs, 5, (struct text){0}, NULL, 0, -1); // nothing is forced there
    assert_non_null(forced_runs_find(&runs, 3, 5));
    forced_runs_finish(&runs);
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    n_failed += cases_run_named("ahead");
    for (int i = 0; i < N_CONSTRAINED * 3; i++)
        free((char *)alone[i].data);
    return n_failed;
}

// The batcher with a model whose answers reveal any wrong page, table or position (tests/fake_model.h): step
// by step, and with asynchronous scheduling.
#include "batching/constraint_threads.h"
#include "tests/batcher_bench.h"
#include "tests/random.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state;

// Prompts that share prefixes of several lengths, some whole, some parting inside a page.
static void random_jobs(struct bench *bench, int n_jobs, int32_t length_max)
{
    int32_t *stems[5];
    for (int s = 0; s < 5; s++) {
        stems[s] = malloc((size_t)length_max * sizeof(int32_t));
        for (int32_t i = 0; i < length_max; i++)
            stems[s][i] =
                s > 0 && i < length_max / 3 ? stems[0][i] : 10 + (int32_t)random_below(&random_state, 200);
    }
    int32_t *tokens = malloc((size_t)length_max * sizeof *tokens);
    for (int j = 0; j < n_jobs; j++) {
        int32_t n = 1 + (int32_t)random_below(&random_state, (uint32_t)length_max);
        int32_t shared = (int32_t)random_below(&random_state, (uint32_t)n + 1);
        memcpy(tokens, stems[random_below(&random_state, 5)], (size_t)n * sizeof *tokens);
        for (int32_t i = shared; i < n; i++)
            tokens[i] = 10 + (int32_t)random_below(&random_state, 200);
        char id[32];
        snprintf(id, sizeof id, "job-%d", j);
        struct job *job = job_of(tokens, n, 1 + (int32_t)random_below(&random_state, 40), id);
        job->request.sampling.seed = random_below(&random_state, 3);
        job->request.ignore_eos = random_below(&random_state, 4) == 0;
        job->request.n = random_below(&random_state, 6) == 0 ? 3 : 1;
        batcher_take(bench->batcher, job);
    }
    free(tokens);
    for (int s = 0; s < 5; s++)
        free(stems[s]);
}

static void answers_are_those_of_each_job_alone_whatever_the_batch_and_the_memory(void **state)
{
    (void)state;
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

// ---- constraints ----

// Each token spells a letter: the shortest answer has 8.
static void an_answer_that_closes_is_complete_or_refused(void **state)
{
    (void)state;
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
            assert_true(is_complete);
        n_cut += !closes && !is_complete;
        n_full += closes && choice->finish_reason == FINISH_LENGTH;
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
        assert_int_equal(batcher_round(bench->batcher, &bench->finished, &figures, &error), STATUS_OK);
    }
}

// The vocabulary is made, and the compile ends, only after all other jobs, those that come behind it too.
static void a_compile_delays_its_own_jobs_alone_and_is_done_once(void **state)
{
    (void)state;
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
static void compiles_that_nobody_waits_for_end_with_the_batcher(void **state)
{
    (void)state;
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
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
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

static bool spells(struct text text, int kind, bool finished)
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

static void check_constrained(const struct job *job, struct text *alone)
{
    int number = atoi(job->job_id.data), kind = number % 6;
    assert_int_equal(job->result.status, kind == 3 ? RESULT_FAILED : RESULT_DONE);
    if (kind == 3)
        assert_string_equal(job->result.error.text, "regex: pattern, byte 2: a group is not closed");
    for (int32_t c = 0; c < job->result.n_choices; c++) {
        struct text text = job->result.choices[c].text, *expected = &alone[number * 3 + c];
        if (kind < 3 || kind == 4)
            assert_true(spells(text, kind, job->result.choices[c].finish_reason == FINISH_STOP));
        if (!expected->data)
            *expected = (struct text){memcpy(malloc(text.size + 1), text.data ? text.data : "", text.size),
                                      text.size};
        assert_true(text_equal(text, *expected));
    }
}

static void constrained_answers_are_those_of_each_job_alone(void **state)
{
    (void)state;
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
    static struct text alone[N_CONSTRAINED * 3];
    memset(alone, 0, sizeof alone);
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
            check_constrained(job, alone);
        bench_close(&bench);
    }
    for (int i = 0; i < N_CONSTRAINED * 3; i++)
        free((char *)alone[i].data);
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

static void tokens_without_a_choice_are_not_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *regex;
        int32_t max_tokens;
        const char *text, *forced;
        int32_t n_counted, n_rows; // computed: the prompt's 3, and all but the answer's last tokens
        enum finish_reason finish_reason;
    } cases[] = {
        {"abcdef", 9, "abcdef", "^^^^^^", 7, 0, FINISH_STOP}, // with its end
        {"abcdef", 4, "abcd", "^^^^", 4, 0, FINISH_LENGTH},
        {"abcdef", 6, "abcdef", "^^^^^^", 6, 0, FINISH_LENGTH},
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

static void forced_tokens_are_a_chunk_of_the_next_step(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 40, .n_jobs_max = 9, .n_pages = 60, .page_positions = 4});
    struct job *job = take_regex(&bench, "abcd(ex|fx)ghijkl[mn]opq", 40);
    run_to_end(&bench);
    bool e = job->result.choices[0].text.data[4] == 'e', m = job->result.choices[0].text.data[12] == 'm';
    char text[32];
    snprintf(text, sizeof text, "abcd%cxghijkl%copq", e ? 'e' : 'f', m ? 'm' : 'n');
    check_forced(job, text, "^^^^ ^^^^^^^ ^^^", 17, FINISH_STOP);
    assert_int_equal(bench.forced, 14);
    assert_int_equal(job->figures.forced_tokens, 14);
    assert_int_equal(fake_model_rows(bench.model), 3 + 12); // two steps with an output each
    bench_close(&bench);
}

// Most answers are short, so the batcher takes in more than it can hold when a long one comes.
static void sequences_that_give_their_pages_back_answer_as_if_they_had_not(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        random_state = seed;
        // few rows: a prompt takes many steps, and gives its pages back in the middle
        int32_t n = 4 + 4 * (int32_t)(seed % 3);
        struct bench bench =
            bench_open((struct batch_limits){.n_sequences_max = n,
                                             .n_tokens_max = n + (int32_t)random_below(&random_state, 6),
                                             .n_jobs_max = 300,
                                             .n_pages = 64,
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
            job->request.ignore_eos = true;
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

// Three long answers grow until the prompt that came last, one row a step, has to give its pages back in its
// middle.
static void a_prompt_that_gives_its_pages_back_in_its_middle_answers_as_if_it_had_not(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 4, .n_tokens_max = 4, .n_jobs_max = 300, .n_pages = 64, .page_positions = 4});
    int32_t tokens[100];
    for (int32_t i = 0; i < 100; i++)
        tokens[i] = 30 + i;
    for (int j = 0; j < 200; j++) // answers of one token: that is what the batcher comes to expect
        batcher_take(bench.batcher, job_of((int32_t[]){150 + j % 50, 160 + j / 50}, 2, 1, "short"));
    run_to_end(&bench);
    int64_t prefill_before = bench.prefill;
    for (int j = 0; j < 3; j++) {
        struct job *job = job_of((int32_t[]){11 + j, 12, 13, 14}, 4, 150, "long answer");
        job->request.ignore_eos = true;
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

static void a_shared_prefix_is_computed_once_and_no_prompt_token_twice(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 64,
                                                          .n_tokens_max = 256,
                                                          .n_jobs_max = 300,
                                                          .n_pages = 1000,
                                                          .page_positions = 16});
    int32_t tokens[200];
    for (int32_t i = 0; i < 200; i++)
        tokens[i] = 20 + i;
    int64_t generated = 0;
    for (int j = 0; j < 256; j++) { // 160 shared tokens, 10 of its own
        for (int32_t i = 160; i < 170; i++)
            tokens[i] = 10 + (j * 31 + i * 7) % 200;
        tokens[160] = 10 + j % 200;
        tokens[161] = 10 + j / 200;
        char id[32];
        snprintf(id, sizeof id, "job-%d", j);
        batcher_take(bench.batcher, job_of(tokens, 170, 8, id));
    }
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        check_answer(job);
        generated += job->result.completion_tokens;
    }
    assert_int_equal(bench.prefill, 160 + 256 * 10);
    // The last token of an answer is never computed; one that stops at the end token has computed all it
    // shows. Ahead, the end token has a row too: nobody knew yet that it was one.
    assert_true(bench.decode <= generated + (ahead ? 256 : 0));
    struct prefix_report report;
    batcher_report_prefixes(bench.batcher, &report);
    assert_int_equal(report.n_lookups, 256);
    assert_int_equal(report.n_hits, 255);
    assert_int_equal(report.tokens_saved, 255 * 160);
    assert_int_equal(report.n_entries, 1);
    assert_int_equal(report.entries[0].n_tokens, 160);
    assert_true(fake_model_largest_batch(bench.model) > 20);
    bench_close(&bench);
}

static void a_prompt_of_whole_pages_shares_all_but_its_last_token_s_page(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 4, .n_tokens_max = 64, .n_jobs_max = 10, .n_pages = 100, .page_positions = 16});
    int32_t tokens[32];
    for (int32_t i = 0; i < 32; i++)
        tokens[i] = 50 + i;
    batcher_take(bench.batcher, job_of(tokens, 32, 4, "a"));
    batcher_take(bench.batcher, job_of(tokens, 32, 4, "b"));
    run_to_end(&bench);
    assert_int_equal(bench.prefill, 32 + 16);
    check_answer(bench.finished.first);
    check_answer(bench.finished.first->next);
    bench_close(&bench);
}

static void bad_jobs_fail_alone_with_their_own_error(void **state)
{
    (void)state;
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
    messages->request.prompt_kind = PROMPT_MESSAGES;
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

static void cancelled_jobs_finish_in_the_next_round_and_the_others_go_on(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 20 + i;
    const char *ids[] = {"running", "kept", "waiting"};
    for (int i = 0; i < 3; i++) {
        struct job *job = job_of(tokens, 40, 30, ids[i]);
        job->request.ignore_eos = true;
        batcher_take(bench.batcher, job);
    }
    struct step_figures figures;
    struct error error;
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    batcher_take(bench.batcher, job_of(tokens, 30, 30, "arrived"));
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("running"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("waiting"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("test"), TEXT("arrived"), INT64_MAX);
    batcher_cancel(bench.batcher, TEXT("another"), (struct text){0}, INT64_MAX);
    int64_t n_steps = fake_model_steps(bench.model);
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    assert_int_equal(bench.finished.n_jobs, 3);
    assert_int_equal(fake_model_steps(bench.model), n_steps + 1);
    // of them none had a row in it; ahead, it had begun before
    assert_int_equal(figures.n_sequences, ahead ? 2 : 1);
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
static void a_cancellation_spares_what_was_submitted_after_it(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16});
    int32_t tokens[8] = {20, 21, 22, 23, 24, 25, 26, 27};
    const struct {
        const char *id;
        int64_t created, written;
        bool spared;
    } cases[] = {{"told", 1000, 2000, false},
                 {"told-later", 1001, 500, true},
                 {"unknown", 0, 0, false},
                 {"written", 0, 1000, false},
                 {"written-later", 0, 1001, true}};
    struct step_figures figures;
    struct error error;
    for (int when = 0; when < 2; when++) { // before the first round, and after it
        for (int i = 0; i < 5; i++) {
            struct job *job = job_of(tokens, 8, 30, cases[i].id);
            job->request.ignore_eos = true;
            job->created_s = cases[i].created;
            job->source.written_s = cases[i].written;
            batcher_take(bench.batcher, job);
        }
        if (when == 1)
            assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
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

static void a_batcher_is_full_with_the_last_job_that_it_may_hold(void **state)
{
    (void)state;
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

static void a_job_that_comes_back_unfinished_holds_no_result(void **state)
{
    (void)state;
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
        job->request.ignore_eos = true;
        job->figures.attempts = i + 2;
        batcher_take(bench.batcher, job);
        for (int round = 0; i == 1 && round < 3; round++)
            assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
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
static void a_result_of_more_values_than_can_be_read_fails_its_job(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct bench bench = bench_open((struct batch_limits){.n_sequences_max = JOB_N_MAX,
                                                              .n_tokens_max = 256,
                                                              .n_jobs_max = 20,
                                                              .n_pages = 2000,
                                                              .page_positions = 16});
        // 65 values a token: 64 answers of 252 tokens have 1,048,320 and a few hundred more, of 2^20.
        struct job *job = job_of((int32_t[]){3, 4, 5}, 3, over ? 252 : 250, "many");
        job->request.n = JOB_N_MAX;
        job->request.ignore_eos = true;
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

static int64_t told_s; // what the batcher's clock says

static int64_t told_us(void)
{
    return told_s * 1000000;
}

static void a_job_past_its_deadline_stops_within_one_step_and_the_others_go_on(void **state)
{
    (void)state;
    told_s = 1000;
    struct bench bench = bench_open_at(
        (struct batch_limits){
            .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 20, .n_pages = 60, .page_positions = 16},
        told_us);
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++)
        tokens[i] = 20 + i;
    static const struct {
        const char *id;
        int64_t deadline;
        int n_tokens;
    } jobs[] = {{"running", 1001, 40},
                {"kept", 5000, 40},
                {"waiting", 1002, 40},
                {"late", 1000, 40},
                {"empty", 999, 0}};
    for (size_t i = 0; i < 5; i++) {
        struct job *job = job_of(tokens, jobs[i].n_tokens, 30, jobs[i].id);
        job->request.ignore_eos = true;
        job->deadline_s = jobs[i].deadline;
        batcher_take(bench.batcher, job);
    }
    struct step_figures figures;
    struct error error;
    // Too late when they came: not even their prompts are read.
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    assert_int_equal(bench.finished.n_jobs, 2);
    assert_true(text_equals_string(bench.finished.first->job_id, "late"));
    assert_true(text_equals_string(bench.finished.last->job_id, "empty"));
    told_s = 1001;
    int64_t n_steps = fake_model_steps(bench.model);
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    assert_int_equal(bench.finished.n_jobs, 3);
    assert_int_equal(fake_model_steps(bench.model), n_steps + 1);
    told_s = 1002;
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    assert_int_equal(bench.finished.n_jobs, 4);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        assert_int_equal(job->result.status, RESULT_FAILED);
        assert_int_equal(job->result.error.code, ERROR_DEADLINE);
    }
    told_s = 4999;
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, 5);
    check_answer(bench.finished.last);
    bench_close(&bench);
}

static void urgent_jobs_run_first_and_answer_the_same(void **state)
{
    (void)state;
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

static void a_lost_device_harms_no_job(void **state)
{
    (void)state;
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

static void an_old_job_is_not_passed_over_for_ever(void **state)
{
    (void)state;
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
    assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
    batcher_take(bench.batcher, job_of(lonely, 40, 1, "lonely"));
    bool found = false;
    int n = 0;
    for (; !found && n < 10000; n++) { // there is always one more that shares the cached prefix
        while (!batcher_is_full(bench.batcher))
            batcher_take(bench.batcher, job_of(shared, 40, 1, "more"));
        assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
        for (struct job *job; (job = job_list_take(&bench.finished)); job_destroy(job))
            found = found || text_equals_string(job->job_id, "lonely");
    }
    assert_true(found);
    assert_in_range(n, 1000, 4000); // sharing came first, but not for ever
    run_to_end(&bench);
    bench_close(&bench);
}

static void stop_strings_end_an_answer_across_tokens_and_are_not_part_of_it(void **state)
{
    (void)state;
    struct bench bench = bench_open((struct batch_limits){
        .n_sequences_max = 2, .n_tokens_max = 64, .n_jobs_max = 4, .n_pages = 60, .page_positions = 16});
    int32_t prompt[3] = {30, 40, 50}, answer[40];
    char text[41];
    int32_t n = fake_model_answer(prompt, 3, 5, 0, 40, true, answer);
    fake_model_text(answer, n, text);
    struct job *job = job_of(prompt, 3, 40, "stop");
    job->request.ignore_eos = true;
    job->request.stop = arena_allocate_array(&job->arena, 2, sizeof *job->request.stop);
    assert_true(job_set_text(job, &job->request.stop[0], TEXT("no such text")));
    assert_true(job_set_text(job, &job->request.stop[1], (struct text){text + 10, 3}));
    job->request.n_stop = 2;
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
static void a_row_behind_the_last_token_shows_nowhere(void **state)
{
    (void)state;
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
            assert_int_equal(batcher_round(bench.batcher, &bench.finished, &figures, &error), STATUS_OK);
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

static void rows_have_tokens_that_nobody_knew(void **state)
{
    (void)state;
    assert_true(ahead ? n_rows_ahead > 10000 : n_rows_ahead == 0);
}

// Equal bytes or a refusal: an answer without max_tokens is bounded by the context, whatever the pages hold.
static void page_memory_never_shortens_an_answer(void **state)
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
            job->request.ignore_eos = j == 7;
            batcher_take(bench.batcher, job);
        }
        run_to_end(&bench);
        int n_refused = 0;
        int32_t *answer = malloc(CONTEXT * sizeof *answer);
        for (struct job *job = bench.finished.first; job; job = job->next) {
            const struct request *request = &job->request;
            int32_t most = CONTEXT - request->n_tokens;
            int32_t n = fake_model_answer(request->tokens, request->n_tokens, 5, 0, most, request->ignore_eos,
                                          answer);
            job->request.max_tokens = most;
            if (request->n_tokens + n <= pages[m] * PAGE) {
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_each_job_alone_whatever_the_batch_and_the_memory),
        cmocka_unit_test(constrained_answers_are_those_of_each_job_alone),
        cmocka_unit_test(an_answer_that_closes_is_complete_or_refused),
        cmocka_unit_test(a_compile_delays_its_own_jobs_alone_and_is_done_once),
        cmocka_unit_test(compiles_that_nobody_waits_for_end_with_the_batcher),
        cmocka_unit_test(tokens_without_a_choice_are_not_drawn),
        cmocka_unit_test(forced_tokens_are_a_chunk_of_the_next_step),
        cmocka_unit_test(sequences_that_give_their_pages_back_answer_as_if_they_had_not),
        cmocka_unit_test(a_prompt_that_gives_its_pages_back_in_its_middle_answers_as_if_it_had_not),
        cmocka_unit_test(a_shared_prefix_is_computed_once_and_no_prompt_token_twice),
        cmocka_unit_test(a_prompt_of_whole_pages_shares_all_but_its_last_token_s_page),
        cmocka_unit_test(page_memory_never_shortens_an_answer),
        cmocka_unit_test(bad_jobs_fail_alone_with_their_own_error),
        cmocka_unit_test(cancelled_jobs_finish_in_the_next_round_and_the_others_go_on),
        cmocka_unit_test(a_cancellation_spares_what_was_submitted_after_it),
        cmocka_unit_test(a_batcher_is_full_with_the_last_job_that_it_may_hold),
        cmocka_unit_test(a_job_that_comes_back_unfinished_holds_no_result),
        cmocka_unit_test(a_result_of_more_values_than_can_be_read_fails_its_job),
        cmocka_unit_test(a_job_past_its_deadline_stops_within_one_step_and_the_others_go_on),
        cmocka_unit_test(urgent_jobs_run_first_and_answer_the_same),
        cmocka_unit_test(a_lost_device_harms_no_job),
        cmocka_unit_test(an_old_job_is_not_passed_over_for_ever),
        cmocka_unit_test(stop_strings_end_an_answer_across_tokens_and_are_not_part_of_it),
        cmocka_unit_test(a_row_behind_the_last_token_shows_nowhere),
        cmocka_unit_test(rows_have_tokens_that_nobody_knew),
    };
    int n_failed = cmocka_run_group_tests_name("step by step", tests, NULL, NULL);
    ahead = true;
    return n_failed + cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}

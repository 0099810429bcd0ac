// A batcher with the fake model (tests/support/fake_model.h), jobs for it, and a check of their answers.
#pragma once

#include "tests/support/cases.h"
#include "tests/support/fake_model.h"

static bool ahead; // how the tests run now
// NULL: constraints are compiled as ever
static void (*bench_compile)(struct compiled_constraint *entry, struct constraint_cache *cache);
static int64_t n_rows_ahead;              // of all tests
static int32_t bench_drafts;              // n_drafts_fixed
static struct answer_format bench_format; // of chats; without thoughts there is no template

struct bench {
    struct fake_model *model;
    struct pool *pool;
    struct batcher *batcher;
    struct job_list finished;
    int64_t prefill, decode, preempted, forced, generated, drafted, accepted;
};

static inline struct bench bench_open_at(struct batch_limits limits, int64_t (*wall_clock_us)(void))
{
    struct bench bench = {.model = fake_model_create(limits.n_pages, limits.page_positions)};
    struct error error;
    if (limits.n_state_slots)
        fake_model_keep_states(bench.model, limits.n_state_slots);
    assert_ok(pool_create(&bench.pool, 2, &error), &error);
    struct batcher_config config = {
        .executor = ahead ? fake_model_executor_ahead(bench.model) : fake_model_executor(bench.model),
        .pool = bench.pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 100, .n_vocab = FAKE_VOCAB},
        .environment.chat_template =
            bench_format.thinking ? (const struct template *)(const void *)&bench_format : NULL,
        .environment.chat_format = bench_format,
        .limits = limits,
        .n_drafts_fixed = bench_drafts,
        .compile = bench_compile,
        .wall_clock_us = wall_clock_us};
    assert_ok(batcher_create(&bench.batcher, &config, &error), &error);
    return bench;
}

static inline struct bench bench_open(struct batch_limits limits)
{
    return bench_open_at(limits, NULL);
}

static inline void bench_close(struct bench *bench)
{
    for (struct job *job; (job = job_list_take(&bench->finished));)
        job_destroy(job);
    batcher_destroy(bench->batcher);
    pool_destroy(bench->pool);
    n_rows_ahead += fake_model_rows_ahead(bench->model);
    fake_model_destroy(bench->model);
}

static inline struct job *job_of(const int32_t *tokens, int32_t n, int32_t max_tokens, const char *id)
{
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_text(job, &job->job_id, text_from_string(id)));
    assert_true(job_set_text(job, &job->dataset, TEXT("test")));
    job->request.prompt.kind = PROMPT_TOKENS;
    job->request.prompt.tokens = arena_allocate_array(&job->arena, (size_t)n + 1, sizeof *tokens);
    memcpy(job->request.prompt.tokens, tokens, (size_t)n * sizeof *tokens);
    job->request.prompt.n_tokens = n;
    job->request.stop.max_tokens = max_tokens;
    job->request.sampling.seed = 5;
    return job;
}

static inline void run_to_end(struct bench *bench)
{
    struct error error;
    for (int round = 0; !batcher_is_empty(bench->batcher); round++) {
        struct step_figures figures;
        assert_ok(batcher_round(bench->batcher, &bench->finished, &figures, &error), &error);
        bench->prefill += figures.prefill_tokens;
        bench->decode += figures.decode_tokens;
        bench->preempted += figures.n_preempted;
        bench->forced += figures.n_forced;
        bench->generated += figures.n_generated;
        bench->drafted += figures.n_drafted;
        bench->accepted += figures.n_accepted;
        assert_true(round < 200000);
    }
}

static inline void check_answer(const struct job *job)
{
    const struct request *request = &job->request;
    assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(job->result.n_choices, request->n);
    int32_t *answer = malloc(((size_t)request->stop.max_tokens + 1) * sizeof *answer);
    char *text = malloc((size_t)request->stop.max_tokens + 1);
    int32_t n_counted = 0; // the token that ends an answer is in the usage, and in nothing else
    for (int32_t i = 0; i < request->n; i++) {
        int32_t n =
            fake_model_answer(request->prompt.tokens, request->prompt.n_tokens, request->sampling.seed,
                              (uint32_t)i, request->stop.max_tokens, request->stop.ignore_eos, answer);
        const struct choice *choice = &job->result.choices[i];
        fake_model_text(answer, n, text);
        assert_int_equal(choice->n_tokens, n);
        assert_int_equal(choice->text.size, n);
        assert_memory_equal(choice->text.data, text, (size_t)n);
        assert_int_equal(choice->finish_reason, n < request->stop.max_tokens ? FINISH_STOP : FINISH_LENGTH);
        n_counted += n + (n < request->stop.max_tokens);
    }
    assert_int_equal(job->result.completion_tokens, n_counted);
    free(answer);
    free(text);
}

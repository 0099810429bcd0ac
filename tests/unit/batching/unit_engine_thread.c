// The engine thread (batching/engine_thread.h): the reports of its rounds, with the test's own clock.
#include "batching/engine_thread.h"
#include "tests/support/cases.h"
#include "tests/support/fake_model.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t clock_ms;      // what the clock says
static _Atomic int64_t ms_for_a_look; // its advance with each reading

int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, t);
    int64_t now = atomic_fetch_add(&clock_ms, ms_for_a_look);
    *t = (struct timespec){.tv_sec = now / 1000, .tv_nsec = now % 1000 * 1000000};
    return 0;
}

static atomic_bool no_round; // no memory is left for one

void *__real_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return no_round && size == sizeof(struct round) ? NULL : __real_calloc(n, size);
}

struct rounds {
    int n_rounds, n_reports, n_finished;
    bool is_last_reported;
    struct job_figures figures; // the job's
};

enum { N_TOKENS = 40 };

static struct job *make_job(int32_t partition)
{
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_text(job, &job->job_id, TEXT("job")) &&
                job_set_text(job, &job->dataset, TEXT("test")));
    job->source.partition = partition;
    job->request.prompt.kind = PROMPT_TOKENS;
    job->request.prompt.tokens = arena_allocate_array(&job->arena, 1, sizeof *job->request.prompt.tokens);
    assert_non_null(job->request.prompt.tokens);
    job->request.prompt.tokens[0] = 20;
    job->request.prompt.n_tokens = 1;
    job->request.stop.max_tokens = N_TOKENS;
    job->request.stop.ignore_eos = true;
    return job;
}

static struct rounds take_rounds(struct engine_thread *thread)
{
    struct rounds rounds = {0};
    struct queue *outbox = engine_thread_outbox(thread);
    for (struct round *round; (round = queue_pop(outbox)); round_destroy(round)) {
        assert_int_equal(round->error.status, STATUS_OK);
        rounds.n_rounds++;
        rounds.n_reports += round->prefixes != NULL;
        rounds.is_last_reported = round->prefixes != NULL;
        if (round->prefixes)
            assert_int_equal(round->prefixes->n_lookups, 1);
        for (struct job *job; (job = job_list_take(&round->finished)); job_destroy(job)) {
            rounds.n_finished++;
            rounds.figures = job->figures;
        }
    }
    return rounds;
}

static struct fake_model *model;
static struct pool *pool;
static struct batcher *batcher;

static void create_batcher(int32_t n_sequences_max)
{
    struct error error;
    model = fake_model_create(50, 16);
    assert_ok(pool_create(&pool, 1, &error), &error);
    struct batcher_config config = {
        .executor = fake_model_executor(model),
        .pool = pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
        .limits = {.n_sequences_max = n_sequences_max,
                   .n_tokens_max = 16,
                   .n_jobs_max = 10,
                   .n_pages = 50,
                   .page_positions = 16}};
    assert_ok(batcher_create(&batcher, &config, &error), &error);
}

static void destroy_batcher(void)
{
    batcher_destroy(batcher);
    pool_destroy(pool);
    fake_model_destroy(model);
}

// The rounds of one job, a token each.
static struct rounds run_job(int64_t start_ms, int64_t step_ms)
{
    struct engine_thread *thread;
    struct error error;
    clock_ms = start_ms;
    ms_for_a_look = step_ms;
    create_batcher(4);
    assert_ok(engine_thread_start(&thread, batcher_base(batcher), &error), &error);
    struct order *order = order_create(ORDER_JOBS);
    job_list_append(&order->jobs, make_job(0));
    assert_true(queue_push(engine_thread_inbox(thread), order));
    queue_close(engine_thread_inbox(thread));
    struct rounds rounds = take_rounds(thread);
    engine_thread_join(thread);
    destroy_batcher();
    assert_int_equal(rounds.n_finished, 1);
    assert_int_equal(rounds.n_rounds, N_TOKENS);
    assert_true(rounds.is_last_reported);
    return rounds;
}

TEST(prefixes_are_reported_once_an_interval_and_at_the_end)
{
    assert_int_equal(run_job(PREFIX_REPORT_INTERVAL_MS, 0).n_reports, 2); // the first round and the last
    assert_int_equal(run_job(PREFIX_REPORT_INTERVAL_MS - 1, 0).n_reports, 1);
    assert_int_equal(run_job(PREFIX_REPORT_INTERVAL_MS, PREFIX_REPORT_INTERVAL_MS).n_reports, N_TOKENS);
    int n = run_job(PREFIX_REPORT_INTERVAL_MS, PREFIX_REPORT_INTERVAL_MS / 20).n_reports;
    assert_in_range(n, 3, N_TOKENS - 1);
}

TEST(times_of_a_job_go_by_the_clock_over_whole_seconds_and_parts)
{
    enum { STEP_MS = 170 };
    struct job_figures figures = run_job(10000, 0).figures;
    assert_true(figures.queued_us == 0 && figures.prefill_us == 0 && figures.decode_us == 0);
    figures = run_job(10000, STEP_MS).figures;
    assert_true(figures.queued_us >= STEP_MS * 1000 && figures.prefill_us >= STEP_MS * 1000);
    assert_true(figures.decode_us >= (N_TOKENS - 1) * STEP_MS * 1000);
    assert_int_equal((figures.queued_us + figures.prefill_us + figures.decode_us) % (STEP_MS * 1000), 0);
}

// ---- releasing ----

// Takes the jobs from the list: their partitions' digits, ascending.
static void drop_jobs(struct job_list *list, char *partitions)
{
    int n_of[10] = {0};
    for (struct job *job; (job = job_list_take(list)); job_destroy(job))
        n_of[job->source.partition]++;
    for (int i = 0; i < 10; i++)
        while (n_of[i]-- > 0)
            *partitions++ = (char)('0' + i);
    *partitions = '\0';
}

TEST(waiting_jobs_are_released_by_partition)
{
    struct job_list finished = {0}, released = {0};
    struct step_figures figures;
    struct error error;
    char partitions[16];
    create_batcher(1);
    for (int32_t i = 0; i < 4; i++) // one runs, three wait
        batcher_take(batcher, make_job(1 + i % 2));
    assert_ok(batcher_round(batcher, &finished, &figures, &error), &error);
    for (int32_t i = 0; i < 4; i++) // not prepared yet
        batcher_take(batcher, make_job(i));
    batcher_release_partitions(batcher, &(struct partition_ids){(int32_t[]){0, 1, 4}, 3}, &released);
    drop_jobs(&released, partitions);
    assert_string_equal(partitions, "011");
    batcher_release_partitions(batcher, &(struct partition_ids){NULL, 0}, &released);
    assert_int_equal(released.n_jobs, 0);
    while (!batcher_is_empty(batcher))
        assert_ok(batcher_round(batcher, &finished, &figures, &error), &error);
    drop_jobs(&finished, partitions);
    assert_string_equal(partitions, "12223");
    destroy_batcher();
}

TEST(an_order_releases_waiting_jobs_by_partition)
{
    struct engine_thread *thread;
    struct job_list finished = {0}, released = {0};
    struct error error;
    char partitions[16];
    create_batcher(1);
    fake_model_hold(model); // no job is finished before the order is read
    assert_ok(engine_thread_start(&thread, batcher_base(batcher), &error), &error);
    struct order *order = order_create(ORDER_JOBS);
    for (int32_t i = 0; i < 4; i++)
        job_list_append(&order->jobs, make_job(i % 2));
    assert_true(queue_push(engine_thread_inbox(thread), order));
    assert_true(queue_push(engine_thread_inbox(thread), order_release_create((const int32_t[]){1}, 1)));
    fake_model_release(model);
    queue_close(engine_thread_inbox(thread));
    for (struct round *round; (round = queue_pop(engine_thread_outbox(thread))); round_destroy(round)) {
        for (struct job *job; (job = job_list_take(&round->finished));)
            job_list_append(&finished, job);
        for (struct job *job; (job = job_list_take(&round->released));)
            job_list_append(&released, job);
    }
    engine_thread_join(thread);
    drop_jobs(&finished, partitions);
    assert_string_equal(partitions, "00");
    drop_jobs(&released, partitions);
    assert_string_equal(partitions, "11");
    destroy_batcher();
}

TEST(an_engine_without_memory_for_a_round_gives_all_jobs_back_and_ends)
{
    struct engine_thread *thread;
    struct job_list released = {0};
    struct error error;
    char partitions[16];
    int n_rounds = 0;
    create_batcher(4);
    assert_ok(engine_thread_start(&thread, batcher_base(batcher), &error), &error);
    no_round = true;
    struct order *order = order_create(ORDER_JOBS);
    for (int32_t i = 0; i < 3; i++)
        job_list_append(&order->jobs, make_job(i));
    assert_true(queue_push(engine_thread_inbox(thread), order));
    for (struct round *round; (round = queue_pop(engine_thread_outbox(thread))); round_destroy(round)) {
        assert_int_equal(round->error.status, STATUS_RESTART);
        assert_int_equal(round->error.code, ERROR_OUT_OF_MEMORY);
        for (struct job *job; (job = job_list_take(&round->released));)
            job_list_append(&released, job);
        n_rounds++;
    }
    engine_thread_join(thread);
    no_round = false;
    assert_int_equal(n_rounds, 1);
    drop_jobs(&released, partitions);
    assert_string_equal(partitions, "012");
    destroy_batcher();
}

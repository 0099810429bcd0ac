// Equal workers of one store answer equal shares of equal jobs: claims as a worker's loop makes them
// (consumer/worker/ahead.h, store/claim_limit.h), without a clock.
#include "consumer/worker/ahead.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

enum { N_JOBS = 1000, WORKERS_MAX = 5, BATCH_MAX = 64 };

struct equal_worker {
    struct store *store;
    struct ahead ahead;
    struct job *held[3 * BATCH_MAX];
    size_t n_held;
    int n_answers, n_batches;
};

static void open_workers(struct equal_worker *workers, int n_workers, int n_batch)
{
    for (int i = 0; i < n_workers; i++) {
        workers[i] = (struct equal_worker){.store = open_store(true)};
        workers[i].store->claiming.n_batch = n_batch;
        ahead_init(&workers[i].ahead, n_batch, 2048);
    }
    for (int i = 0; i < N_JOBS; i += 50)
        submit(workers[0].store, "d", i, 50);
}

static void claim_until_none(struct equal_worker *worker)
{
    size_t n;
    do {
        size_t room = (size_t)worker->ahead.limit - worker->n_held;
        struct claims claims = claim(worker->store, "d", room < 64 ? room : 64);
        n = claims.n;
        memcpy(worker->held + worker->n_held, claims.jobs, n * sizeof *claims.jobs);
        worker->n_held += n;
    } while (n > 0);
}

static void end_jobs(struct equal_worker *worker, size_t n)
{
    struct claims claims = {.n = n < worker->n_held ? n : worker->n_held};
    n = claims.n;
    memcpy(claims.jobs, worker->held, n * sizeof *claims.jobs);
    memmove(worker->held, worker->held + n, (worker->n_held - n) * sizeof *worker->held);
    worker->n_held -= n;
    worker->n_answers += (int)finish_claims(worker->store, &claims);
    worker->n_batches += n > 0;
    drop(&claims);
    ahead_committed(&worker->ahead, (int64_t)n, 1); // no time passes: no more than two batches ahead
}

static int64_t count_unfinished(struct store *store)
{
    struct dataset_progress progress = progress_of(store, "d");
    return progress.submitted - progress.done;
}

// Full batches end one after the other.
static void share_equal_jobs(int n_workers, int n_batch)
{
    struct equal_worker workers[WORKERS_MAX];
    open_workers(workers, n_workers, n_batch);
    for (int i = 0; i < n_workers; i++)
        claim_until_none(&workers[i]);
    while (count_unfinished(workers[0].store) > 0)
        for (int i = 0; i < n_workers; i++) {
            end_jobs(&workers[i], (size_t)n_batch);
            claim_until_none(&workers[i]);
        }
    int n_least = (N_JOBS + n_workers * n_batch - 1) / (n_workers * n_batch);
    for (int i = 0; i < n_workers; i++) {
        print_message("worker %d of %d: %d jobs in %d batches of at most %d\n", i + 1, n_workers,
                      workers[i].n_answers, workers[i].n_batches, n_batch);
        assert_in_range(workers[i].n_answers * n_workers, N_JOBS * 9 / 10, N_JOBS * 11 / 10);
        assert_in_range(workers[i].n_batches, 1, n_least + 1); // the last pieces are not many
        store_close(workers[i].store);
    }
}

TEST(equal_workers_answer_equal_shares_of_equal_jobs)
{
    for (int n_workers = 2; n_workers <= WORKERS_MAX; n_workers++)
        for (int n_batch = 16; n_batch <= BATCH_MAX && n_workers * n_batch * 5 <= N_JOBS; n_batch *= 2) {
            fresh_path(state);
            share_equal_jobs(n_workers, n_batch);
        }
}

// A few jobs of each batch end at a time.
TEST_WITH(batches_stay_full_until_the_last_jobs_are_claimed, fresh_path, NULL)
{
    enum { N_WORKERS = 3, N_ENDED = 4 };
    struct equal_worker workers[N_WORKERS];
    open_workers(workers, N_WORKERS, BATCH_MAX);
    for (int i = 0; i < N_WORKERS; i++)
        claim_until_none(&workers[i]);
    int64_t n_free = N_JOBS - N_WORKERS * BATCH_MAX;
    while (n_free > 0)
        for (int i = 0; i < N_WORKERS; i++) {
            bool are_enough = n_free >= N_WORKERS * N_ENDED;
            end_jobs(&workers[i], N_ENDED);
            int64_t n_held = -(int64_t)workers[i].n_held;
            claim_until_none(&workers[i]);
            n_free -= n_held + (int64_t)workers[i].n_held;
            assert_true(!are_enough || workers[i].n_held >= BATCH_MAX);
        }
    for (int i = 0; i < N_WORKERS; i++) {
        while (workers[i].n_held > 0)
            end_jobs(&workers[i], BATCH_MAX);
        store_close(workers[i].store);
    }
}

static void open_two(struct equal_worker workers[2])
{
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct equal_worker){.store = open_store(true)};
        workers[i].store->claiming.n_batch = BATCH_MAX;
        ahead_init(&workers[i].ahead, BATCH_MAX, 2048);
    }
}

static void submit_to_two(struct equal_worker workers[2], int first, int n)
{
    submit(workers[0].store, "d", first, n);
    for (int i = 0; i < 2; i++)
        claim_until_none(&workers[i]);
}

static void end_two(struct equal_worker workers[2])
{
    for (int i = 0; i < 2; i++) {
        end_jobs(&workers[i], BATCH_MAX);
        claim_until_none(&workers[i]); // as a worker does after each commit
    }
}

TEST_WITH(few_jobs_are_computed_in_one_batch_of_each_worker, fresh_path, NULL)
{
    struct equal_worker workers[2];
    open_two(workers);
    for (int round = 0; round < 3; round++) { // the workers have answered jobs before, or not
        submit_to_two(workers, 10 * round, 10);
        assert_int_equal(workers[0].n_held, 5);
        assert_int_equal(workers[1].n_held, 5);
        end_two(workers);
    }
    store_close(workers[0].store);
    store_close(workers[1].store);
}

TEST_WITH(jobs_that_are_submitted_later_do_not_wait_for_the_end_of_a_long_one, fresh_path, NULL)
{
    struct equal_worker workers[2];
    open_two(workers);
    for (size_t n = 1; n < 20; n++) {
        submit_to_two(workers, 2 * (int)n, 2);
        assert_int_equal(workers[0].n_held, n);
        assert_int_equal(workers[1].n_held, n);
    }
    end_two(workers);
    store_close(workers[0].store);
    store_close(workers[1].store);
}

GROUP_FIXTURE(make_folder, remove_folder);

// The pool. A run publishes its task, then fills one range of indices per thread: a 64-bit atomic with the
// begin in the low half and the end in the high half. The owner takes indices one by one from the front, a
// thief from the back, both by compare-and-swap, so each index is taken once. Only the caller fills ranges,
// and only when all indices of the previous run are taken. A run ends only after each taken index is done, so
// a thread that takes an index always reads the task of that run, however late it woke.
//
// Tried: a thief that takes several indices either keeps them from other threads or needs a range of its own.
// The next run would then have to wait for a thread that still fills a range, which costs a time slice on a
// busy machine.
//
// `left` counts indices that are not done yet. Idle threads watch `runs`, first spinning, then under the
// mutex.
//
// Background tasks are a list under the mutex. A thread takes a background task when it finds no index, and
// looks for indices again after each one. Starting a background task changes `runs` too, which wakes idle
// threads.
#include "schemas/base/pool.h"

#include "schemas/base/clock.h"
#include "schemas/base/machine.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define SPIN_PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define SPIN_PAUSE() __asm__ volatile("yield")
#else
#define SPIN_PAUSE() ((void)0)
#endif

// Spinning lasts longer than the serial code between the loops of a step, but not as long as a scheduler's
// time slice.
enum { SPIN_NS = 100000, SPIN_PAUSES = 32, CACHE_LINE = 64 };

struct pool_thread {
    _Alignas(CACHE_LINE) _Atomic uint64_t range;
    struct pool *pool;
    int index;
    pthread_t thread;
};

struct pool {
    int n_threads;
    struct pool_thread *threads; // [n_threads]; entry 0 is the caller
    void (*task)(void *context, int index, int thread);
    void *context;

    _Alignas(CACHE_LINE) _Atomic uint64_t runs; // changes when a run or task starts, or the pool stops
    atomic_bool stopping;
    _Alignas(CACHE_LINE) atomic_int left;
    _Alignas(CACHE_LINE) atomic_int n_sleeping;
    atomic_bool caller_sleeping;
    pthread_mutex_t mutex;
    pthread_cond_t run_started, run_done, task_done;

    struct {
        struct pool_task *first, *last; // queued background tasks; protected by the mutex
        atomic_int n;
    } background;
};

static uint64_t range_make(uint32_t begin, uint32_t end)
{
    return (uint64_t)end << 32 | begin;
}

static uint32_t range_begin(uint64_t range)
{
    return (uint32_t)range;
}

static uint32_t range_end(uint64_t range)
{
    return (uint32_t)(range >> 32);
}

static bool take_front(struct pool_thread *thread, uint32_t *index)
{
    uint64_t range = atomic_load_explicit(&thread->range, memory_order_relaxed);
    while (range_begin(range) < range_end(range)) {
        uint64_t rest = range_make(range_begin(range) + 1, range_end(range));
        if (atomic_compare_exchange_weak_explicit(&thread->range, &range, rest, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *index = range_begin(range);
            return true;
        }
    }
    return false;
}

static bool steal_from(struct pool_thread *victim, uint32_t *index)
{
    uint64_t range = atomic_load_explicit(&victim->range, memory_order_relaxed);
    while (range_begin(range) < range_end(range)) {
        uint64_t rest = range_make(range_begin(range), range_end(range) - 1);
        if (atomic_compare_exchange_weak_explicit(&victim->range, &range, rest, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *index = range_end(rest);
            return true;
        }
    }
    return false;
}

static void wake_caller(struct pool *pool)
{
    if (!atomic_load(&pool->caller_sleeping))
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->run_done);
    pthread_mutex_unlock(&pool->mutex);
}

static void count_done(struct pool *pool, int n_done)
{
    if (n_done > 0 && atomic_fetch_sub(&pool->left, n_done) == n_done)
        wake_caller(pool);
}

static void run_tasks(struct pool *pool, struct pool_thread *thread)
{
    int n_done = 0;
    uint32_t index;
    while (take_front(thread, &index)) {
        pool->task(pool->context, (int)index, thread->index);
        n_done++;
    }
    for (int i = 1; i < pool->n_threads; i++) {
        struct pool_thread *victim = &pool->threads[(thread->index + i) % pool->n_threads];
        while (steal_from(victim, &index)) {
            pool->task(pool->context, (int)index, thread->index);
            n_done++;
        }
    }
    count_done(pool, n_done);
}

// Runs the first queued task. The caller holds the mutex; it is released while the task runs.
static void run_first_task(struct pool *pool)
{
    struct pool_task *task = pool->background.first;
    pool->background.first = task->next;
    atomic_fetch_sub(&pool->background.n, 1);
    pthread_mutex_unlock(&pool->mutex);
    task->run(task->context);
    pthread_mutex_lock(&pool->mutex);
    task->is_done = true;
    pthread_cond_signal(&pool->task_done); // only the caller waits for it
}

// Runs one background task. False: none is queued.
static bool run_background_task(struct pool *pool)
{
    if (atomic_load(&pool->background.n) == 0)
        return false;
    pthread_mutex_lock(&pool->mutex);
    bool found = pool->background.first != NULL;
    if (found)
        run_first_task(pool);
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

// Waits until `runs` differs from `seen`.
static void wait_for_run(struct pool *pool, uint64_t seen)
{
    int64_t deadline_ns = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (atomic_load_explicit(&pool->runs, memory_order_acquire) != seen)
                return;
            SPIN_PAUSE();
        }
    } while (clock_ns() < deadline_ns);

    // The sleeper increments the count, then reads `runs`. The caller changes `runs`, then reads the count.
    // Both are sequentially consistent, so at least one of them sees the other.
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while (atomic_load(&pool->runs) == seen)
        pthread_cond_wait(&pool->run_started, &pool->mutex);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_done(struct pool *pool)
{
    int64_t deadline_ns = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0)
                return;
            SPIN_PAUSE();
        }
    } while (clock_ns() < deadline_ns);

    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeping, true);
    while (atomic_load(&pool->left) != 0)
        pthread_cond_wait(&pool->run_done, &pool->mutex);
    atomic_store(&pool->caller_sleeping, false);
    pthread_mutex_unlock(&pool->mutex);
}

static void announce_run(struct pool *pool)
{
    atomic_fetch_add(&pool->runs, 1);
    if (atomic_load(&pool->n_sleeping) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->run_started);
    pthread_mutex_unlock(&pool->mutex);
}

static void *thread_main(void *argument)
{
    struct pool_thread *thread = argument;
    struct pool *pool = thread->pool;
    uint64_t seen = 0;
    for (;;) {
        wait_for_run(pool, seen);
        seen = atomic_load_explicit(&pool->runs, memory_order_acquire);
        if (atomic_load_explicit(&pool->stopping, memory_order_acquire))
            return NULL;
        do
            run_tasks(pool, thread);
        while (run_background_task(pool));
    }
}

static bool thread_start(struct pool_thread *thread)
{
    if (pthread_create(&thread->thread, NULL, thread_main, thread) != 0)
        return false;
    char name[16];
    snprintf(name, sizeof name, "sheaf-pool-%d", thread->index % POOL_THREADS_MAX);
    pthread_setname_np(thread->thread, name);
    return true;
}

// Starts threads with all signals masked, so that only the main thread handles signals. SIGBUS stays
// unmasked, because a task gets it when it reads a mapped file that was truncated
// (consumer/worker/bus_error.h).
static int threads_start(struct pool *pool, int n_threads)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int n_started = 1;
    while (n_started < n_threads && thread_start(&pool->threads[n_started]))
        n_started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n_started;
}

enum status pool_create(struct pool **out, int n_threads, struct error *error)
{
    assert(n_threads >= 0 && n_threads <= POOL_THREADS_MAX);
    if (n_threads == 0)
        n_threads = machine_n_cores();
    if (n_threads > POOL_THREADS_MAX)
        n_threads = POOL_THREADS_MAX;
    *out = NULL;
    struct pool *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    struct pool_thread *threads = aligned_alloc(CACHE_LINE, (size_t)n_threads * sizeof *threads);
    if (!pool || !threads) {
        free(pool);
        free(threads);
        return error_memory(error, STATUS_REFUSE, "a pool of %d threads", n_threads);
    }
    memset(pool, 0, sizeof *pool);
    memset(threads, 0, (size_t)n_threads * sizeof *threads);
    pool->n_threads = n_threads;
    pool->threads = threads;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->run_started, NULL);
    pthread_cond_init(&pool->run_done, NULL);
    pthread_cond_init(&pool->task_done, NULL);
    for (int i = 0; i < n_threads; i++) {
        threads[i].pool = pool;
        threads[i].index = i;
    }
    int n_started = threads_start(pool, n_threads);
    *out = pool;
    if (n_started < n_threads) {
        pool->n_threads = n_started;
        pool_destroy(pool);
        *out = NULL;
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "cannot start %d threads: got %d",
                         n_threads, n_started);
    }
    return STATUS_OK;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    assert(!pool->background.first);
    atomic_store(&pool->stopping, true);
    announce_run(pool);
    for (int i = 1; i < pool->n_threads; i++)
        pthread_join(pool->threads[i].thread, NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->run_started);
    pthread_cond_destroy(&pool->run_done);
    pthread_cond_destroy(&pool->task_done);
    free(pool->threads);
    free(pool);
}

int pool_n_threads(const struct pool *pool)
{
    return pool->n_threads;
}

void pool_run(struct pool *pool, int n_tasks, void (*task)(void *context, int index, int thread),
              void *context)
{
    if (pool->n_threads == 1 || n_tasks <= 1) {
        for (int i = 0; i < n_tasks; i++)
            task(context, i, 0);
        return;
    }
    pool->task = task;
    pool->context = context;
    atomic_store(&pool->left, n_tasks);
    int64_t n_threads = pool->n_threads;
    for (int64_t i = 0; i < n_threads; i++) {
        uint32_t begin = (uint32_t)(n_tasks * i / n_threads), end = (uint32_t)(n_tasks * (i + 1) / n_threads);
        atomic_store_explicit(&pool->threads[i].range, range_make(begin, end), memory_order_release);
    }
    announce_run(pool);
    run_tasks(pool, &pool->threads[0]);
    wait_for_done(pool);
}

void pool_start(struct pool *pool, struct pool_task *task)
{
    task->next = NULL;
    task->is_done = false;
    pthread_mutex_lock(&pool->mutex);
    if (pool->background.first)
        pool->background.last->next = task;
    else
        pool->background.first = task;
    pool->background.last = task;
    atomic_fetch_add(&pool->background.n, 1);
    pthread_mutex_unlock(&pool->mutex);
    announce_run(pool);
}

void pool_wait(struct pool *pool, struct pool_task *task)
{
    pthread_mutex_lock(&pool->mutex);
    while (!task->is_done)
        if (pool->background.first)
            run_first_task(pool);
        else
            pthread_cond_wait(&pool->task_done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

// The pool: every index once, for all sizes and sequences of runs; results are visible to the caller.
#include "schemas/base/clock.h"
#include "schemas/base/machine.h"
#include "schemas/base/pool.h"
#include "tests/support/cases.h"
#include "tests/support/thread_names.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pool *pool_make(int n_threads)
{
    struct pool *pool;
    struct error error;
    assert_ok(pool_create(&pool, n_threads, &error), &error);
    return pool;
}

struct counts {
    int n_threads;
    atomic_int *calls;
    int *plain; // written without atomics: the pool must order it before the caller's reading
    atomic_bool bad_thread;
};

static void count_call(void *context, int index, int thread)
{
    struct counts *counts = context;
    atomic_fetch_add(&counts->calls[index], 1);
    counts->plain[index] = index + 1;
    if (thread < 0 || thread >= counts->n_threads)
        atomic_store(&counts->bad_thread, true);
}

static void check_run(struct pool *pool, int n_tasks)
{
    struct counts counts = {.n_threads = pool_n_threads(pool)};
    counts.calls = calloc((size_t)n_tasks + 1, sizeof *counts.calls);
    counts.plain = calloc((size_t)n_tasks + 1, sizeof *counts.plain);
    pool_run(pool, n_tasks, count_call, &counts);
    for (int i = 0; i < n_tasks; i++) {
        assert_int_equal(counts.calls[i], 1);
        assert_int_equal(counts.plain[i], i + 1);
    }
    assert_int_equal(counts.calls[n_tasks], 0);
    assert_false(counts.bad_thread);
    free(counts.calls);
    free(counts.plain);
}

TEST(every_index_runs_exactly_once)
{
    static const int threads[] = {1, 2, 3, 8, 33}, sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 1000, 20011};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct pool *pool = pool_make(threads[t]);
        assert_int_equal(pool_n_threads(pool), threads[t]);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check_run(pool, sizes[s]);
        pool_destroy(pool);
    }
}

static void add_index(void *context, int index, int thread)
{
    atomic_fetch_add((_Atomic int64_t *)context, index + 1);
}

// Late threads of one run meet the next one.
TEST(runs_follow_one_another_without_losing_an_index)
{
    for (int n_threads = 2; n_threads <= 5; n_threads++) {
        struct pool *pool = pool_make(n_threads);
        for (int run = 0; run < 20000; run++) {
            _Atomic int64_t sum = 0;
            int64_t n = run % 37;
            pool_run(pool, (int)n, add_index, &sum);
            assert_int_equal(sum, n * (n + 1) / 2);
        }
        pool_destroy(pool);
    }
}

struct uneven {
    atomic_int n_done;
    int long_index;
};

// One task waits for all others: threads must take over the rest of its range.
static void wait_for_others(void *context, int index, int thread)
{
    struct uneven *uneven = context;
    if (index == uneven->long_index)
        while (atomic_load(&uneven->n_done) < 99)
            sched_yield();
    atomic_fetch_add(&uneven->n_done, 1);
}

TEST(a_long_task_does_not_hold_up_the_others)
{
    struct pool *pool = pool_make(4);
    for (int i = 0; i < 100; i++) {
        struct uneven uneven = {.long_index = i};
        pool_run(pool, 100, wait_for_others, &uneven);
        assert_int_equal(uneven.n_done, 100);
    }
    pool_destroy(pool);
}

struct thread_meeting {
    atomic_int n_inside;
    int n_wanted;
};

static void meet(void *context, int index, int thread)
{
    struct thread_meeting *meeting = context;
    atomic_fetch_add(&meeting->n_inside, 1);
    while (atomic_load(&meeting->n_inside) < meeting->n_wanted)
        sched_yield();
}

// Each task waits for all others, so every thread must wake, also after having gone to sleep.
TEST(sleeping_threads_wake_for_a_run)
{
    struct pool *pool = pool_make(3);
    for (int round = 0; round < 5; round++) {
        struct thread_meeting meeting = {.n_wanted = 3};
        pool_run(pool, 3, meet, &meeting);
        assert_int_equal(meeting.n_inside, 3);
        int64_t began_us = clock_us(); // longer than threads spin: they sleep when the next run begins
        while (clock_us() - began_us < 2000)
            ;
    }
    pool_destroy(pool);
}

struct beside {
    struct pool_task task;
    int n_runs;           // written without atomics: pool_wait orders it before the caller's reading
    atomic_bool *is_open; // waits for it; NULL: for nothing
};

static void run_beside(void *context)
{
    struct beside *beside = context;
    while (beside->is_open && !atomic_load(beside->is_open))
        sched_yield();
    beside->n_runs++;
}

TEST(background_tasks_run_once_each_beside_the_loops)
{
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        struct pool *pool = pool_make(n_threads);
        for (int round = 0; round < 2000; round++) {
            struct beside tasks[7];
            int n = round % 8;
            for (int i = 0; i < n; i++) {
                tasks[i] = (struct beside){.task = {.run = run_beside, .context = &tasks[i]}};
                pool_start(pool, &tasks[i].task);
            }
            for (int i = 0; i < round % 3; i++)
                check_run(pool, 20);
            for (int i = 0; i < n; i++) {
                int which = round % 2 ? i : n - 1 - i;
                pool_wait(pool, &tasks[which].task);
                assert_int_equal(tasks[which].n_runs, 1);
            }
        }
        pool_destroy(pool);
    }
}

static void open_gate(void *context, int index, int thread)
{
    if (index == 99)
        atomic_store((atomic_bool *)context, true);
}

// The loop does not need a thread whose task ends after the loop.
TEST(a_loop_does_not_wait_for_background_tasks)
{
    struct pool *pool = pool_make(2);
    for (int round = 0; round < 200; round++) {
        atomic_bool is_open = false;
        struct beside first = {.task = {.run = run_beside, .context = &first}, .is_open = &is_open};
        struct beside last = {.task = {.run = run_beside, .context = &last}};
        pool_start(pool, &first.task);
        pool_start(pool, &last.task);
        pool_run(pool, 100, open_gate, &is_open);
        pool_wait(pool, &last.task);
        pool_wait(pool, &first.task);
        assert_int_equal(first.n_runs + last.n_runs, 2);
    }
    pool_destroy(pool);
}

static void set_flag(void *context)
{
    atomic_store((atomic_bool *)context, true);
}

// Also by threads that sleep.
TEST(background_tasks_start_without_the_caller)
{
    struct pool *pool = pool_make(2);
    for (int round = 0; round < 5; round++) {
        atomic_bool has_run = false;
        struct pool_task task = {.run = set_flag, .context = &has_run};
        pool_start(pool, &task);
        while (!atomic_load(&has_run))
            sched_yield();
        pool_wait(pool, &task);
        int64_t began_us = clock_us();
        while (clock_us() - began_us < 2000)
            ;
    }
    pool_destroy(pool);
}

TEST(a_pool_that_never_ran_stops)
{
    for (int i = 0; i < 50; i++)
        pool_destroy(pool_make(1 + i % 9));
    pool_destroy(NULL);
}

TEST(threads_have_names)
{
    struct pool *pool = pool_make(3);
    assert_int_equal(threads_count("sheaf-pool-1"), 1);
    assert_int_equal(threads_count("sheaf-pool-2"), 1);
    pool_destroy(pool);
}

struct cut_file { // mapped, then truncated
    const volatile unsigned char *data;
    atomic_bool is_over; // never
};

static void read_beyond_the_file(void *context, int index, int thread)
{
    struct cut_file *cut = context;
    if (thread == 0) // the caller: the other thread takes the other index
        while (!atomic_load(&cut->is_over))
            sched_yield();
    else
        _exit(*cut->data); // not reached
}

static void end_by_handler(int signal)
{
    _exit(signal == SIGBUS ? 42 : 43);
}

// A thread that faults may not have blocked the signal: the kernel would end the process without its handler.
TEST(a_thread_s_bus_error_reaches_the_handler)
{
    struct cut_file cut = {0};
    int descriptor = fileno(tmpfile());
    assert_int_equal(ftruncate(descriptor, 4096), 0);
    cut.data = mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
    assert_true(cut.data != MAP_FAILED);
    assert_int_equal(ftruncate(descriptor, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, end_by_handler);
        pool_run(pool_make(2), 2, read_beyond_the_file, &cut);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    munmap((void *)cut.data, 4096);
}

TEST(the_largest_number_of_threads_starts)
{
    struct pool *pool = pool_make(POOL_THREADS_MAX);
    check_run(pool, 5000);
    pool_destroy(pool);
}

TEST(the_default_is_the_cores_the_process_may_use)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int n_cores = machine_n_cores();
    assert_in_range(n_cores, 1, CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(machine_n_cores(), 1);
    struct pool *pool = pool_make(0);
    assert_int_equal(pool_n_threads(pool), 1);
    pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(memory_is_known)
{
    assert_true(machine_available_bytes() > 0);
}

// The gate before the engine: no job is computed together with a suspect of two crashes.
#include "consumer/worker/gate.h"
#include "tests/support/cases.h"

enum { GROUP_MAX = 256 };

static struct gate gate;
static struct job *group[GROUP_MAX];
static enum suspect_state how;

static int close_gate(void **state)
{
    struct job_list list = {0};
    gate_empty(&gate, &list);
    for (struct job *job; (job = job_list_take(&list));)
        job_destroy(job);
    gate = (struct gate){0};
    return 0;
}

static void add_jobs(int n, int32_t crashes)
{
    for (int i = 0; i < n; i++) {
        struct job *job = job_create();
        assert_non_null(job);
        job->source.crashes = crashes;
        gate_add(&gate, job);
    }
}

// Lets the next group through; its jobs go to the list.
static size_t let_through(struct job_list *computed, bool all_committed)
{
    size_t n = gate_next(&gate, all_committed, group, GROUP_MAX, &how);
    if (n)
        gate_pass(&gate, n, how, computed);
    return n;
}

// One is returned by the engine. It remains in the gate until its commit.
static struct job *come_back(struct job_list *computed)
{
    struct job *job = job_list_take(computed);
    gate_left(&gate, job);
    return job;
}

TEST(a_lone_suspect_waits_until_the_engine_is_empty_and_all_is_committed)
{
    struct job_list computed = {0};
    add_jobs(2, 0);
    assert_int_equal(let_through(&computed, true), 2);
    add_jobs(1, GATE_ALONE_CRASHES);
    assert_int_equal(let_through(&computed, true), 0);
    job_destroy(come_back(&computed));
    assert_int_equal(let_through(&computed, true), 0); // one is still computed
    job_destroy(come_back(&computed));
    assert_int_equal(let_through(&computed, false), 0); // their results could be lost with it
    assert_int_equal(let_through(&computed, true), 1);
    assert_int_equal(how, SUSPECT_ALONE);
    job_destroy(come_back(&computed));
}

TEST(no_job_follows_a_lone_suspect_until_it_is_committed)
{
    struct job_list computed = {0};
    add_jobs(2, GATE_ALONE_CRASHES);
    assert_int_equal(let_through(&computed, true), 1);
    add_jobs(3, 0);
    add_jobs(3, 1);
    assert_int_equal(let_through(&computed, true), 0);
    struct job *first = come_back(&computed);
    assert_int_equal(let_through(&computed, true), 0); // finished, not committed
    gate_remove(&gate, first);
    job_destroy(first);
    assert_int_equal(let_through(&computed, true), 1); // the other suspect, before those without a crash
    assert_int_equal(how, SUSPECT_ALONE);
    struct job *second = come_back(&computed);
    gate_remove(&gate, second);
    job_destroy(second);
    assert_int_equal(let_through(&computed, true), 3);
    assert_int_equal(how, SUSPECT_AMONG_MANY);
    assert_int_equal(let_through(&computed, true), 3);
    assert_int_equal(how, SUSPECT_AMONG_FEW);
    while (computed.n_jobs)
        job_destroy(come_back(&computed));
}

TEST(suspects_of_one_crash_follow_when_half_of_them_are_back)
{
    struct job_list computed = {0};
    add_jobs(3 * GATE_FEW, 1);
    assert_int_equal(let_through(&computed, true), GATE_FEW);
    for (int i = 0; i < GATE_FEW / 2; i++) {
        assert_int_equal(let_through(&computed, true), 0);
        job_destroy(come_back(&computed));
    }
    assert_int_equal(let_through(&computed, true), GATE_FEW / 2);
    assert_int_equal(let_through(&computed, true), 0);
    while (computed.n_jobs)
        job_destroy(come_back(&computed));
}

TEST_FIXTURE(NULL, close_gate);

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

// ---- limits of datasets ----

static struct job *create_of(const char *dataset)
{
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_text(job, &job->dataset, text_from_string(dataset)));
    return job;
}

static struct job *add_of(const char *dataset)
{
    struct job *job = create_of(dataset);
    gate_add(&gate, job);
    return job;
}

static size_t count_passed(struct job_list *computed)
{
    size_t n = 0;
    for (size_t n_group; (n_group = let_through(computed, true));)
        n += n_group;
    return n;
}

static void leave(struct job_list *computed, struct job_list *left)
{
    struct job *job = job_list_take(computed);
    gate_left(&gate, job);
    gate_remove(&gate, job);
    job_list_append(left, job);
}

TEST(jobs_beyond_the_limit_of_their_dataset_are_held_and_others_pass)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 3};
    dataset_shares_add(&shares, TEXT("big"))->n_in_flight_max = 2;
    dataset_shares_add(&shares, TEXT("free"))->n_in_flight_max = 0;
    gate.limits = &shares;
    struct job_list computed = {0}, left = {0};
    for (int i = 0; i < 5; i++)
        add_of("big");
    for (int i = 0; i < 5; i++)
        add_of("other"), add_of("free");
    assert_int_equal(count_passed(&computed), 2 + 3 + 5);
    assert_int_equal(gate.held.n_jobs, 3 + 2);
    assert_true(text_equals_string(computed.first->dataset, "big"));
    leave(&computed, &left); // the next one of its dataset follows, no other
    assert_int_equal(gate.many.n_jobs, 1);
    assert_true(text_equals_string(gate.many.first->dataset, "big"));
    assert_int_equal(count_passed(&computed), 1);
    while (computed.n_jobs) {
        leave(&computed, &left);
        count_passed(&computed);
    }
    assert_int_equal(left.n_jobs, 15);
    assert_int_equal(gate.held.n_jobs, 0);
    assert_int_equal(gate.n_datasets, 0);
    while (left.n_jobs)
        job_destroy(job_list_take(&left));
}

TEST(a_cancelled_or_released_job_leaves_its_place_to_a_held_one)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 1};
    gate.limits = &shares;
    struct job *first = add_of("a");
    assert_true(job_set_id(first, TEXT("first")));
    add_of("a"), add_of("a");
    assert_int_equal(gate.held.n_jobs, 2);
    struct job_list list = {0}, computed = {0};
    gate_cancel(&gate, TEXT("a"), TEXT("first"), INT64_MAX, &list);
    assert_ptr_equal(job_list_take(&list), first);
    job_destroy(first);
    assert_int_equal(gate.held.n_jobs, 1);
    assert_int_equal(count_passed(&computed), 1);
    gate_empty(&gate, &list); // the held one too
    assert_int_equal(list.n_jobs, 1);
    assert_int_equal(gate.n_datasets, 1); // the one in the engine
    leave(&computed, &list);
    assert_int_equal(gate.n_datasets, 0);
    while (list.n_jobs)
        job_destroy(job_list_take(&list));
}

TEST(datasets_beyond_what_the_gate_counts_are_held_until_others_leave)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 1};
    gate.limits = &shares;
    for (int i = 0; i < GATE_DATASETS_MAX + 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        add_of(name);
    }
    assert_int_equal(gate.held.n_jobs, 2);
    struct job_list computed = {0}, left = {0};
    count_passed(&computed);
    assert_int_equal(computed.n_jobs, GATE_DATASETS_MAX);
    leave(&computed, &left);
    assert_int_equal(count_passed(&computed), 1);
    while (computed.n_jobs) {
        leave(&computed, &left);
        count_passed(&computed);
    }
    assert_int_equal(left.n_jobs, GATE_DATASETS_MAX + 2);
    while (left.n_jobs)
        job_destroy(job_list_take(&left));
}

TEST(a_held_job_passes_before_the_less_urgent_ones_of_its_dataset)
{
    static struct dataset_shares shares;
    static const struct {
        int32_t priority;
        int64_t deadline_s;
    } urgencies[] = {{0, 0}, {0, 0}, {5, 0}, {0, 9}, {5, 0}, {-1, 3}, {0, 4}};
    static const size_t order[] = {0, 2, 4, 6, 3, 1, 5}; // the first one passes at once
    enum { N = sizeof order / sizeof order[0] };
    shares = (struct dataset_shares){.n_in_flight_max = 1};
    gate.limits = &shares;
    struct job_list computed = {0}, left = {0};
    const struct job *jobs[N];
    for (size_t i = 0; i < N; i++) {
        struct job *job = create_of("a");
        job->priority = urgencies[i].priority;
        job->deadline_s = urgencies[i].deadline_s;
        gate_add(&gate, job);
        jobs[i] = job;
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(count_passed(&computed), 1);
        assert_ptr_equal(computed.first, jobs[order[i]]);
        leave(&computed, &left);
    }
    while (left.n_jobs)
        job_destroy(job_list_take(&left));
}

TEST(a_dataset_that_found_no_room_passes_although_others_with_held_jobs_leave_first)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 2};
    gate.limits = &shares;
    for (int i = 0; i < GATE_DATASETS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        add_of(name);
    }
    add_of("x"), add_of("x"), add_of("last");
    assert_int_equal(gate.held.n_jobs, 3);
    struct job_list computed = {0}, left = {0};
    for (count_passed(&computed); computed.n_jobs; count_passed(&computed))
        leave(&computed, &left);
    assert_int_equal(gate.held.n_jobs, 0);
    assert_int_equal(left.n_jobs, GATE_DATASETS_MAX + 3);
    while (left.n_jobs)
        job_destroy(job_list_take(&left));
}

TEST_FIXTURE(NULL, close_gate);

// Exactly once under faults: workers killed at each step of a commit and at random, partitions moved between
// members, a fenced worker, a broker that stops during a commit. Checked by an independent client's reads.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/random.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60000 };

// ---- fault points ----

static enum fault_point fault_at;
static int fault_countdown; // 0: none
static void (*fault)(void);

void fault_point(enum fault_point point)
{
    if (fault_countdown > 0 && point == fault_at && --fault_countdown == 0)
        fault();
}

static int redeliver_every; // polls; 0: never

bool fault_redelivers(void)
{
    static int n_polls;
    return redeliver_every > 0 && ++n_polls % redeliver_every == 0;
}

static void kill_myself(void)
{
    raise(SIGKILL);
}

// ---- what was published ----

static void make_topics(struct member *member, int n_partitions)
{
    struct error error;
    member->config.topics.n_partitions = n_partitions;
    if (kafka_create_topics(&member->config, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

enum { N_RUBBISH = 5 };

static void fill(const struct member *member, int n_partitions, int n_jobs)
{
    for (int i = 0; i < N_RUBBISH; i++) {
        char key[32];
        snprintf(key, sizeof key, "rubbish-%d", i);
        probe_produce(brokers, member->config.topics.jobs, i % n_partitions, key, "rubbish", 7, NULL, NULL);
    }
    for (int i = 0; i < n_partitions; i++) {
        int share = n_jobs / n_partitions;
        probe_produce_jobs(brokers, member->config.topics.jobs, i, i * share, share);
    }
}

// ---- a worker process ----

static uint32_t chosen_seed;

// A different half each time, so that jobs finish in any order.
static bool by_chance(const struct job *job)
{
    struct {
        int64_t offset;
        int32_t partition;
        uint32_t seed;
    } key = {job->source.offset, job->source.partition, chosen_seed};
    return hash_bytes(&key, sizeof key, 0) % 2;
}

// Works until nothing is left in its partitions, which must be at least n_partitions; the exit status is 0
// then.
static void work_until_done(struct member *member, uint32_t seed, size_t n_partitions)
{
    uint64_t random_state = seed;
    member_open(member);
    bool drained = false;
    for (int round = 0; !drained || member->n_jobs > 0; round++) {
        struct error error;
        int room = 40 - (int)member->n_jobs;
        enum status status = member_poll(member, room > 0 ? room : 0, &error);
        if (status != STATUS_OK && status != STATUS_RETRY) {
            fprintf(stderr, "%s\n", error.text);
            _exit(3);
        }
        drained = member->transport->impl->is_drained(member->transport) &&
                  member_n_partitions(member) >= n_partitions;
        chosen_seed = random_bits(&random_state);
        status = member_commit_once(member, drained && round % 2 ? NULL : by_chance, &error);
        if (status != STATUS_OK && status != STATUS_RETRY) {
            fprintf(stderr, "%s\n", error.text);
            _exit(3);
        }
    }
    member_close(member);
    _exit(0);
}

static pid_t start_worker(struct member *member, uint32_t seed, size_t n_partitions)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        work_until_done(member, seed, n_partitions);
    return pid;
}

// True when it ended by itself.
static bool wait_for_worker(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    else
        assert_int_equal(WTERMSIG(status), SIGKILL);
    return WIFEXITED(status);
}

static void a_worker_killed_at_any_instant_of_a_commit_publishes_once(void **state)
{
    struct member member;
    int n_jobs = 400;
    member_init(&member, brokers, "instants");
    make_topics(&member, 2);
    fill(&member, 2, n_jobs);
    fault = kill_myself;
    for (int i = 0; i < 12; i++) {
        fault_at = (enum fault_point)(FAULT_BEGUN + i % 4);
        fault_countdown = 1 + i / 4 % 2;
        assert_false(wait_for_worker(start_worker(&member, 1000 + (uint32_t)i, 2)));
    }
    fault_countdown = 0;
    assert_true(wait_for_worker(start_worker(&member, 7, 2)));
    probe_assert_one_each(brokers, member.config.topics.results, "job-", n_jobs);
    probe_assert_one_each(brokers, member.config.topics.dead, "rubbish-", N_RUBBISH);
    member_finish(&member);
}

static void sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// Two workers side by side, each killed and started again at random instants.
static void storm(const char *name, bool dynamic, uint64_t first_seed)
{
    static const struct kafka_property quick[] = {{"session.timeout.ms", "3000"},
                                                  {"heartbeat.interval.ms", "300"}};
    struct member members[2];
    int n_jobs = tests_are_wide() ? 2000 : 1000, n_kills = tests_are_wide() ? 14 : 8;
    member_init(&members[0], brokers, name);
    members[0].config.group.is_dynamic = dynamic;
    members[0].config.properties = quick;
    members[0].config.n_properties = 2;
    make_topics(&members[0], 4);
    fill(&members[0], 4, n_jobs);
    member_join(&members[1], &members[0]);
    members[1].config = members[0].config;
    uint64_t seed = random_seed(first_seed);
    pid_t pids[2] = {start_worker(&members[0], random_bits(&seed), 1),
                     start_worker(&members[1], random_bits(&seed), 1)};
    for (int i = 0; i < n_kills; i++) {
        sleep_ms(50 + random_bits(&seed) % 700);
        int victim = random_bits(&seed) % 2;
        kill(pids[victim], SIGKILL);
        (void)wait_for_worker(pids[victim]); // or it was done already
        pids[victim] = start_worker(&members[victim], random_bits(&seed), 1);
    }
    for (int i = 0; i < 2; i++)
        assert_true(wait_for_worker(pids[i]));
    // Jobs that a dead member still held when the last living one had finished.
    assert_true(wait_for_worker(start_worker(&members[0], random_bits(&seed), 4)));
    probe_assert_one_each(brokers, members[0].config.topics.results, "job-", n_jobs);
    probe_assert_one_each(brokers, members[0].config.topics.dead, "rubbish-", N_RUBBISH);
    member_finish(&members[0]);
}

static void static_members_killed_at_random_publish_once(void **state)
{
    storm("static", false, 20240611);
}

static void dynamic_members_killed_at_random_publish_once(void **state)
{
    storm("dynamic", true, 977);
}

// ---- partitions move ----

static struct member first, second;

static void poll_both(int n_max)
{
    struct member *members[] = {&first, &second};
    for (int i = 0; i < 2; i++) {
        struct error error;
        enum status status = members[i]->transport ? member_poll(members[i], n_max, &error) : STATUS_OK;
        if (status != STATUS_OK && status != STATUS_RETRY)
            fail_msg("%s", error.text);
    }
}

static void poll_until_shared(size_t n_first, size_t n_second)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         member_n_partitions(&first) != n_first || member_n_partitions(&second) != n_second;) {
        poll_both(0);
        if (clock_ms() > until_ms)
            fail_msg("partitions are not shared %zu and %zu", n_first, n_second);
    }
}

// Both work until all partitions are drained and no job runs.
static void finish_together(size_t n_partitions)
{
    struct member *members[] = {&first, &second};
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; clock_ms() < until_ms;) {
        bool done = member_n_partitions(&first) + member_n_partitions(&second) == n_partitions;
        poll_both(500);
        for (int j = 0; j < 2; j++) {
            struct error error;
            enum status status = member_commit_once(members[j], NULL, &error);
            if (status != STATUS_OK && status != STATUS_RETRY)
                fail_msg("%s", error.text);
            done = done && members[j]->n_jobs == 0 &&
                   members[j]->transport->impl->is_drained(members[j]->transport);
        }
        if (done)
            return;
    }
    fail_msg("not finished");
}

static void assert_no_job_twice(const struct member *member)
{
    for (size_t i = 0; i < member->n_jobs; i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(member->jobs[i]->source.partition == member->jobs[j]->source.partition &&
                         member->jobs[i]->source.offset == member->jobs[j]->source.offset);
    }
}

static void running_jobs_are_adopted_or_dropped_when_partitions_move(void **state)
{
    enum { N_JOBS = 200 };
    memset(&second, 0, sizeof second);
    member_init(&first, brokers, "moving");
    make_topics(&first, 4);
    fill(&first, 4, N_JOBS);
    first.config.group.is_dynamic = true;
    member_open(&first);
    member_receive(&first, N_JOBS + N_RUBBISH);
    chosen_seed = 5;
    member_commit(&first, by_chance);
    size_t n_running = first.n_jobs;

    member_join(&second, &first);
    second.config.group.is_dynamic = true;
    member_open(&second);
    poll_until_shared(2, 2);
    member_drain(&second);
    member_drain(&first);
    // Jobs still running at the first member were not delivered to it again; the second has those of its
    // partitions.
    assert_int_equal(first.n_jobs, n_running);
    assert_true(second.n_jobs > 0 && second.n_jobs < n_running);
    size_t n_moved = second.n_jobs;
    // Half of what moved is finished by the second member before it leaves.
    chosen_seed = 11;
    member_commit(&second, by_chance);
    member_close(&second);
    memset(&second, 0, sizeof second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; member_n_partitions(&first) != 4;) {
        poll_both(500);
        assert_true(clock_ms() < until_ms);
    }
    member_drain(&first);
    assert_int_equal(first.n_jobs, n_running); // adopted: nothing was delivered twice
    assert_no_job_twice(&first);
    size_t n_before = first.n_published;
    member_commit(&first, NULL);
    assert_true(first.n_dropped > 0 && first.n_dropped < n_moved); // those the second one had finished
    assert_int_equal(first.n_published - n_before, n_running - first.n_dropped);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    probe_assert_one_each(brokers, first.config.topics.dead, "rubbish-", N_RUBBISH);
    member_finish(&first);
}

static void what_is_finished_is_committed_before_partitions_go(void **state)
{
    enum { N_JOBS = 100 };
    member_init(&first, brokers, "leaving");
    memset(&second, 0, sizeof second);
    make_topics(&first, 2);
    fill(&first, 2, N_JOBS);
    first.config.group.is_dynamic = true;
    member_open(&first);
    member_receive(&first, N_JOBS + N_RUBBISH);
    first.commit_on_revoke = true;
    member_join(&second, &first);
    second.config.group.is_dynamic = true;
    member_open(&second);
    poll_until_shared(1, 1);
    member_drain(&second);
    member_drain(&first);
    assert_int_equal(first.n_revokes, 1);
    assert_int_equal(first.n_published, N_JOBS + N_RUBBISH);
    assert_int_equal(second.n_jobs, 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_close(&second);
    member_finish(&first);
}

static void commits_wait_while_the_group_is_rebalanced(void **state)
{
    enum { N_JOBS = 100 };
    struct error error;
    member_init(&first, brokers, "between");
    memset(&second, 0, sizeof second);
    make_topics(&first, 2);
    fill(&first, 2, N_JOBS);
    first.config.group.is_dynamic = true;
    member_open(&first);
    member_receive(&first, N_JOBS + N_RUBBISH);
    member_join(&second, &first);
    second.config.group.is_dynamic = true;
    member_open(&second);
    // The second one asks to join and is not polled again: the first one gives its partitions up and waits
    // for it.
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; first.n_revokes == 0;) {
        (void)!member_poll(&second, 0, &error);
        (void)!member_poll(&first, 0, &error);
        assert_true(clock_ms() < until_ms);
    }
    enum status status = member_commit_once(&first, NULL, &error);
    if (status != STATUS_OK) { // else the group was quicker
        assert_int_equal(status, STATUS_RETRY);
        // the latter from the coordinator
        assert_true(strstr(error.text, "rebalanced") || strstr(error.text, "generation"));
    }
    poll_until_shared(1, 1);
    member_commit(&first, NULL);
    member_drain(&second);
    member_commit(&second, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_close(&second);
    member_finish(&first);
}

// A worker that stood still (SIGSTOP, a machine asleep) does not know yet that its partitions went away.
static void a_member_that_stood_still_publishes_nothing_that_others_did(void **state)
{
    static const struct kafka_property quick[] = {{"session.timeout.ms", "2000"},
                                                  {"heartbeat.interval.ms", "200"},
                                                  {"max.poll.interval.ms", "2000"}};
    enum { N_JOBS = 100 };
    struct error error;
    member_init(&first, brokers, "asleep");
    memset(&second, 0, sizeof second);
    make_topics(&first, 2);
    fill(&first, 2, N_JOBS);
    first.config.group.is_dynamic = true;
    first.config.properties = quick;
    first.config.n_properties = 3;
    member_open(&first);
    member_receive(&first, N_JOBS + N_RUBBISH);
    member_join(&second, &first);
    second.config = first.config;
    second.config.log_context = &second;
    member_open(&second);
    member_receive(&second, N_JOBS + N_RUBBISH); // once the first one's time is up
    chosen_seed = 23;
    member_commit(&second, by_chance);

    enum status status = member_commit_once(&first, NULL, &error);
    assert_int_equal(status, STATUS_RETRY);
    assert_int_equal(first.n_published, 0);
    finish_together(2);
    assert_true(first.n_dropped > 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    probe_assert_one_each(brokers, first.config.topics.dead, "rubbish-", N_RUBBISH);
    member_close(&second);
    member_finish(&first);
}

// ---- fencing ----

// Like a store copied to another machine: two workers with one slot.
static void open_namesakes(const char *name)
{
    char command[512];
    member_init(&first, brokers, name);
    make_topics(&first, 1);
    fill(&first, 1, 10);
    member_open(&first);
    member_receive(&first, 10 + N_RUBBISH);
    member_join(&second, &first);
    strcpy(second.folder, "/tmp/sheaf-copy-XXXXXX");
    assert_non_null(mkdtemp(second.folder));
    snprintf(command, sizeof command, "cp %s/* %s", first.folder, second.folder);
    assert_int_equal(system(command), 0);
    member_open(&second);
}

static void close_namesakes(void)
{
    member_receive(&second, 10 + N_RUBBISH);
    member_commit(&second, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", 10);
    member_finish(&second);
    member_finish(&first);
}

static void a_worker_whose_name_another_one_takes_must_restart(void **state)
{
    struct error error;
    open_namesakes("fenced");
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RESTART);
    assert_non_null(strstr(error.text, "another worker has our id"));
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RESTART);
    assert_int_equal(member_poll(&first, 10, &error), STATUS_RESTART);
    close_namesakes();
}

static void of_two_members_of_one_name_one_goes_on(void **state)
{
    struct error error;
    enum status status = STATUS_OK;
    open_namesakes("namesakes");
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status != STATUS_RESTART && clock_ms() < until_ms;) {
        status = member_poll(&first, 10, &error);
        assert_int_not_equal(member_poll(&second, 0, &(struct error){0}), STATUS_RESTART);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_int_equal(kafka_transport_figures(first.transport)->n_rejoins, 0);
    assert_non_null(strstr(error.text, "another worker has our id"));
    close_namesakes();
}

// ---- a broker that stops ----

static void work_through_outage(const char *name, const struct kafka_property *properties,
                                size_t n_properties)
{
    enum { N_JOBS = 60 };
    struct error error = {0};
    memset(&second, 0, sizeof second);
    member_init(&first, brokers, name);
    first.config.properties = properties;
    first.config.n_properties = n_properties;
    make_topics(&first, 1);
    fill(&first, 1, N_JOBS);
    member_open(&first);
    member_receive(&first, 30);
    chosen_seed = 3;
    member_commit(&first, by_chance);
    broker_kill();
    // It does not know yet, or does: either way the jobs stay with it.
    size_t n_jobs = first.n_jobs;
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RETRY);
    assert_int_equal(first.n_jobs, n_jobs);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         member_poll(&first, 0, &error) == STATUS_OK && clock_ms() < until_ms;)
        continue;
    assert_int_equal(error.status, STATUS_RETRY);
    assert_non_null(strstr(error.text, brokers));
    broker_restart();
    member_receive(&first, N_JOBS + N_RUBBISH - first.n_published);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    if (member_poll(&first, 10, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    member_finish(&first);
}

static void a_broker_that_comes_back_finds_everything_going_on(void **state)
{
    if (!broker_is_ours())
        skip();
    work_through_outage("outage", NULL, 0);
}

static void a_broker_away_for_longer_than_a_session_is_survived(void **state)
{
    static const struct kafka_property quick[] = {{"session.timeout.ms", "1500"},
                                                  {"heartbeat.interval.ms", "200"}};
    if (!broker_is_ours())
        skip();
    work_through_outage("session", quick, 2);
}

// Something happens between the coordinator's last answer and the commit.
static void interrupt_commit(const char *name, const struct kafka_property *property,
                             void (*interruption)(void))
{
    enum { N_JOBS = 60 };
    struct error error;
    member_init(&first, brokers, name);
    first.config.properties = property;
    first.config.n_properties = property ? 1 : 0;
    make_topics(&first, 1);
    fill(&first, 1, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS + N_RUBBISH);
    fault = interruption;
    fault_at = FAULT_OFFSETS_SENT;
    fault_countdown = 1;
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RETRY);
    if (interruption == broker_kill)
        broker_restart();
    member_commit(&first, NULL); // polls between its tries
    assert_int_equal(first.n_published, N_JOBS + N_RUBBISH);
    assert_int_equal(first.n_dropped, 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    probe_assert_one_each(brokers, first.config.topics.dead, "rubbish-", N_RUBBISH);
    probe_produce_jobs(brokers, first.config.topics.jobs, 0, N_JOBS, 1);
    member_receive(&first, 1);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS + 1);
}

static void a_commit_in_doubt_is_looked_up_and_logged(void **state)
{
    if (!broker_is_ours())
        skip();
    interrupt_commit("doubt", NULL, broker_kill);
    member_finish(&first);
}

// A worker that leaves releases what it could not commit, and learns after that that it did.
static void release_in_doubt(const char *name, int throttle_ms)
{
    enum { N_JOBS = 20 };
    struct error error;
    member_init_with_jobs(&first, brokers, name, 1, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    const struct transport_impl *impl = first.transport->impl;
    assert_int_equal(impl->start(first.transport, first.jobs, N_JOBS, SUSPECT_AMONG_MANY, &error), STATUS_OK);
    fault = broker_pause;
    fault_at = FAULT_OFFSETS_SENT;
    fault_countdown = 1;
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RETRY);
    assert_int_equal(member_transport(&first)->publishing.transaction.phase, TRANSACTION_COMMITTING);
    broker_resume();
    assert_int_equal(impl->release(first.transport, first.jobs, N_JOBS, &error), STATUS_OK);
    ((struct kafka_transport *)first.transport)->clients.producer.throttle.until_ms =
        clock_ms() + throttle_ms;
    member_close(&first);
    probe_produce_jobs(brokers, first.config.topics.jobs, 0, N_JOBS, 1);
    member_open(&first);
    member_drain(&first);                     // those of a transaction that was aborted, too
    assert_int_equal(first.last_attempts, 0); // it was said before that the worker leaves
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS + 1);
    member_finish(&first);
}

static void jobs_released_while_their_commit_is_in_doubt_are_published_once(void **state)
{
    if (!broker_is_ours())
        skip();
    release_in_doubt("released", 0);
    release_in_doubt("released-throttled", 60000);
}

// As if the process was stopped there until the coordinator has rolled the transaction back: before, no client is told
// the group's offsets. It looks for transactions past their time every second (ops/kafka/server.properties), or
// every ten by default.
static void stand_still(void)
{
    probe_committed(brokers, first.config.group.name, first.config.topics.jobs, 0, NULL);
}

static void a_transaction_the_broker_gave_up_is_published_again(void **state)
{
    interrupt_commit("gave-up", &(struct kafka_property){"transaction.timeout.ms", "1000"}, stand_still);
    assert_int_equal(kafka_transport_figures(first.transport)->n_producers, 1);
    member_finish(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_worker_killed_at_any_instant_of_a_commit_publishes_once),
        BROKER_TEST(static_members_killed_at_random_publish_once),
        BROKER_TEST(dynamic_members_killed_at_random_publish_once),
        BROKER_TEST(running_jobs_are_adopted_or_dropped_when_partitions_move),
        BROKER_TEST(what_is_finished_is_committed_before_partitions_go),
        BROKER_TEST(commits_wait_while_the_group_is_rebalanced),
        BROKER_TEST(a_member_that_stood_still_publishes_nothing_that_others_did),
        BROKER_TEST(a_worker_whose_name_another_one_takes_must_restart),
        BROKER_TEST(of_two_members_of_one_name_one_goes_on),
        BROKER_TEST(a_broker_that_comes_back_finds_everything_going_on),
        BROKER_TEST(a_broker_away_for_longer_than_a_session_is_survived),
        BROKER_TEST(a_commit_in_doubt_is_looked_up_and_logged),
        BROKER_TEST(jobs_released_while_their_commit_is_in_doubt_are_published_once),
        BROKER_TEST(a_transaction_the_broker_gave_up_is_published_again),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}

// Behavior of the Kafka transport under the actions of others: partitions whose offsets are in doubt, records
// delivered again, a pause and a rebalance, a partition that is no longer fetched, missing permissions.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_JOBS = 100, PATIENCE_MS = 60000 };

// ---- faults ----

static bool stops_with_offsets_sent;
static int redeliver_every; // polls; 0: never
static int n_redelivered;

void fault_point(enum fault_point point)
{
    if (point == FAULT_OFFSETS_SENT && stops_with_offsets_sent)
        raise(SIGSTOP);
}

bool fault_redelivers(void)
{
    static int n_polls;
    bool again = redeliver_every > 0 && ++n_polls % redeliver_every == 0;
    n_redelivered += again;
    return again;
}

// ---- members ----

static struct member first, second;

static size_t count_records(const char *topic)
{
    size_t n_records;
    probe_free(probe_read(brokers, topic, &n_records));
    return n_records;
}

// ---- offsets in doubt ----

static const struct kafka_property short_session[] = {{"session.timeout.ms", "1500"},
                                                      {"heartbeat.interval.ms", "200"},
                                                      {"transaction.timeout.ms", "300000"}};

// Takes all jobs and stands still once the coordinator holds the offsets of the first half.
static pid_t start_one_that_stands_still(void)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    stops_with_offsets_sent = true;
    member_open(&first);
    struct error error;
    member_receive(&first, N_JOBS / 2);
    (void)member_commit_once(&first, NULL,
                             &error); // committed, and not looked at again: that would join the group
    pause();
    _exit(1);
}

// The transaction of a worker that stands still is still valid, so its partitions' offsets are in doubt.
// Whoever read the old ones would compute, and publish, what it is about to commit.
static void a_partition_waits_for_its_new_owner_while_its_offsets_are_in_doubt(void **state)
{
    int status;
    member_init_with_jobs(&first, brokers, "in-doubt", 1, N_JOBS);
    first.config.properties = short_session;
    first.config.n_properties = 3;
    pid_t pid = start_one_that_stands_still();
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));

    member_join(&second, &first);
    strcpy(second.folder, "/tmp/sheaf-other-XXXXXX"); // another machine
    assert_non_null(mkdtemp(second.folder));
    second.config.properties = first.config.properties;
    second.config.n_properties = first.config.n_properties;
    member_open(&second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !member_transport(&second)->group.assigned;) {
        member_poll_well(&second, N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
    for (int i = 0; i < 3; i++) // each asks for a second; the transaction has five minutes
        member_poll_well(&second, N_JOBS);
    assert_non_null(member_transport(&second)->group.assigned);
    assert_int_equal(second.n_received, 0);

    assert_int_equal(kill(pid, SIGCONT), 0);
    member_receive(&second, N_JOBS / 2);
    member_drain(&second);
    assert_int_equal(second.n_received, N_JOBS / 2);
    assert_int_equal(count_records(first.config.topics.results), N_JOBS / 2);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    member_commit(&second, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&second);
    member_finish(&first);
}

static void poll_until_owned(size_t n_first, size_t n_second)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         member_n_partitions(&first) != n_first ||
         (second.transport && member_n_partitions(&second) != n_second);) {
        member_poll_well(&first, N_JOBS);
        if (second.transport)
            member_poll_well(&second, 0);
        assert_true(clock_ms() < until_ms);
    }
}

// ---- assignments without a revocation ----

static bool lies_in_second_partition(const struct job *job)
{
    return job->source.partition == 1;
}

static void hand_assignment(struct kafka_transport *kafka, const int *ids, int n_ids)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_ids);
    for (int i = 0; i < n_ids; i++)
        rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, ids[i]);
    kafka_rebalance(kafka->clients.consumer.rk, RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, list,
                    &kafka->clients.consumer);
    rd_kafka_topic_partition_list_destroy(list);
}

// librdkafka 2.0.2 rejoins the group while an assignment waits for its offsets, when partitions are added:
// the next assignment is made without a revocation of the one before.
static void an_assignment_takes_all_partitions_that_it_does_not_list(void **state)
{
    static const int one[] = {1};
    struct error error;
    member_init_with_jobs(&first, brokers, "retaken", 2, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    struct kafka_transport *kafka = (struct kafka_transport *)first.transport;
    hand_assignment(kafka, one, 1);
    assert_int_equal(member_n_partitions(&first), 0); // until the coordinator says the same
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "being rebalanced"));
    assert_int_equal(count_records(first.config.topics.results), 0);
    member_finish(&first);
}

// While an assignment waits to be looked at, librdkafka can have rejoined the group: what it then says of
// itself is newer than the assignment, and the coordinator would let it publish for partitions that are
// another's by now.
static void an_assignment_that_is_out_of_date_is_not_worked_on(void **state)
{
    static const int both[] = {0, 1};
    struct error error;
    member_init_with_jobs(&first, brokers, "out-of-date", 2, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    member_join(&second, &first);
    member_open(&second);
    poll_until_owned(1, 1);
    int kept = partition_find(&member_transport(&first)->partitions, 0)->owned ? 0 : 1;
    member_receive(&second, N_JOBS / 2);

    struct kafka_transport *kafka = (struct kafka_transport *)first.transport;
    hand_assignment(kafka, both, 2);
    for (int i = 0; i < 5; i++)
        member_poll_well(&first, 0);
    if (member_commit_once(&first, NULL, &error) == STATUS_OK)
        fprintf(stderr, "it published %zu jobs\n", first.n_published);
    hand_assignment(kafka, &kept, 1); // the one that was on its way
    member_commit(&first, NULL);
    member_commit(&second, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    assert_int_equal(first.n_published, N_JOBS / 2);
    member_finish(&second);
    member_finish(&first);
}

// The assignment is of one generation, what the group says of us meanwhile of another: nothing is committed
// with it.
static void nothing_is_committed_as_a_member_of_another_generation(void **state)
{
    struct error error;
    member_init_with_jobs(&first, brokers, "older", 2, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    struct kafka_transport *kafka = (struct kafka_transport *)first.transport;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(2);
    for (int i = 0; i < 2; i++)
        rd_kafka_topic_partition_list_add(list, first.config.topics.jobs, i);
    rd_kafka_consumer_group_metadata_destroy(kafka->group.membership);
    kafka->group.membership = NULL;
    kafka->group.assigned = list;
    kafka->group.coming =
        rd_kafka_consumer_group_metadata_new_with_genid(first.config.group.name, 77, "stranger", NULL);
    assert_int_equal(kafka_begin_assigned(kafka, PATIENCE_MS, &error), STATUS_OK);
    assert_null(kafka->group.membership);
    assert_int_equal(member_commit_once(&first, lies_in_second_partition, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "being rebalanced"));
    assert_int_equal(count_records(first.config.topics.results), 0);
    member_finish(&first);
}

// ---- delivered again ----

static bool is_odd(const struct job *job)
{
    return member_job_number(job) % 2;
}

static void what_is_delivered_again_is_dropped(void **state)
{
    member_init_with_jobs(&first, brokers, "again", 2, N_JOBS);
    member_open(&first);
    redeliver_every = 3;
    n_redelivered = 0;
    member_receive(&first, N_JOBS / 2);
    member_commit(&first, is_odd);
    while (n_redelivered < 20)
        member_poll_well(&first, N_JOBS);
    redeliver_every = 0;
    member_drain(&first);
    assert_int_equal(first.n_received, N_JOBS);
    assert_true(member_transport(&first)->figures.records.n_skipped > 0);
    member_commit(&first, NULL);
    assert_int_equal(first.n_dropped, 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&first);
}

// ---- a pause and a rebalance ----

static void a_pause_outlives_a_rebalance(void **state)
{
    member_init_with_jobs(&first, brokers, "pausing", 2, N_JOBS);
    first.config.group.is_dynamic = true;
    member_open(&first);
    member_receive(&first, 10);
    first.transport->impl->pause(first.transport);
    member_join(&second, &first);
    second.config.group.is_dynamic = true;
    member_open(&second);
    poll_until_owned(1, 1);
    member_close(&second);
    poll_until_owned(2, 0);
    for (int i = 0; i < 10; i++)
        member_poll_well(&first, N_JOBS);
    assert_int_equal(first.n_received, 10);
    first.transport->impl->resume(first.transport);
    member_drain(&first);
    assert_int_equal(first.n_received, N_JOBS);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&first);
}

// ---- a partition that is not fetched ----

// As librdkafka's issue 5591: it was paused behind our back, so a new fetch position does not help.
static void a_partition_that_is_not_fetched_any_more_gets_a_new_consumer(void **state)
{
    member_init_with_jobs(&first, brokers, "stuck", 1, N_JOBS);
    member_open(&first);
    member_receive(&first, 10);
    struct kafka_transport *kafka = (struct kafka_transport *)first.transport;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, first.config.topics.jobs, 0);
    assert_int_equal(rd_kafka_pause_partitions(kafka->clients.consumer.rk, list), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
    kafka->watch.quiet_ms = 600;
    while (kafka->figures.n_rejoins == 0)
        member_poll_well(&first, 1);
    assert_true(kafka->figures.n_rewinds > 0); // the first thing that was tried
    kafka->watch.quiet_ms = 30000;
    member_receive(&first, N_JOBS);
    member_commit(&first, NULL);
    assert_int_equal(first.n_dropped, 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&first);
}

// ---- closing ----

static void closing_keeps_to_its_time_without_a_broker(void **state)
{
    if (!broker_is_ours())
        skip();
    member_init_with_jobs(&first, brokers, "closing", 1, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    broker_kill();
    int64_t began_ms = clock_ms();
    member_close(&first);
    // A busy machine may stand still for seconds.
    assert_in_range(clock_ms() - began_ms, 0, 2 * KAFKA_CLOSE_TIMEOUT_MS);
    member_finish(&first);
}

// ---- a topic recreated ----

static const struct kafka_property looks_often[] = {{"topic.metadata.refresh.interval.ms", "500"}};

// A worker that has published the first ten of a hundred jobs and runs the others.
static void begin_to_work(const char *name)
{
    member_init_with_jobs(&first, brokers, name, 1, N_JOBS);
    first.config.properties = looks_often;
    first.config.n_properties = 1;
    member_open(&first);
    member_receive(&first, 10);
    member_commit(&first, NULL);
    member_receive(&first, N_JOBS - 10);
}

static void poll_until_outdated(const char *how)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(&first, N_JOBS, &error);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "was deleted or recreated"));
    if (!strstr(error.text, how))
        fail_msg("expected \"%s\" in: %s", how, error.text);
    assert_int_equal(member_commit_once(&first, NULL, &error), STATUS_RESTART);
    assert_int_equal(count_records(first.config.topics.results), 10);
}

// Else the maps of the old topic would mark jobs of the new one as done, and its running jobs answer
// for the new ones at their offsets.
static void a_worker_whose_topic_is_deleted_ends_and_the_next_one_answers_the_new_topic(void **state)
{
    begin_to_work("deleted");
    probe_delete_topic(brokers, first.config.topics.jobs);
    poll_until_outdated("nknown topic");
    member_close(&first);
    // the coordinator forgets the group's offsets in its own time
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         probe_committed(brokers, first.config.group.name, first.config.topics.jobs, 0, NULL) >= 0;)
        assert_true(clock_ms() < until_ms);
    probe_create_topic(brokers, first.config.topics.jobs, 1, NULL, NULL);
    probe_produce_jobs(brokers, first.config.topics.jobs, 0, 10, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS + 10);
    member_finish(&first);
}

static void a_worker_ends_at_the_end_of_a_recreated_topic(void **state)
{
    begin_to_work("recreated");
    probe_delete_topic(brokers, first.config.topics.jobs);
    probe_create_topic(brokers, first.config.topics.jobs, 1, NULL, NULL);
    probe_produce_jobs(brokers, first.config.topics.jobs, 0, N_JOBS, N_JOBS / 2);
    poll_until_outdated(""); // the end lies below what was delivered; or a look at the topics saw it
    member_finish(&first);
}

// All jobs were finished; the new topic has n_jobs before this worker asks for more. It must not skip those at
// the old topic's offsets.
static void assert_recreated_topic_is_answered(const char *name, int n_jobs)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    member_init_with_jobs(&first, brokers, name, 1, N_JOBS);
    member_open(&first);
    member_receive(&first, N_JOBS);
    member_commit(&first, NULL);
    probe_delete_topic(brokers, first.config.topics.jobs);
    probe_create_topic(brokers, first.config.topics.jobs, 1, NULL, NULL);
    probe_produce_jobs(brokers, first.config.topics.jobs, 0, N_JOBS, n_jobs);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(&first, N_JOBS, &error);
        if (status == STATUS_OK && first.n_jobs > 0)
            status = member_commit_once(&first, NULL, &error);
        if (clock_ms() > until_ms)
            fail_msg("still working: %s", error.text);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "was deleted or recreated"));
    assert_int_equal(count_records(first.config.topics.results), N_JOBS);
    member_close(&first);
    member_open(&first);
    member_receive(&first, (size_t)n_jobs);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS + n_jobs);
    member_finish(&first);
}

static void a_recreated_topic_that_is_longer_than_the_old_one_is_answered_whole(void **state)
{
    assert_recreated_topic_is_answered("longer", 2 * N_JOBS);
}

static void a_recreated_topic_of_the_same_length_is_answered_whole(void **state)
{
    assert_recreated_topic_is_answered("same", N_JOBS);
}

// ---- what the broker forbids ----

static bool needs_rules(void)
{
    return broker_is_ours(); // another one may have no authorizer
}

// Polls and commits until an error is final, and checks what it says.
static void assert_refused(const char *part)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(&first, N_JOBS, &error);
        if (status == STATUS_OK && first.n_jobs > 0)
            status = member_commit_once(&first, NULL, &error);
        if (clock_ms() > until_ms)
            fail_msg("still trying: %s", error.text);
    }
    assert_int_equal(status, STATUS_REFUSE);
    if (!strstr(error.text, part))
        fail_msg("expected \"%s\" in: %s", part, error.text);
    assert_int_equal(count_records(first.config.topics.results), 0);
    member_finish(&first);
}

static void a_worker_that_may_not_write_results_says_so_and_ends(void **state)
{
    if (!needs_rules())
        skip();
    member_init_with_jobs(&first, brokers, "no-write", 1, 10);
    probe_deny(brokers, PROBE_TOPIC, first.config.topics.results, "write");
    member_open(&first);
    assert_refused("authoriz");
}

// Its first dead letter is missing, so the others of its transaction are not published either.
static void a_worker_that_may_not_write_dead_letters_names_their_topic_and_ends(void **state)
{
    if (!needs_rules())
        skip();
    member_init_with_jobs(&first, brokers, "no-dead", 1, 10);
    probe_produce(brokers, first.config.topics.jobs, 0, NULL, "no job", 6, NULL, NULL);
    probe_deny(brokers, PROBE_TOPIC, first.config.topics.dead, "write");
    member_open(&first);
    member_receive(&first, 11);
    assert_refused(first.config.topics.dead);
}

// The right may be given back: a worker that ended would be restarted again and again.
static void a_worker_that_may_not_read_jobs_says_so_and_waits(void **state)
{
    if (!needs_rules())
        skip();
    member_init_with_jobs(&first, brokers, "no-read", 1, 10);
    probe_deny(brokers, PROBE_TOPIC, first.config.topics.jobs, "read");
    member_open(&first);
    struct error error = {0};
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;;) {
        enum status status = member_poll(&first, N_JOBS, &error);
        if (status != STATUS_OK && status != STATUS_RETRY)
            fail_msg("the worker ended: %s", error.text);
        const char *waiting = kafka_waiting(first.transport);
        if (strstr(waiting, "uthoriz") || (status == STATUS_RETRY && strstr(error.text, "uthoriz")))
            break;
        if (clock_ms() > until_ms)
            fail_msg("expected \"authoriz\" in: %s; %s", waiting, error.text);
    }
    assert_int_equal(first.n_jobs, 0);
    member_finish(&first);
}

static void a_worker_that_may_not_join_its_group_says_so_and_ends(void **state)
{
    struct error error;
    if (!needs_rules())
        skip();
    member_init_with_jobs(&first, brokers, "no-group", 1, 10);
    probe_deny(brokers, PROBE_GROUP, first.config.group.name, "read");
    if (kafka_transport_open(&first.transport, &first.config, &error) == STATUS_OK) {
        assert_refused("authoriz");
        return;
    }
    assert_int_equal(error.status, STATUS_REFUSE);
    assert_non_null(strstr(error.text, "authoriz"));
    member_finish(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_partition_waits_for_its_new_owner_while_its_offsets_are_in_doubt),
        BROKER_TEST(an_assignment_takes_all_partitions_that_it_does_not_list),
        BROKER_TEST(an_assignment_that_is_out_of_date_is_not_worked_on),
        BROKER_TEST(nothing_is_committed_as_a_member_of_another_generation),
        BROKER_TEST(what_is_delivered_again_is_dropped),
        BROKER_TEST(a_pause_outlives_a_rebalance),
        BROKER_TEST(a_partition_that_is_not_fetched_any_more_gets_a_new_consumer),
        BROKER_TEST(a_worker_whose_topic_is_deleted_ends_and_the_next_one_answers_the_new_topic),
        BROKER_TEST(a_worker_ends_at_the_end_of_a_recreated_topic),
        BROKER_TEST(a_recreated_topic_that_is_longer_than_the_old_one_is_answered_whole),
        BROKER_TEST(a_recreated_topic_of_the_same_length_is_answered_whole),
        BROKER_TEST(a_worker_that_may_not_write_results_says_so_and_ends),
        BROKER_TEST(a_worker_that_may_not_write_dead_letters_names_their_topic_and_ends),
        BROKER_TEST(a_worker_that_may_not_read_jobs_says_so_and_waits),
        BROKER_TEST(a_worker_that_may_not_join_its_group_says_so_and_ends),
        BROKER_TEST(closing_keeps_to_its_time_without_a_broker), // the last one: it ends the broker
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}

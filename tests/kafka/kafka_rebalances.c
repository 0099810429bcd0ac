// Group membership on a real broker: rebalances while an assignment waits, time without membership, members
// without partitions, and the group's protocols.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_JOBS = 100, PATIENCE_MS = 60000 };

void fault_point(enum fault_point point)
{
    (void)point;
}

bool fault_redelivers(void)
{
    return false;
}

// ---- members ----

static struct member first, second;

static void ignore_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    (void)context, (void)member;
}

static const struct kafka_property short_session[] = {{"session.timeout.ms", "1500"},
                                                      {"heartbeat.interval.ms", "200"}};

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

// ---- a rebalance while an assignment waits ----

static bool awaits_partitions(const struct member *member, int n_partitions)
{
    const rd_kafka_topic_partition_list_t *assigned = member_transport(member)->group.assigned;
    return assigned && assigned->cnt == n_partitions;
}

// As after a worker that was killed in mid-commit, with the broker's time for its transaction: two workers
// start one after the other while the group's offsets are in doubt. librdkafka does not join the group again
// before an assignment was answered, so an assignment that waited for the offsets kept its worker out of the
// group, and the group from its rebalance.
static void a_member_follows_a_rebalance_while_offsets_are_in_doubt(const char *name,
                                                                    enum group_protocol protocol)
{
    member_init_with_jobs(&first, brokers, name, 2, N_JOBS);
    first.config.group.protocol = protocol;
    struct probe_transaction *held =
        probe_hold_offsets(brokers, first.config.group.name, first.config.topics.jobs, 2);
    member_open(&first);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !awaits_partitions(&first, 2);) {
        member_poll_well(&first, N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
    member_join(&second, &first);
    second.config.group.protocol = protocol;
    member_open(&second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         !awaits_partitions(&first, 1) || !awaits_partitions(&second, 1);) {
        member_poll_well(&first, N_JOBS);
        member_poll_well(&second, N_JOBS);
        if (clock_ms() > until_ms)
            fail_msg("the group was not rebalanced in %d ms while offsets are in doubt", PATIENCE_MS);
    }
    assert_int_equal(first.n_received + second.n_received, 0);
    probe_abort(held);
    poll_until_owned(1, 1);
    member_receive(&first, N_JOBS / 2);
    member_receive(&second, N_JOBS / 2);
    member_commit(&first, NULL);
    member_commit(&second, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&second);
    member_finish(&first);
}

static void a_rebalance_goes_on_while_an_assignment_waits_for_offsets_in_doubt(void **state)
{
    a_member_follows_a_rebalance_while_offsets_are_in_doubt("two-rebalances", GROUP_PROTOCOL_EAGER);
}

static void a_cooperative_rebalance_goes_on_while_an_assignment_waits(void **state)
{
    if (rd_kafka_version() < 0x020601ff)
        skip();
    a_member_follows_a_rebalance_while_offsets_are_in_doubt("two-cooperative", GROUP_PROTOCOL_COOPERATIVE);
}

static bool has_kip_848(void)
{
    const char *version = getenv("SHEAF_KAFKA_VERSION"); // of ops/kafka/start; its default has it
    return rd_kafka_version() >= 0x020c00ff && (!version || version[0] >= '4');
}

static void a_rebalance_of_kip_848_goes_on_while_an_assignment_waits(void **state)
{
    if (!has_kip_848())
        skip();
    a_member_follows_a_rebalance_while_offsets_are_in_doubt("two-consumer", GROUP_PROTOCOL_CONSUMER);
}

// Each member's epoch grows when another one joins or leaves, and members that keep their
// partitions get no event.
static void a_member_of_kip_848_commits_after_others_came_and_went(void **state)
{
    if (!has_kip_848())
        skip();
    member_init_with_jobs(&first, brokers, "epochs", 1, N_JOBS);
    first.config.group.protocol = GROUP_PROTOCOL_CONSUMER;
    member_open(&first);
    member_receive(&first, 10);
    member_commit(&first, NULL);
    for (int round = 0; round < 2; round++) {
        member_join(&second, &first);
        second.config.group.protocol = GROUP_PROTOCOL_CONSUMER;
        member_open(&second);
        for (int64_t until_ms = clock_ms() + PATIENCE_MS; !member_transport(&second)->figures.is_member;) {
            member_poll_well(&first, 0);
            member_poll_well(&second, 0);
            assert_true(clock_ms() < until_ms);
        }
        member_receive(&first, 10);
        member_commit(&first, NULL);
        member_close(&second);
    }
    member_receive(&first, N_JOBS - 30);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    assert_int_equal(first.n_dropped, 0);
    member_finish(&first);
}

// ---- no place in the group ----

// Until it ends, and returns the text.
static void poll_until_outside(struct member *member, const char *part)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(member, N_JOBS, &error);
        assert_string_not_equal(kafka_waiting(member->transport), "");
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "no confirmed member of group"));
    if (!strstr(error.text, part))
        fail_msg("expected \"%s\" in: %s", part, error.text);
    assert_int_equal(member_commit_once(member, NULL, &error), STATUS_RESTART);
}

static void a_worker_without_a_confirmed_place_in_its_group_ends_and_says_why(void **state)
{
    member_init_with_jobs(&first, brokers, "outside", 30, 30);
    struct probe_transaction *held =
        probe_hold_offsets(brokers, first.config.group.name, first.config.topics.jobs, 30);
    member_open(&first);
    assert_non_null(
        strstr(kafka_waiting(first.transport), "not yet a member of group")); // before the first poll
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(kafka_waiting(first.transport), "22, ...");) {
        member_poll_well(&first, N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
    ((struct kafka_transport *)first.transport)->outside.timeout_ms =
        member_transport(&first)->outside.time_ms + 500;
    char part[400]; // of a text that names as many partitions as it has room for
    snprintf(
        part, sizeof part,
        "offsets of partition(s) 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, "
        "21, 22, ... of topic %s are held by a transaction of some producer that is not decided",
        first.config.topics.jobs);
    poll_until_outside(&first, part);
    assert_int_equal(first.n_received, 0);
    probe_abort(held);
    member_finish(&first);
}

static void partitions_that_no_transaction_holds_are_not_named(void **state)
{
    member_init_with_jobs(&first, brokers, "held", 3, 30);
    struct probe_transaction *held =
        probe_hold_offsets(brokers, first.config.group.name, first.config.topics.jobs, 1);
    member_open(&first);
    char part[200];
    snprintf(part, sizeof part, "offsets of partition(s) 0 of topic %s are held", first.config.topics.jobs);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(kafka_waiting(first.transport), part);) {
        member_poll_well(&first, N_JOBS);
        if (clock_ms() > until_ms)
            fail_msg("expected \"%s\" in: %s", part, kafka_waiting(first.transport));
    }
    probe_abort(held);
    member_receive(&first, 30);
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", 30);
    member_finish(&first);
}

// Another client of the group has an assignor that ours has not, so the coordinator refuses each request to
// join.
static void a_worker_that_its_group_refuses_ends_and_says_why(void **state)
{
    member_init_with_jobs(&first, brokers, "refused", 1, 10);
    struct member other;
    member_init(&other, brokers, "unused");
    static const struct kafka_property roundrobin[] = {{"partition.assignment.strategy", "roundrobin"}};
    static const struct kafka_property range[] = {{"partition.assignment.strategy", "range"}};
    first.config.properties = roundrobin;
    second = other; // its folder: another machine
    member_join(&second, &first);
    strcpy(second.folder, other.folder);
    second.config.properties = range;
    first.config.n_properties = second.config.n_properties = 1;
    second.config.group.membership_timeout_ms = 1500;
    member_open(&first);
    member_receive(&first, 10);
    assert_string_equal(kafka_waiting(first.transport), "");
    member_open(&second);
    poll_until_outside(&second, "nconsistent group protocol");
    member_finish(&second);
    member_commit(&first, NULL);
    member_finish(&first);
}

static void a_member_without_partitions_is_a_member(void **state)
{
    member_init_with_jobs(&first, brokers, "none-left", 1, 10);
    member_open(&first);
    member_receive(&first, 10);
    member_join(&second, &first);
    second.config.group.membership_timeout_ms = PATIENCE_MS;
    member_open(&second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         !member_transport(&second)->figures.is_member || !member_transport(&first)->figures.is_member;) {
        member_poll_well(&first, 0);
        member_poll_well(&second, N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(member_n_partitions(&first) + member_n_partitions(&second), 1);
    assert_string_equal(kafka_waiting(first.transport), "");
    assert_string_equal(kafka_waiting(second.transport), "");
    assert_int_equal(member_transport(&second)->outside.time_ms, 0);
    member_finish(&second);
    member_finish(&first);
}

// The time counts where a broker answers; where none does, that is what poll says. An assignment that came
// while nobody looked is answered by a consumer that is leaving: there librdkafka knows no rebalance protocol
// any more.
static void a_worker_is_closed_while_an_assignment_waits_unread(void **state)
{
    member_init_with_jobs(&first, brokers, "unread", 1, 10);
    for (int i = 0; i < 4; i++) {
        member_open(&first);
        for (int64_t until_ms = clock_ms() + PATIENCE_MS; !member_transport(&first)->group.subscribed;
             assert_true(clock_ms() < until_ms))
            member_poll_well(&first, 0);
        rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(member_transport(&first)->clients.consumer.rk);
        for (int64_t until_ms = clock_ms() + PATIENCE_MS; rd_kafka_queue_length(queue) == 0;
             assert_true(clock_ms() < until_ms))
            usleep(1000);
        rd_kafka_queue_destroy(queue);
        member_close(&first);
    }
    member_finish(&first);
}

static void a_broker_that_is_away_ends_no_member(void **state)
{
    struct error error = {0};
    if (!broker_is_ours())
        skip();
    member_init_with_jobs(&first, brokers, "away", 1, 10);
    first.config.properties = short_session;
    first.config.n_properties = 2;
    first.config.group.membership_timeout_ms = PATIENCE_MS;
    member_open(&first);
    member_receive(&first, 10);
    broker_kill();
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !kafka_is_down(member_transport(&first));) {
        member_poll_well(&first, N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
    ((struct kafka_transport *)first.transport)->outside.time_ms = 1000000;
    assert_int_equal(member_poll(&first, N_JOBS, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "no broker is up"));
    assert_int_equal(member_transport(&first)->outside.time_ms, 0);
    broker_restart();
    member_commit(&first, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", 10);
    member_finish(&first);
}

// The request that the broker did not answer outlives the question, and so must what it refers to.
static void a_question_without_an_answer_ends_no_worker_when_the_broker_is_back(void **state)
{
    struct kafka_asking asking = {0};
    bool is_stable;
    if (!broker_is_ours())
        skip();
    member_init_with_jobs(&first, brokers, "unanswered", 1, 10);
    broker_kill();
    for (int i = 0; i < 3; i++)
        assert_int_equal(kafka_members(&asking, &first.config, 100, ignore_member, NULL, &is_stable),
                         RD_KAFKA_RESP_ERR__TIMED_OUT);
    broker_restart();
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; code != RD_KAFKA_RESP_ERR_NO_ERROR;) {
        code = kafka_members(&asking, &first.config, 1000, ignore_member, NULL, &is_stable);
        assert_true(clock_ms() < until_ms);
    }
    kafka_asking_close(&asking, clock_ms() + PATIENCE_MS);
    member_finish(&first);
}

// ---- jobs of partitions that went ----

// Gives those back that are not of the member's own partition.
static void release_others(struct member *member, int32_t own)
{
    struct error error;
    size_t n_kept = 0;
    for (size_t i = 0; i < member->n_jobs; i++) {
        struct job *job = member->jobs[i];
        if (job->source.partition == own) {
            member->jobs[n_kept++] = job;
            continue;
        }
        assert_int_equal(member->transport->impl->release(member->transport, &job, 1, &error), STATUS_OK);
        job_destroy(job);
    }
    member->n_jobs = n_kept;
}

static void a_member_learns_which_partitions_of_its_jobs_are_another_s(void **state)
{
    member_init_with_jobs(&first, brokers, "lost", 2, 20);
    first.config.group.is_dynamic = true;
    member_open(&first);
    member_receive(&first, 20);
    assert_int_equal(first.n_lost, 0);
    member_join(&second, &first);
    second.config.group.is_dynamic = true;
    member_open(&second);
    poll_until_owned(1, 1);
    const struct partition *lowest = member_transport(&first)->partitions.items[0];
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; first.n_lost == 0;) {
        member_poll_well(&first, 0);
        assert_true(clock_ms() < until_ms);
    }
    assert_string_equal(first.last_lost, lowest->owned ? " 1" : " 0");
    release_others(&first, lowest->owned ? 0 : 1);
    assert_int_equal(first.n_jobs, 10);
    member_receive(&second, 10);
    member_close(&second); // without an answer
    poll_until_owned(2, 0);
    member_receive(&first, 20); // released jobs are delivered again
    assert_int_equal(first.n_lost, 1);
    member_commit(&first, NULL);
    assert_int_equal(first.n_dropped, 0);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", 20);
    member_finish(&first);
}

// ---- the end of the queue ----

static bool confirms_its_end(struct member *member)
{
    member_drain(member);
    return member->transport->impl->confirm_drained(member->transport);
}

// librdkafka itself would look for them after five minutes.
static void partitions_added_before_an_exit_are_read_first(void **state)
{
    member_init_with_jobs(&first, brokers, "added", 1, 10);
    member_open(&first);
    member_receive(&first, 10);
    member_commit(&first, NULL);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !confirms_its_end(&first);)
        assert_true(clock_ms() < until_ms);
    probe_add_partitions(brokers, first.config.topics.jobs, 3);
    probe_produce_jobs(brokers, first.config.topics.jobs, 2, 10, 5);
    member_drain(&first);
    assert_false(first.transport->impl->confirm_drained(first.transport));
    poll_until_owned(3, 0);
    member_receive(&first, 5);
    member_commit(&first, NULL);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !confirms_its_end(&first);)
        assert_true(clock_ms() < until_ms);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", 15);
    member_finish(&first);
}

// They are its neighbour's, who has not yet read them.
static void jobs_of_other_members_partitions_keep_no_member_from_its_exit(void **state)
{
    member_init_with_jobs(&first, brokers, "others", 2, 0);
    member_open(&first);
    member_join(&second, &first);
    member_open(&second);
    poll_until_owned(1, 1);
    int theirs =
        member_transport(&first)->partitions.items[0] && member_transport(&first)->partitions.items[0]->owned;
    probe_produce_jobs(brokers, first.config.topics.jobs, theirs, 0, 10);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         !first.transport->impl->is_drained(first.transport) ||
         !first.transport->impl->confirm_drained(first.transport);) {
        member_poll_well(&first, N_JOBS);
        member_poll_well(&second, 0);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(first.n_received, 0);
    member_finish(&second);
    member_finish(&first);
}

// ---- figures ----

enum { FIGURES_MAX = 8 };

// Of both members, as a sum over the partitions of what either says counts them.
static int64_t count_unfinished(void)
{
    int64_t n_of_partition[2] = {0};
    const struct member *members[] = {&first, &second};
    for (size_t m = 0; m < 2; m++) {
        struct partition_figures figures[FIGURES_MAX];
        size_t n = members[m]->transport
                       ? members[m]->transport->impl->figures(members[m]->transport, figures, FIGURES_MAX)
                       : 0;
        for (size_t i = 0; i < n; i++) {
            int64_t n_finished = figures[i].committed < 0 ? 0 : figures[i].committed;
            int64_t n_unfinished = figures[i].end - n_finished - figures[i].n_map_covered;
            if (n_unfinished > n_of_partition[figures[i].partition])
                n_of_partition[figures[i].partition] = n_unfinished;
        }
    }
    return n_of_partition[0] + n_of_partition[1];
}

static void poll_until_owned_with_figures(size_t n_first, size_t n_second)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         member_n_partitions(&first) != n_first ||
         (second.transport && member_n_partitions(&second) != n_second);) {
        member_poll_well(&first, 0);
        assert_int_equal(count_unfinished(), N_JOBS);
        if (second.transport)
            member_poll_well(&second, 0);
        assert_int_equal(count_unfinished(), N_JOBS);
        assert_true(clock_ms() < until_ms);
    }
}

// A fleet is scaled by their sum, which was 0 while partitions had no owner.
static void unfinished_jobs_are_counted_through_a_rebalance(void **state)
{
    member_init_with_jobs(&first, brokers, "figures", 2, N_JOBS);
    second.transport = NULL;
    member_open(&first);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; member_n_partitions(&first) != 2;) {
        member_poll_well(&first, 0);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(count_unfinished(), N_JOBS);
    member_join(&second, &first);
    member_open(&second);
    poll_until_owned_with_figures(1, 1);
    member_close(&second);
    poll_until_owned_with_figures(2, 0);
    member_open(&second);
    poll_until_owned_with_figures(1, 1);
    member_receive(&second, N_JOBS / 2); // which the first one shows, too, and as many as the group's offsets
    member_commit(&second, NULL);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; count_unfinished() != N_JOBS / 2;) {
        member_poll_well(&first, 0);
        member_poll_well(&second, 0);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(first.transport->impl->figures(first.transport, NULL, 0), 2);
    member_close(&second);
    poll_until_owned(2, 0);
    ((struct kafka_transport *)first.transport)->watch.figures_kept_ms = 0;
    member_open(&second);
    poll_until_owned(1, 1);
    assert_int_equal(first.transport->impl->figures(first.transport, NULL, 0), 1);
    member_finish(&second);
    member_finish(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_rebalance_goes_on_while_an_assignment_waits_for_offsets_in_doubt),
        BROKER_TEST(a_cooperative_rebalance_goes_on_while_an_assignment_waits),
        BROKER_TEST(a_rebalance_of_kip_848_goes_on_while_an_assignment_waits),
        BROKER_TEST(a_member_of_kip_848_commits_after_others_came_and_went),
        BROKER_TEST(a_worker_without_a_confirmed_place_in_its_group_ends_and_says_why),
        BROKER_TEST(partitions_that_no_transaction_holds_are_not_named),
        BROKER_TEST(a_worker_that_its_group_refuses_ends_and_says_why),
        BROKER_TEST(a_member_without_partitions_is_a_member),
        BROKER_TEST(a_worker_is_closed_while_an_assignment_waits_unread),
        BROKER_TEST(a_broker_that_is_away_ends_no_member),
        BROKER_TEST(a_question_without_an_answer_ends_no_worker_when_the_broker_is_back),
        BROKER_TEST(a_member_learns_which_partitions_of_its_jobs_are_another_s),
        BROKER_TEST(partitions_added_before_an_exit_are_read_first),
        BROKER_TEST(jobs_of_other_members_partitions_keep_no_member_from_its_exit),
        BROKER_TEST(unfinished_jobs_are_counted_through_a_rebalance),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}

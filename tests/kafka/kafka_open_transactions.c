// Readers that reach the end of a topic while transactions are open. Kafka answers a commit
// when it is decided; the records become readable a moment later, so each commit looks like this for a while.
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60000, N_COMMITTED = 3, N_OPEN = 2 };

struct reader {
    struct probe_transaction *open; // committed when the first record is read
    int n_records;
};

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    struct reader *reader = context;
    if (reader->open)
        probe_commit_transaction(reader->open);
    reader->open = NULL;
    reader->n_records++;
    return STATUS_OK;
}

// Three committed records, and two of a transaction that is open.
static void begin_transaction(struct member *member, struct reader *reader, const char *name)
{
    struct error error;
    member_init(member, brokers, name);
    assert_int_equal(kafka_create_topics(&member->config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member->config.topics.jobs, 0, 0, N_COMMITTED);
    *reader =
        (struct reader){probe_open_transaction(brokers, member->config.topics.jobs, N_COMMITTED, N_OPEN), 0};
}

static void a_topic_is_read_with_the_transaction_that_ends_meanwhile(void **state)
{
    struct member member;
    struct reader reader;
    struct error error;
    begin_transaction(&member, &reader, "settled");
    assert_int_equal(kafka_read_topic(&member.config, member.config.topics.jobs, KAFKA_END_LOG_BOUNDED,
                                      receive_record, &reader, &error),
                     STATUS_OK);
    assert_int_equal(reader.n_records, N_COMMITTED + N_OPEN);
    member_finish(&member);
}

static void a_transaction_that_stays_open_is_left_behind_with_a_warning(void **state)
{
    struct member member;
    struct reader reader;
    struct error error;
    begin_transaction(&member, &reader, "abandoned");
    struct probe_transaction *open = reader.open;
    reader.open = NULL;
    assert_int_equal(kafka_read_topic(&member.config, member.config.topics.jobs, KAFKA_END_LOG_BOUNDED,
                                      receive_record, &reader, &error),
                     STATUS_OK);
    assert_int_equal(reader.n_records, N_COMMITTED);
    assert_non_null(strstr(member.warnings, member.config.topics.jobs));
    assert_non_null(strstr(member.warnings, "transaction"));
    probe_abort(open);
    member_finish(&member);
}

static int64_t from_the_first(void *context, const char *topic, int32_t partition)
{
    return OFFSET_UNKNOWN;
}

static void a_mirror_is_not_at_the_end_before_the_transaction_that_was_open_there(void **state)
{
    struct member member;
    struct reader reader;
    struct error error;
    struct kafka_follow *follow;
    begin_transaction(&member, &reader, "followed");
    assert_int_equal(kafka_follow_open(&follow, &member.config, &member.config.topics.jobs, 1, from_the_first,
                                       NULL, &error),
                     STATUS_OK);
    struct probe_transaction *open = reader.open;
    reader.open = NULL;
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    while (!kafka_follow_is_at_end(follow) && clock_ms() < until_ms) {
        assert_int_equal(kafka_follow_poll(follow, 500, 100, receive_record, &reader, &error), STATUS_OK);
        if (open && reader.n_records == N_COMMITTED) {
            // One more poll: the reader meets the last stable offset.
            assert_int_equal(kafka_follow_poll(follow, 1500, 100, receive_record, &reader, &error),
                             STATUS_OK);
            assert_false(kafka_follow_is_at_end(follow));
            probe_commit_transaction(open);
            open = NULL;
        }
    }
    assert_int_equal(reader.n_records, N_COMMITTED + N_OPEN);
    kafka_follow_close(follow);
    member_finish(&member);
}

static void jobs_are_not_drained_while_a_submission_is_open(void **state)
{
    struct member member;
    struct reader reader;
    struct error error;
    begin_transaction(&member, &reader, "drained");
    member_open(&member);
    member_receive(&member, N_COMMITTED);
    for (int64_t until_ms = clock_ms() + 3000; clock_ms() < until_ms;) {
        assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
        assert_false(member.transport->impl->is_drained(member.transport));
    }
    probe_commit_transaction(reader.open);
    member_receive(&member, N_COMMITTED + N_OPEN);
    member_drain(&member);
    member_commit(&member, NULL);
    member_close(&member);
    member_finish(&member);
}

static int64_t end_of(const struct member *member)
{
    struct partition_figures figures[2];
    assert_int_equal(member->transport->impl->figures(member->transport, figures, 2), 1);
    return figures[0].end;
}

static void a_worker_says_that_an_open_transaction_holds_jobs_back(void **state)
{
    struct member member;
    struct reader reader;
    begin_transaction(&member, &reader, "held");
    member_open(&member);
    ((struct kafka_transport *)member.transport)->watch.held_ms = 1000;
    member_receive(&member, N_COMMITTED);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(member.warnings, "a transaction stays open");) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    assert_non_null(strstr(member.warnings, "partition 0: a transaction"));
    assert_non_null(strstr(member.warnings, "at offset 3"));
    assert_int_equal(end_of(&member), N_COMMITTED + N_OPEN);
    member.warnings[0] = '\0';
    probe_commit_transaction(reader.open);
    member_receive(&member, N_COMMITTED + N_OPEN);
    member_drain(&member);
    assert_null(strstr(member.warnings, "a transaction stays open")); // said once
    member_commit(&member, NULL);
    member_finish(&member);
}

static const char *waiting_of(struct member *member)
{
    return member->transport->impl->waiting(member->transport);
}

static void poll_until_ready(struct member *member, bool is_ready)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !waiting_of(member)[0] != is_ready;) {
        member_poll_well(member, 100);
        if (clock_ms() > until_ms)
            fail_msg("it is %s ready: %s", is_ready ? "not" : "still", waiting_of(member));
    }
}

static void a_worker_without_jobs_is_not_ready_while_a_transaction_holds_its_next_ones_back(void **state)
{
    struct member member;
    struct reader reader;
    begin_transaction(&member, &reader, "unready");
    member_open(&member);
    struct kafka_transport *kafka = (struct kafka_transport *)member.transport;
    kafka->watch.held_ms = 500;
    kafka->watch.held_unready_ms = 1000;
    member_receive(&member, N_COMMITTED);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(member.warnings, "a transaction stays open");) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    for (int64_t until_ms = clock_ms() + 2 * kafka->watch.held_unready_ms; clock_ms() < until_ms;) {
        member_poll_well(&member, 100);
        assert_string_equal(waiting_of(&member), ""); // it computes those before
    }
    member_commit(&member, NULL);
    poll_until_ready(&member, false);
    if (!strstr(waiting_of(&member), "partition 0: the jobs from offset 3 on are held back by a transaction"))
        fail_msg("%s", waiting_of(&member));
    assert_int_equal(kafka->stopped.status, STATUS_OK);
    probe_commit_transaction(reader.open);
    member_receive(&member, N_OPEN);
    poll_until_ready(&member, true);
    member_commit(&member, NULL);
    member_finish(&member);
}

// A producer that always has one open, as one with checkpoints: jobs come all the time.
static void a_transaction_after_another_is_held_back_for_its_own_time(void **state)
{
    struct member member;
    struct reader reader;
    begin_transaction(&member, &reader, "sequence");
    member_open(&member);
    struct kafka_transport *kafka = (struct kafka_transport *)member.transport;
    member_receive(&member, N_COMMITTED);
    while (!kafka->partitions.items[0]->held.since_ms)
        member_poll_well(&member, 100);
    const struct held first = kafka->partitions.items[0]->held;
    kafka->watch.held_looked_ms = INT64_MAX; // no look while the next one takes its place
    probe_commit_transaction(reader.open);
    struct probe_transaction *second =
        probe_open_transaction(brokers, member.config.topics.jobs, N_COMMITTED + N_OPEN, 1);
    member_receive(&member, N_COMMITTED + N_OPEN);
    int64_t low, high = 0;
    while (kafka->partitions.items[0]->fetching.end < N_COMMITTED + N_OPEN + 1 ||
           high < N_COMMITTED + N_OPEN + 2) {
        member_poll_well(&member, 100);
        rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, member.config.topics.jobs, 0, &low, &high);
    }
    kafka->watch.held_looked_ms = 0;
    int64_t began_ms = clock_ms();
    while (kafka->watch.held_looked_ms == 0 || kafka->partitions.items[0]->held.since_ms == 0)
        member_poll_well(&member, 100);
    assert_int_equal(first.offset, N_COMMITTED);
    assert_int_equal(kafka->partitions.items[0]->held.offset, N_COMMITTED + N_OPEN + 1);
    assert_true(kafka->partitions.items[0]->held.since_ms >= began_ms);
    probe_abort(second);
    member_finish(&member);
}

static void a_mirror_knows_what_an_open_transaction_keeps_from_it(void **state)
{
    struct member member;
    struct reader reader;
    struct error error;
    struct kafka_follow *follow;
    begin_transaction(&member, &reader, "kept");
    struct probe_transaction *open = reader.open;
    reader.open = NULL;
    assert_int_equal(kafka_follow_open(&follow, &member.config, &member.config.topics.jobs, 1, from_the_first,
                                       NULL, &error),
                     STATUS_OK);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !kafka_follow_is_at_end(follow);) {
        assert_int_equal(kafka_follow_poll(follow, 500, 100, receive_record, &reader, &error), STATUS_OK);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(kafka_follow_check_end(follow, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, member.config.topics.jobs));
    assert_non_null(strstr(error.text, "partition 0"));
    probe_abort(open);
    kafka_follow_close(follow);
    member_finish(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_topic_is_read_with_the_transaction_that_ends_meanwhile),
        BROKER_TEST(a_transaction_that_stays_open_is_left_behind_with_a_warning),
        BROKER_TEST(a_mirror_is_not_at_the_end_before_the_transaction_that_was_open_there),
        BROKER_TEST(a_mirror_knows_what_an_open_transaction_keeps_from_it),
        BROKER_TEST(a_worker_says_that_an_open_transaction_holds_jobs_back),
        BROKER_TEST(a_worker_without_jobs_is_not_ready_while_a_transaction_holds_its_next_ones_back),
        BROKER_TEST(a_transaction_after_another_is_held_back_for_its_own_time),
        BROKER_TEST(jobs_are_not_drained_while_a_submission_is_open),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}

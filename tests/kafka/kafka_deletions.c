// Records that a worker never reads, or that are not jobs: deleted by retention, gaps in the log, tombstones,
// offsets that others committed, a group with more members than partitions.
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60000 };

static const struct kafka_figures *figures_of(const struct member *member)
{
    return kafka_transport_figures(member->transport);
}

static struct partition_figures only_partition(const struct member *member)
{
    struct partition_figures figures[2];
    assert_int_equal(member->transport->impl->figures(member->transport, figures, 2), 1);
    return figures[0];
}

static void poll_until_logged(struct member *member, const char *part)
{
    struct error error = {0};
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(member->warnings, part);) {
        enum status status = member_poll(member, 100, &error);
        if ((status != STATUS_OK && status != STATUS_RETRY) || clock_ms() > until_ms)
            fail_msg("expected \"%s\" in: %s (%s)", part, member->warnings, error.text);
    }
}

static void poll_until_refused(struct member *member, const char *part)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(member, 100, &error);
        if (clock_ms() > until_ms)
            break;
    }
    if (status != STATUS_REFUSE || !strstr(error.text, part))
        fail_msg(
            "expected a refusal for \"%s\", got status %d: %s; %zu jobs received; warnings: %s; last: %s",
            part, status, error.text, member->n_received, member->warnings, member->last_log);
}

static bool is_odd(const struct job *job)
{
    return member_job_number(job) % 2;
}

// Published: 0 to 9, and 11, 13, ... 29. Deleted: all below `start`.
static void delete_below(struct member *member, const char *name, int64_t start)
{
    member_init(member, brokers, name);
    member_open(member);
    probe_produce_jobs(brokers, member->config.topics.jobs, 0, 0, 50);
    member_receive(member, 10);
    member_commit(member, NULL);
    member_receive(member, 20);
    member_commit(member, is_odd);
    member_close(member);
    probe_delete_records(brokers, member->config.topics.jobs, 0, start);
}

static void jobs_that_were_deleted_before_they_were_read_are_counted_and_warned_of(void **state)
{
    struct member member;
    delete_below(&member, "deleted", 40);
    member_open(&member);
    member_receive(&member, 10);
    poll_until_logged(&member, "the offsets 10 to 39 were deleted");
    assert_non_null(strstr(member.warnings, "up to 20 jobs"));
    assert_int_equal(figures_of(&member)->records.n_deleted, 20); // ten of the thirty were published
    assert_int_equal(only_partition(&member).n_deleted, 20);
    member_commit(&member, NULL);
    member_drain(&member);
    assert_int_equal(figures_of(&member)->records.n_deleted, 20);
    member_finish(&member);
}

// Of 50, all below 40, before the group has committed anything.
static void delete_before_the_first_commit(struct member *member, const char *name)
{
    struct error error;
    member_init(member, brokers, name);
    assert_int_equal(kafka_create_topics(&member->config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member->config.topics.jobs, 0, 0, 50);
    probe_delete_records(brokers, member->config.topics.jobs, 0, 40);
}

static void jobs_that_were_deleted_before_the_group_s_first_commit_are_counted_and_warned_of(void **state)
{
    struct member member;
    delete_before_the_first_commit(&member, "unseen");
    member_open(&member);
    member_receive(&member, 10);
    poll_until_logged(&member, "the offsets 0 to 39 were deleted");
    assert_non_null(strstr(member.warnings, "up to 40 jobs"));
    assert_non_null(strstr(member.warnings, "older than its group"));
    assert_int_equal(figures_of(&member)->records.n_deleted, 40);
    member_commit(&member, NULL);
    member_drain(&member);
    assert_int_equal(figures_of(&member)->records.n_deleted, 40);
    member_finish(&member);
}

static void jobs_deleted_before_the_first_commit_end_a_worker_that_is_to_refuse_them(void **state)
{
    struct member member;
    delete_before_the_first_commit(&member, "unseen-refused");
    member.config.group.is_dynamic = true; // no member stays in the group
    member.config.refuse_deleted = true;
    member_open(&member);
    poll_until_refused(&member, "the offsets 0 to 39 were deleted");
    member_close(&member);
    // the offset where the log starts, set by hand: a topic that is older than its group is accepted
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 40, "");
    member_open(&member);
    member_receive(&member, 10);
    member_commit(&member, NULL);
    member_finish(&member);
}

static void a_log_that_was_emptied_is_noticed_at_its_end(void **state)
{
    struct member member;
    delete_below(&member, "emptied", 50);
    member_open(&member);
    poll_until_logged(&member, "the offsets 10 to 49 were deleted");
    assert_int_equal(figures_of(&member)->records.n_deleted, 30);
    member_finish(&member);
}

static void deleted_jobs_end_a_worker_that_is_to_refuse_them(void **state)
{
    struct member member;
    delete_below(&member, "refused", 40);
    member.config.refuse_deleted = true;
    for (int starts = 0; starts < 2; starts++) { // nothing was committed beyond them
        member_open(&member);
        poll_until_refused(&member, "the offsets 10 to 39 were deleted");
        member_close(&member);
    }
    assert_int_equal(probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, NULL),
                     10);
    member_finish(&member);
}

static void markers_and_aborted_records_are_no_deleted_jobs(void **state)
{
    struct member member;
    member_init(&member, brokers, "markers");
    member.config.refuse_deleted = true;
    member_open(&member);
    probe_produce_transaction(brokers, member.config.topics.jobs, 0, 5, true);
    probe_produce_transaction(brokers, member.config.topics.jobs, 5, 5, false);
    probe_produce_transaction(brokers, member.config.topics.jobs, 5, 5, true);
    member_receive(&member, 10);
    member_commit(&member, NULL);
    probe_delete_records(brokers, member.config.topics.jobs, 0, 10); // behind the position
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 10, 5);
    member_receive(&member, 5);
    member_drain(&member);
    assert_int_equal(figures_of(&member)->records.n_deleted, 0);
    member_finish(&member);
}

// From now on only the test itself, or a commit, queries where logs start.
static struct kafka_transport *stop_gap_queries(struct member *member)
{
    struct kafka_transport *kafka = (struct kafka_transport *)member->transport;
    kafka->watch.gaps_looked_ms = clock_ms();
    kafka->watch.gaps_interval_ms = INT32_MAX;
    return kafka;
}

static int32_t count_gaps(const struct kafka_transport *kafka)
{
    int32_t n_gaps = 0;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        n_gaps += kafka->partitions.items[i]->gaps.n_items;
    return n_gaps;
}

// Of each partition the second of three jobs was deleted unread.
static void gaps_of_many_partitions_take_one_query(void **state)
{
    int n_partitions = tests_are_wide() ? 40 : 12;
    struct member member;
    struct error error = {0};
    member_init(&member, brokers, "one-query");
    member.config.topics.n_partitions = n_partitions;
    member_open(&member);
    for (int i = 0; i < n_partitions; i++)
        probe_produce_jobs(brokers, member.config.topics.jobs, i, 2 * i, 1);
    member_receive(&member, (size_t)n_partitions);
    member_commit(&member, NULL);
    member_close(&member);
    for (int i = 0; i < n_partitions; i++) {
        probe_produce_jobs(brokers, member.config.topics.jobs, i, 1000 + 2 * i, 2);
        probe_delete_records(brokers, member.config.topics.jobs, i, 2);
    }
    member_open(&member);
    struct kafka_transport *kafka = stop_gap_queries(&member);
    member_receive(&member, (size_t)n_partitions);
    assert_int_equal(count_gaps(kafka), n_partitions);
    assert_int_equal(figures_of(&member)->n_gap_queries, 0);
    kafka->watch.gaps_interval_ms = 0;
    assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
    assert_int_equal(figures_of(&member)->n_gap_queries, 1);
    assert_int_equal(count_gaps(kafka), 0);
    assert_int_equal(figures_of(&member)->records.n_deleted, n_partitions);
    member_finish(&member);
}

// Fetched before they were deleted: nothing was lost, although retention deleted records before the position.
static void markers_that_were_fetched_take_no_query_and_are_no_deleted_jobs(void **state)
{
    enum { N_TRANSACTIONS = 2 * PARTITION_GAPS_MAX };
    struct member member;
    struct error error = {0};
    member_init(&member, brokers, "settled");
    member.config.refuse_deleted = true;
    member_open(&member);
    struct kafka_transport *kafka = stop_gap_queries(&member);
    probe_produce_single_transactions(brokers, member.config.topics.jobs, 0, N_TRANSACTIONS);
    member_receive(&member, N_TRANSACTIONS);
    member_drain(&member); // beyond the last marker
    assert_int_equal(count_gaps(kafka), 0);
    probe_delete_records(brokers, member.config.topics.jobs, 0, 2 * N_TRANSACTIONS);
    kafka->watch.gaps_interval_ms = 0;
    assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
    member_commit(&member, NULL);
    assert_int_equal(figures_of(&member)->n_gap_queries, 0);
    assert_int_equal(figures_of(&member)->records.n_deleted, 0);
    assert_int_equal(member.n_published, N_TRANSACTIONS);
    member_finish(&member);
}

// Of the group's offsets alone, as `sheaf lag` counts them.
static int64_t count_unfinished(const struct member *member)
{
    struct error error;
    struct kafka_follow *follow;
    struct kafka_standing standing;
    size_t n;
    const char *topic = member->config.topics.jobs;
    assert_int_equal(kafka_follow_open(&follow, &member->config, &topic, 1, NULL, NULL, &error), STATUS_OK);
    assert_int_equal(kafka_follow_standings(follow, 0, &standing, 1, &n, &error), STATUS_OK);
    kafka_follow_close(follow);
    return kafka_standing_unfinished(&standing);
}

static bool is_not_first(const struct job *job)
{
    return member_job_number(job) > 0;
}

static void markers_and_aborted_records_are_no_unfinished_jobs(void **state)
{
    enum { N_TRANSACTIONS = 300, N_MORE = 20 };
    struct member member;
    member_init(&member, brokers, "lag");
    member_open(&member);
    probe_produce_single_transactions(brokers, member.config.topics.jobs, 0, N_TRANSACTIONS);
    member_receive(&member, N_TRANSACTIONS);
    member_commit(&member, is_not_first); // perhaps before the last marker was passed
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; count_unfinished(&member) != 1;) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    // Nothing is finished from here on: the end is passed while a job runs.
    probe_produce_transaction(brokers, member.config.topics.jobs, 1000, N_MORE, false);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; count_unfinished(&member) != 1;) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    struct partition_figures figures = only_partition(&member);
    assert_int_equal(figures.committed, 0);
    assert_int_equal(figures.end - figures.committed - figures.n_map_covered, 1);
    assert_false(partition_find(&member_transport(&member)->partitions, 0)->gaps.are_unsaved);
    member_close(&member);
    assert_int_equal(count_unfinished(&member), 1);
    member_open(&member); // the next owner reads the map
    member_drain(&member);
    assert_int_equal(member.n_received, N_TRANSACTIONS + 1);
    member_commit(&member, NULL);
    assert_int_equal(count_unfinished(&member), 0);
    member_finish(&member);
}

static void a_commit_of_a_worker_that_is_to_refuse_deleted_jobs_skips_none(void **state)
{
    struct member member;
    struct error error = {0};
    delete_below(&member, "unskipped", 40);
    member.config.refuse_deleted = true;
    member_open(&member);
    (void)stop_gap_queries(&member);
    member_receive(&member, 10);
    assert_int_equal(member_commit_once(&member, NULL, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "the offsets 10 to 39 were deleted"));
    member_close(&member);
    assert_int_equal(probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, NULL),
                     10);
    member_finish(&member);
}

// n_later transactions of one job behind a hundred deleted jobs; 0: a long aborted one.
static void expect_hundred_deleted(const char *name, int n_later)
{
    struct member member;
    member_init(&member, brokers, name);
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 1);
    member_receive(&member, 1);
    member_commit(&member, NULL);
    member_close(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 1, 101);
    probe_delete_records(brokers, member.config.topics.jobs, 0, 101);
    if (n_later == 0)
        probe_produce_transaction(brokers, member.config.topics.jobs, 102, 200, false);
    else
        probe_produce_single_transactions(brokers, member.config.topics.jobs, 102, n_later);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 500, 1);
    member_open(&member);
    struct kafka_transport *kafka = stop_gap_queries(&member);
    member_receive(&member, (size_t)n_later + 2);
    assert_int_equal(figures_of(&member)->records.n_deleted, 0);
    kafka->watch.gaps_interval_ms = 0;
    poll_until_logged(&member, "the offsets 1 to 100 were deleted");
    assert_int_equal(figures_of(&member)->records.n_deleted, 100);
    member_finish(&member);
}

static void deleted_jobs_are_counted_before_a_longer_gap(void **state)
{
    expect_hundred_deleted("longer", 0);
}

static void deleted_jobs_are_counted_before_more_gaps_than_are_kept(void **state)
{
    expect_hundred_deleted("more-gaps", PARTITION_GAPS_MAX + 8);
}

static void records_without_a_value_are_skipped_and_counted(void **state)
{
    struct member member;
    size_t n_records;
    member_init(&member, brokers, "tombstones");
    member_open(&member);
    probe_produce(brokers, member.config.topics.jobs, 0, "gone", NULL, 0, NULL, NULL);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 3);
    probe_produce(brokers, member.config.topics.jobs, 0, "empty", "", 0, NULL,
                  NULL); // no tombstone, and no job
    probe_produce(brokers, member.config.topics.jobs, 0, "gone", NULL, 0, NULL, NULL);
    member_drain(&member);
    assert_int_equal(member.n_received, 4);
    assert_int_equal(figures_of(&member)->records.n_tombstones, 2);
    member_commit(&member, NULL);
    assert_int_equal(probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, NULL),
                     6);
    probe_free(probe_read(brokers, member.config.topics.dead, &n_records));
    assert_int_equal(n_records, 1);
    member_finish(&member);
}

static void an_offset_that_another_program_committed_is_warned_of(void **state)
{
    struct member member;
    member_init(&member, brokers, "others");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 20);
    member_close(&member);
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 12, "");
    member_open(&member);
    member_receive(&member, 8);
    assert_non_null(strstr(member.warnings, "partition 0: offset 12 of group"));
    member_commit(&member, NULL);
    member_close(&member);
    member.warnings[0] = '\0';
    member_open(&member); // its own offsets
    member_drain(&member);
    assert_null(strstr(member.warnings, "another program"));
    member_finish(&member);
}

static void a_reset_to_the_first_offset_is_warned_of(void **state)
{
    struct member member;
    member_init(&member, brokers, "reset");
    member.config.group.is_dynamic = true; // no member stays in the group
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 5);
    member_receive(&member, 5);
    member_commit(&member, NULL);
    member_close(&member);
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 0, "");
    member_open(&member);
    member_receive(&member, 5);
    assert_non_null(strstr(member.warnings, "partition 0: offset 0 of group"));
    member_finish(&member);
}

static void a_worker_without_a_partition_says_so(void **state)
{
    struct member first, second;
    member_init(&first, brokers, "surplus");
    member_open(&first);
    member_drain(&first);
    member_join(&second, &first);
    member_open(&second);
    ((struct kafka_transport *)second.transport)->watch.quiet_ms = 600;
    ((struct kafka_transport *)first.transport)->watch.quiet_ms = 600;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         (!strstr(first.warnings, "no partition for this worker") &&
          !strstr(second.warnings, "no partition for this worker")) ||
         member_n_partitions(&first) + member_n_partitions(&second) != 1;) {
        struct error error;
        (void)!member_poll(&first, 100, &error);
        (void)!member_poll(&second, 100, &error);
        assert_true(clock_ms() < until_ms);
    }
    struct member *others[] = {&first, &second};
    for (int i = 0; i < 2; i++) {
        const char *said = strstr(others[i]->warnings, "no partition for this worker");
        if (member_n_partitions(others[i]) != (said ? 0 : 1))
            fail_msg("%zu partitions: %s", member_n_partitions(others[i]), others[i]->warnings);
        assert_true(!said || (strstr(said, "surplus") && !strstr(said + 1, "no partition for this worker")));
    }
    member_close(&second);
    member_finish(&first);
}

static void jobs_that_a_dead_worker_had_begun_are_counted_as_attempts(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "attempts");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 3);
    member_receive(&member, 3);
    assert_int_equal(member.last_attempts, 0);
    const struct transport_impl *impl = member.transport->impl;
    assert_int_equal(impl->start(member.transport, member.jobs, 3, SUSPECT_AMONG_MANY, &error), STATUS_OK);
    ((struct kafka_transport *)member.transport)->stopped.status = STATUS_RESTART; // no word of leaving
    member_close(&member);
    member_open(&member);
    member_receive(&member, 3);
    assert_int_equal(member.last_attempts, 1);
    member_finish(&member);
}

static void jobs_that_a_worker_had_begun_and_gave_back_are_no_attempts(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "given-back");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 3);
    member_receive(&member, 3);
    const struct transport_impl *impl = member.transport->impl;
    assert_int_equal(impl->start(member.transport, member.jobs, 3, SUSPECT_AMONG_MANY, &error), STATUS_OK);
    member_close(&member);
    member_open(&member);
    member_receive(&member, 3);
    assert_int_equal(member.last_attempts, 0);
    member_finish(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(jobs_that_were_deleted_before_they_were_read_are_counted_and_warned_of),
        BROKER_TEST(jobs_that_were_deleted_before_the_group_s_first_commit_are_counted_and_warned_of),
        BROKER_TEST(jobs_deleted_before_the_first_commit_end_a_worker_that_is_to_refuse_them),
        BROKER_TEST(a_log_that_was_emptied_is_noticed_at_its_end),
        BROKER_TEST(deleted_jobs_end_a_worker_that_is_to_refuse_them),
        BROKER_TEST(markers_and_aborted_records_are_no_deleted_jobs),
        BROKER_TEST(gaps_of_many_partitions_take_one_query),
        BROKER_TEST(markers_that_were_fetched_take_no_query_and_are_no_deleted_jobs),
        BROKER_TEST(markers_and_aborted_records_are_no_unfinished_jobs),
        BROKER_TEST(a_commit_of_a_worker_that_is_to_refuse_deleted_jobs_skips_none),
        BROKER_TEST(deleted_jobs_are_counted_before_a_longer_gap),
        BROKER_TEST(deleted_jobs_are_counted_before_more_gaps_than_are_kept),
        BROKER_TEST(records_without_a_value_are_skipped_and_counted),
        BROKER_TEST(an_offset_that_another_program_committed_is_warned_of),
        BROKER_TEST(a_reset_to_the_first_offset_is_warned_of),
        BROKER_TEST(a_worker_without_a_partition_says_so),
        BROKER_TEST(jobs_that_a_dead_worker_had_begun_are_counted_as_attempts),
        BROKER_TEST(jobs_that_a_worker_had_begun_and_gave_back_are_no_attempts),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}

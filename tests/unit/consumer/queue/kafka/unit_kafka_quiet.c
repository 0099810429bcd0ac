// Partitions without jobs to deliver (consumer/queue/kafka/kafka_quiet.c): which positions are committed, and which
// partitions are compared with the log and fetched again. The log's ends are this program's.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 3, START_MS = 1000000, QUIET_MS = 30000, POSITION = 10 };

static struct {
    int64_t now_ms;
    int64_t ends[N_PARTITIONS];
    rd_kafka_resp_err_t code;
    size_t n_queued; // events
    char asked[8];   // partitions
    int n_looks, n_commits, n_gap_warnings;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static char queue;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

enum status __wrap_kafka_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                bool *committed, struct error *error)
{
    assert_ptr_equal(transport, &kafka.base);
    assert_int_equal(n_jobs, 0);
    world.n_commits++;
    return error_set(error, STATUS_RETRY, ERROR_BROKER, "away");
}

void __wrap_kafka_gaps_warn_when_idle(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    world.n_gap_warnings++;
}

size_t __wrap_rd_kafka_queue_length(rd_kafka_queue_t *of)
{
    assert_ptr_equal(of, &queue);
    return world.n_queued;
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    assert_ptr_equal(handle, &kafka.clients.consumer);
    assert_int_equal(which, RD_KAFKA_OFFSET_END);
    assert_int_equal(timeout_ms, 1000);
    world.n_looks++;
    world.now_ms += 5;
    memset(world.asked, 0, sizeof world.asked);
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        world.asked[i] = (char)('0' + list->elems[i].partition);
        list->elems[i].offset = world.ends[list->elems[i].partition];
    }
    return world.code;
}

// All partitions are owned and were read up to offset 10, which was committed; the log ends there.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    memset(&kafka, 0, sizeof kafka);
    world.now_ms = START_MS;
    config = (struct kafka_config){.brokers = "broker:9092", .topics.jobs = "jobs"};
    kafka.config = &config;
    kafka.intake.records = (rd_kafka_queue_t *)&queue;
    kafka.watch.quiet_ms = QUIET_MS;
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        struct partition *added = partition_add(&kafka.partitions, i, N_PARTITIONS);
        added->owned = true;
        added->committed = POSITION;
        added->fetching.moved_ms = START_MS;
        offset_map_restart_empty(&added->map, POSITION);
        world.ends[i] = POSITION;
    }
    return 0;
}

static int end(void **state)
{
    partition_table_finish(&kafka.partitions);
    return 0;
}

static struct partition *partition_of(int32_t id)
{
    return partition_find(&kafka.partitions, id);
}

// ---- positions ----

static int commit_after(int64_t pause_ms)
{
    int before = world.n_commits;
    world.now_ms += pause_ms;
    kafka_quiet_commit(&kafka);
    return world.n_commits - before;
}

TEST(a_position_beyond_the_last_job_is_committed_once_a_second)
{
    partition_of(0)->fetching.at_end = true; // its position is committed
    assert_int_equal(commit_after(0), 0);
    partition_of(2)->fetching.at_end = true;
    partition_of(2)->committed = POSITION - 1;
    assert_int_equal(commit_after(0), 1);
    assert_int_equal(commit_after(999), 0);
    assert_int_equal(commit_after(1), 1); // one commit has all partitions
    partition_of(1)->fetching.at_end = true;
    partition_of(1)->committed = -1;
    assert_int_equal(commit_after(1000), 1);
}

TEST(only_partitions_that_are_idle_are_committed)
{
    struct partition *partition = partition_of(1);
    partition->fetching.at_end = true;
    partition->committed = POSITION - 1;
    partition->owned = false;
    assert_int_equal(commit_after(1000), 0);
    partition->owned = true;
    partition->fetching.at_end = false;
    assert_int_equal(commit_after(1000), 0);
    partition->fetching.at_end = true;
    partition->map.n_running = 1;
    assert_int_equal(commit_after(1000), 0);
    partition->map.n_running = 0;
    assert_int_equal(commit_after(1000), 1);
}

TEST(gaps_after_a_running_job_are_committed_when_no_record_follows)
{
    struct partition *partition = partition_of(1);
    partition->map.n_running = 1;
    partition->gaps.are_unsaved = true;
    assert_int_equal(commit_after(1000), 0); // the next records cause a commit
    partition->fetching.paused = true;
    assert_int_equal(commit_after(1000), 1);
    partition->fetching.paused = false;
    partition->fetching.at_end = true;
    assert_int_equal(commit_after(999), 0);
    assert_int_equal(commit_after(1), 1);
    partition->committed = -1; // no job was started yet
    assert_int_equal(commit_after(1000), 0);
    partition->committed = POSITION;
    partition->owned = false;
    assert_int_equal(commit_after(1000), 0);
}

// ---- fetching ----

static void compare_after(int64_t pause_ms)
{
    world.asked[0] = '\0';
    world.now_ms += pause_ms;
    kafka_quiet_compare(&kafka);
}

TEST(partitions_are_compared_when_they_are_quiet_for_long)
{
    compare_after(0);
    assert_int_equal(world.n_looks + world.n_gap_warnings, 0);
    partition_of(1)->fetching.moved_ms += 1;
    compare_after(QUIET_MS);
    assert_string_equal(world.asked, "02");
    assert_int_equal(world.n_gap_warnings, 1);
    compare_after(QUIET_MS / 6 - 6); // looked at six times in that time, from its beginning
    assert_string_equal(world.asked, "");
    assert_int_equal(world.n_gap_warnings, 1);
    compare_after(1);
    assert_string_equal(world.asked, "1");
    assert_int_equal(world.n_gap_warnings, 2);
}

TEST(only_partitions_that_are_read_are_compared)
{
    partition_of(0)->owned = false;
    partition_of(1)->fetching.paused = true;
    partition_of(2)->map.position = OFFSET_UNKNOWN;
    compare_after(QUIET_MS);
    assert_int_equal(world.n_looks, 0);
}

TEST(a_new_consumer_that_fetches_no_more_is_not_replaced_by_another)
{
    world.ends[0] = POSITION + 1;
    compare_after(QUIET_MS);
    compare_after(QUIET_MS);
    assert_true(kafka.watch.is_stuck);
    kafka.watch.is_stuck = partition_of(0)->fetching.was_rewound = false; // as kafka_group.c begins anew
    compare_after(QUIET_MS);
    compare_after(QUIET_MS);
    assert_false(kafka.watch.is_stuck);
    partition_of(0)->fetching.was_renewed = false; // a record has arrived
    compare_after(QUIET_MS);
    assert_true(kafka.watch.is_stuck);
}

TEST(a_stalled_partition_is_not_compared)
{
    for (int i = 0; i < 3; i++)
        strcpy(partition_of(i)->stall.what, "corrupt");
    compare_after(QUIET_MS);
    assert_int_equal(world.n_looks, 0);
}

TEST(a_partition_with_more_is_fetched_again_and_then_by_a_new_consumer)
{
    world.ends[0] = POSITION + 1;
    compare_after(QUIET_MS);
    assert_true(partition_of(0)->fetching.rewind && partition_of(0)->fetching.was_rewound);
    assert_false(partition_of(1)->fetching.rewind || partition_of(1)->fetching.was_rewound);
    assert_false(kafka.watch.is_stuck);
    assert_int_equal(partition_of(0)->fetching.moved_ms, world.now_ms);
    partition_of(0)->fetching.rewind = false;
    compare_after(QUIET_MS);
    assert_true(kafka.watch.is_stuck);
    world.ends[0] = POSITION; // another partition's looks leave that
    compare_after(QUIET_MS);
    assert_true(kafka.watch.is_stuck);
}

TEST(without_an_answer_nothing_is_fetched_again)
{
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.ends[2] = POSITION + 1;
    compare_after(QUIET_MS);
    assert_string_equal(world.asked, "012");
    assert_false(partition_of(2)->fetching.rewind);
    compare_after(QUIET_MS / 6);
    assert_string_equal(world.asked, ""); // asked again when it is quiet for as long again
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    compare_after(QUIET_MS);
    assert_true(partition_of(2)->fetching.rewind);
}

TEST(an_event_that_waits_may_be_any_partition_s)
{
    world.n_queued = 1;
    compare_after(QUIET_MS);
    world.n_queued = 0;
    compare_after(QUIET_MS - 1);
    assert_int_equal(world.n_looks, 0);
    compare_after(QUIET_MS / 6);
    assert_string_equal(world.asked, "012");
}

TEST(while_no_broker_is_up_nothing_is_asked)
{
    kafka.clients.consumer.is_down = true;
    compare_after(QUIET_MS);
    kafka.clients.consumer.is_down = false;
    kafka.clients.producer.is_down = true;
    compare_after(QUIET_MS);
    assert_int_equal(world.n_looks, 0);
    kafka.clients.producer.is_down = false;
    compare_after(0);
    assert_int_equal(world.n_looks, 1);
}

TEST_FIXTURE(begin, end);

// Crash accounting in commits: which starts of jobs cost a commit, what it says, and what a worker that
// leaves says (consumer/queue/kafka/kafka_suspects.c). Commits are this program's.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"

enum { FIRST = 50, N_PARTITIONS = 3, N_JOBS = 4, PROMISED = FIRST + 2 };

static struct {
    int n_commits;
    enum status status;
    bool is_saved[N_PARTITIONS];    // by a commit that succeeds
    bool was_unsaved[N_PARTITIONS]; // when it was called
    int n_hurries;
    enum status hurrying;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct job *jobs[N_JOBS]; // offsets FIRST + i of partition 0
static struct error error;

static struct partition *partition_of(int32_t id)
{
    struct partition *partition = partition_find(&kafka.partitions, id);
    assert_non_null(partition);
    return partition;
}

enum status __wrap_kafka_commit(struct transport *transport, struct job *const *some, size_t n_jobs,
                                bool *committed, struct error *fault)
{
    assert_ptr_equal(transport, &kafka.base);
    assert_null(some);
    assert_null(committed);
    assert_int_equal(n_jobs, 0);
    world.n_commits++;
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        world.was_unsaved[i] = partition_of(i)->unsaved;
        if (world.status == STATUS_OK && world.is_saved[i])
            partition_of(i)->unsaved = false;
    }
    return world.status == STATUS_OK ? STATUS_OK : error_set(fault, world.status, ERROR_BROKER, "commit");
}

enum status __wrap_kafka_transaction_hurry(struct kafka_transport *of, int64_t deadline_ms,
                                           struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    assert_int_equal(world.n_commits, 0);
    world.n_hurries++;
    kafka.clients.producer.throttle.until_ms = 0;
    return world.hurrying == STATUS_OK ? STATUS_OK : error_set(fault, world.hurrying, ERROR_BROKER, "away");
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    memset(world.is_saved, true, sizeof world.is_saved);
    config = (struct kafka_config){.brokers = "broker:9092"};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    error = (struct error){0};
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        struct partition *partition = partition_add(&kafka.partitions, i, N_PARTITIONS);
        assert_non_null(partition);
        partition->owned = true;
        partition->suspects.promised = PROMISED;
        offset_map_restart_empty(&partition->map, FIRST);
        for (int j = 0; j < N_JOBS; j++)
            assert_int_equal(offset_map_deliver(&partition->map, FIRST + j), DELIVERY_NEW);
    }
    for (int i = 0; i < N_JOBS; i++) {
        jobs[i] = job_create();
        jobs[i]->source.partition = 0;
        jobs[i]->source.offset = FIRST + i;
    }
    return 0;
}

static int end(void **state)
{
    for (int i = 0; i < N_JOBS; i++)
        job_destroy(jobs[i]);
    partition_table_finish(&kafka.partitions);
    return 0;
}

static enum status start(size_t first, size_t n, enum suspect_state how)
{
    world.n_commits = 0;
    return kafka_start(&kafka.base, jobs + first, n, how, &error);
}

// ---- starts ----

TEST(promised_jobs_start_without_a_commit)
{
    assert_int_equal(start(0, 2, SUSPECT_AMONG_MANY), STATUS_OK);
    assert_int_equal(world.n_commits, 0);
    assert_int_equal(partition_of(0)->suspects.n_items, 0);
    assert_int_equal(start(1, 2, SUSPECT_AMONG_MANY), STATUS_OK); // the second is at what is promised
    assert_int_equal(world.n_commits, 1);
    assert_true(world.was_unsaved[0]);
    assert_false(world.was_unsaved[1]);
    assert_int_equal(partition_of(0)->suspects.n_items, 0);
}

// Its computation continues; its result is dropped if another worker owns it.
TEST(jobs_of_others_need_no_commit)
{
    offset_map_finish(&partition_of(0)->map, FIRST + 3);
    assert_int_equal(start(3, 1, SUSPECT_AMONG_MANY), STATUS_OK);
    partition_of(0)->owned = false;
    partition_of(0)->unsaved = true;
    assert_int_equal(start(2, 1, SUSPECT_AMONG_FEW), STATUS_OK);
    jobs[0]->source.partition = N_PARTITIONS; // never seen
    assert_int_equal(start(0, 1, SUSPECT_ALONE), STATUS_OK);
    assert_int_equal(world.n_commits, 0);
    assert_int_equal(partition_of(0)->suspects.n_items, 0);
}

TEST(a_state_that_another_commit_did_not_save_is_saved_first)
{
    partition_of(1)->unsaved = true;
    assert_int_equal(start(0, 1, SUSPECT_AMONG_MANY), STATUS_OK); // of partition 0
    assert_int_equal(world.n_commits, 0);
    jobs[1]->source.partition = 1;
    assert_int_equal(start(0, 2, SUSPECT_AMONG_MANY), STATUS_OK);
    assert_int_equal(world.n_commits, 1);
    assert_false(world.was_unsaved[0]);
}

TEST(suspects_are_listed_before_they_start)
{
    jobs[1]->source.partition = 2;
    assert_int_equal(start(0, 2, SUSPECT_AMONG_FEW), STATUS_OK);
    assert_int_equal(world.n_commits, 1);
    assert_true(world.was_unsaved[0] && world.was_unsaved[2] && !world.was_unsaved[1]);
    for (int i = 0; i < 2; i++) {
        const struct suspects *suspects = &partition_of(i == 0 ? 0 : 2)->suspects;
        assert_int_equal(suspects->n_items, 1);
        assert_int_equal(suspects->items[0].offset, FIRST + i);
        assert_int_equal(suspects->items[0].state, SUSPECT_AMONG_FEW);
    }
    assert_false(kafka.alone);
}

// While a suspect is computed alone, no other is; the next suspect to start records that the first has ended.
TEST(what_rests_is_said_for_every_partition_that_is_ours)
{
    assert_int_equal(start(0, 1, SUSPECT_ALONE), STATUS_OK);
    assert_true(kafka.alone);
    assert_int_equal(partition_of(0)->suspects.items[0].state, SUSPECT_ALONE);
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        partition_of(i)->suspects.doubtful = i == 0 ? 0 : FIRST + 4;
        if (i > 0)
            suspects_compute(&partition_of(i)->suspects, FIRST, SUSPECT_AMONG_FEW);
    }
    partition_of(2)->owned = false;
    assert_int_equal(start(1, 1, SUSPECT_AMONG_MANY), STATUS_OK);
    assert_false(kafka.alone);
    assert_int_equal(world.n_commits, 1);
    assert_true(world.was_unsaved[0] && world.was_unsaved[1] && !world.was_unsaved[2]);
    assert_int_equal(partition_of(0)->suspects.n_items, 0);
    assert_int_equal(partition_of(1)->suspects.n_items, 0);
    assert_int_equal(partition_of(2)->suspects.n_items, 1); // another's to say
    assert_int_equal(start(0, 1, SUSPECT_AMONG_MANY), STATUS_OK);
    assert_int_equal(world.n_commits, 0);
}

TEST(few_rest_before_one_alone)
{
    assert_int_equal(start(0, 1, SUSPECT_AMONG_FEW), STATUS_OK);
    assert_int_equal(start(1, 1, SUSPECT_AMONG_FEW), STATUS_OK); // a few at a time are not only one
    assert_int_equal(partition_of(0)->suspects.n_items, 2);
    assert_int_equal(start(2, 1, SUSPECT_ALONE), STATUS_OK);
    assert_int_equal(partition_of(0)->suspects.n_items, 1);
    assert_int_equal(partition_of(0)->suspects.items[0].offset, FIRST + 2);
    assert_false(world.was_unsaved[1]); // without suspects there is nothing to say
    assert_true(kafka.alone);
}

TEST(a_start_that_is_not_saved_is_tried_again)
{
    world.status = STATUS_RESTART;
    assert_int_equal(start(3, 1, SUSPECT_AMONG_MANY), STATUS_RESTART);
    assert_string_equal(error.text, "commit");
    world.status = STATUS_OK;
    world.is_saved[0] = false; // the partition is between owners
    assert_int_equal(start(3, 1, SUSPECT_AMONG_MANY), STATUS_RETRY);
    assert_string_equal(error.text, "Kafka at broker:9092: the group is being rebalanced");
    world.is_saved[0] = true;
    world.is_saved[1] = false; // not one of these jobs'
    partition_of(1)->unsaved = true;
    assert_int_equal(start(3, 1, SUSPECT_AMONG_MANY), STATUS_OK);
}

// ---- leaving ----

static void assert_marked(const char *leaving, const char *unsaved)
{
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        assert_int_equal(partition_of(i)->leaving, leaving[i] == '1');
        assert_int_equal(partition_of(i)->unsaved, unsaved[i] == '1');
    }
}

TEST(partitions_that_are_revoked_are_left)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(3);
    for (int32_t i = 0; i < N_PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(list, "jobs", i == 2 ? 7 : i);
    partition_of(1)->suspects.promised = 0; // nothing was computed
    kafka_mark_leaving(&kafka, list);
    assert_marked("110", "100");
    rd_kafka_topic_partition_list_destroy(list);
}

TEST(a_worker_that_ends_leaves_all_that_it_has)
{
    assert_non_null(partition_add(&kafka.partitions, 5, 6)); // 3 and 4 are not there
    kafka_mark_leaving(&kafka, NULL);
    assert_marked("111", "111");
    assert_false(partition_find(&kafka.partitions, 5)->leaving);
}

TEST(partitions_without_deliveries_or_of_others_are_not_left)
{
    partition_of(0)->owned = false;
    offset_map_init(&partition_of(1)->map);
    kafka_mark_leaving(&kafka, NULL);
    assert_marked("001", "001");
}

TEST(leaving_is_said_once_and_only_where_something_was_computed)
{
    assert_false(kafka_has_to_say_leaving(&kafka));
    partition_of(1)->unsaved = true; // of something else
    assert_false(kafka_has_to_say_leaving(&kafka));
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_commits, 0);
    partition_of(1)->leaving = true;
    assert_true(kafka_has_to_say_leaving(&kafka));
    partition_of(1)->owned = false;
    assert_false(kafka_has_to_say_leaving(&kafka));
    partition_of(1)->owned = true;
    kafka.stopped.status = STATUS_RESTART;
    assert_false(kafka_has_to_say_leaving(&kafka));
    kafka.stopped.status = STATUS_OK;
    assert_non_null(partition_add(&kafka.partitions, 5, 6));
    assert_true(kafka_has_to_say_leaving(&kafka)); // one is enough
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_commits, 1);
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_commits, 1);
    assert_int_equal(world.n_hurries, 0);
}

TEST(leaving_is_said_by_a_new_producer_while_a_broker_throttles)
{
    int64_t until_ms = clock_ms() + 60000;
    kafka.clients.producer.throttle.until_ms = until_ms;
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_hurries, 0); // there is nothing to say
    kafka_mark_leaving(&kafka, NULL);
    world.hurrying = STATUS_RETRY;
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_hurries, 1);
    assert_int_equal(world.n_commits, 0);
    world.hurrying = STATUS_OK;
    kafka_say_leaving(&kafka);
    assert_int_equal(world.n_hurries, 2);
    assert_int_equal(world.n_commits, 1);
    assert_int_equal(kafka.clients.producer.throttle.until_ms,
                     until_ms); // of the quota, whatever the producer
}

TEST_FIXTURE(begin, end);

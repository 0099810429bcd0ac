// The group's committed offsets, read from a coordinator of the test's: which errors pass, which partitions
// are named as held by a transaction, and which maps are refused.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS_MAX = 64, TIMEOUT_MS = 1000, BEGAN_MS = 5000 };

// The coordinator and the clock, which a request for held offsets moves by its timeout.
static struct {
    bool holds[N_PARTITIONS_MAX];   // the list with one of these times out, and each alone
    bool holds_lists;               // no partition alone
    rd_kafka_resp_err_t code;       // of the request
    rd_kafka_resp_err_t codes[2];   // of partitions 0 and 1 in its answer
    bool is_silent;                 // answers no other request
    int n_asked_alone, n_described; // requests for one partition of a list, for the group's members
    int alone_timeout_ms, describe_timeout_ms;
    int answer_ms; // of one partition that is not held
    int64_t now_ms;
} coordinator;

rd_kafka_resp_err_t
__wrap_kafka_members(struct kafka_asking *asking, const struct kafka_config *config, int timeout_ms,
                     void (*receive)(void *context, const rd_kafka_MemberDescription_t *member),
                     void *context, bool *is_stable);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){coordinator.now_ms / 1000, coordinator.now_ms % 1000 * 1000000};
    return 0;
}

static bool holds_any(const rd_kafka_topic_partition_list_t *list)
{
    bool holds = coordinator.holds_lists && list->cnt > 1;
    for (int i = 0; i < list->cnt; i++)
        holds |= coordinator.holds[list->elems[i].partition];
    return holds;
}

rd_kafka_resp_err_t __wrap_rd_kafka_committed(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                              int timeout_ms)
{
    if (list->cnt == 1) {
        coordinator.n_asked_alone++;
        coordinator.alone_timeout_ms = timeout_ms;
    }
    if (coordinator.code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return coordinator.code;
    if (holds_any(list)) {
        coordinator.now_ms += timeout_ms;
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    }
    coordinator.now_ms += list->cnt == 1 ? coordinator.answer_ms : 0;
    for (int i = 0; i < list->cnt; i++) {
        list->elems[i].offset = 100 + list->elems[i].partition;
        list->elems[i].err = i < 2 ? coordinator.codes[i] : RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t
__wrap_kafka_members(struct kafka_asking *asking, const struct kafka_config *config, int timeout_ms,
                     void (*receive)(void *context, const rd_kafka_MemberDescription_t *member),
                     void *context, bool *is_stable)
{
    coordinator.n_described++;
    coordinator.describe_timeout_ms = timeout_ms;
    *is_stable = true;
    return coordinator.is_silent ? RD_KAFKA_RESP_ERR__TIMED_OUT : RD_KAFKA_RESP_ERR_NO_ERROR;
}

// ---- a transport that reads ----

static struct kafka_config config = {.brokers = "broker:9092",
                                     .topics.jobs = "jobs",
                                     .group.name = "workers"};
static struct kafka_transport kafka;
static struct error error;

static int begin_test(void **state)
{
    memset(&coordinator, 0, sizeof coordinator);
    memset(&kafka, 0, sizeof kafka);
    coordinator.now_ms = BEGAN_MS;
    config.accept_unknown_map = false;
    kafka.config = &config;
    kafka.clients.consumer.config = &config;
    return 0;
}

static void hold_partitions(int first, int last)
{
    memset(coordinator.holds, 0, sizeof coordinator.holds);
    for (int i = first; i <= last; i++)
        coordinator.holds[i] = true;
}

// Of partitions FIRST..FIRST+N-1.
static enum status read_some(int first, int n, int timeout_ms)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);
    for (int i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(list, "jobs", first + i);
    error = (struct error){0};
    enum status status = kafka_read_committed(&kafka, list, timeout_ms, &error);
    for (int i = 0; i < n && status == STATUS_OK; i++)
        assert_int_equal(list->elems[i].offset, 100 + first + i);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static void assert_held(int first, int n, const char *partitions)
{
    char part[400];
    snprintf(part, sizeof part, ": offsets of %s of topic jobs are held by a transaction", partitions);
    assert_int_equal(read_some(first, n, TIMEOUT_MS), STATUS_RETRY);
    if (!strstr(error.text, part) || !strstr(error.text, "Kafka at broker:9092"))
        fail_msg("expected \"%s\" in: %s", part, error.text);
}

// ---- held partitions ----

TEST(a_partition_that_a_transaction_holds_is_named_alone)
{
    hold_partitions(5, 5);
    assert_held(0, 8, "partition(s) 5");
    assert_int_equal(coordinator.n_asked_alone, 8);
    assert_int_equal(coordinator.alone_timeout_ms, 100);
    hold_partitions(2, 3); // of a later pass over the same list
    assert_held(0, 8, "partition(s) 2, 3");
    assert_int_equal(coordinator.n_asked_alone, 16);
}

// Each request for a held one takes 100 ms, and one call spends 300 ms.
TEST(many_held_partitions_are_named_over_several_calls)
{
    hold_partitions(0, 7);
    assert_held(0, 8, "partition(s) 0, 1, 2");
    assert_int_equal(coordinator.now_ms, BEGAN_MS + TIMEOUT_MS + 300);
    assert_held(0, 8, "partition(s) 0, 1, 2, 3, 4, 5");
    assert_held(0, 8, "partition(s) 0, 1, 2, 3, 4, 5, 6, 7");
    hold_partitions(4, 4); // 0 was asked again, with the time that was left
    assert_held(0, 8, "partition(s) 0, 4");
    assert_held(0, 8, "partition(s) 4");
}

TEST(partitions_are_asked_for_while_time_is_left)
{
    static const int answers_ms[][2] = {{299, 2}, {300, 1}, {301, 1}};
    coordinator.holds_lists = true;
    for (size_t i = 0; i < sizeof answers_ms / sizeof *answers_ms; i++) {
        coordinator.n_asked_alone = 0;
        coordinator.answer_ms = answers_ms[i][0];
        assert_held(0, 8, "some of 8 partitions");
        assert_int_equal(coordinator.n_asked_alone, answers_ms[i][1]);
    }
}

TEST(names_beyond_the_room_are_cut_once)
{
    static const char many[] =
        "partition(s) 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,"
        " 19, 20, 21, 22, ...";
    hold_partitions(0, 59);
    for (int i = 0; i < 20; i++)
        (void)!read_some(0, 60, TIMEOUT_MS);
    assert_held(0, 60, many);
    hold_partitions(30, 31); // the next pass has room again
    for (int i = 0; i < 2; i++)
        (void)!read_some(0, 60, TIMEOUT_MS);
    assert_held(0, 60, "partition(s) 30, 31");
    hold_partitions(3, 25);
    for (int i = 0; i < 20; i++) // before the last one there is a byte of room
        (void)!read_some(3, 23, TIMEOUT_MS);
    assert_held(3, 23,
                "partition(s) 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,"
                " 23, 24, 25");
}

TEST(partitions_that_none_holds_alone_are_only_counted)
{
    coordinator.holds_lists = true;
    assert_held(0, 8, "some of 8 partitions");
}

TEST(partitions_of_one_transaction_are_not_named_for_the_next)
{
    hold_partitions(0, 0);
    assert_held(0, 8, "partition(s) 0");
    hold_partitions(1, 0);
    assert_int_equal(read_some(0, 8, TIMEOUT_MS), STATUS_OK);
    hold_partitions(4, 7); // too many for one call: the last complete pass is the first transaction's
    assert_held(0, 8, "partition(s) 4, 5, 6");
}

TEST(partitions_of_one_list_are_not_named_for_another)
{
    hold_partitions(0, 9);
    assert_held(0, 8, "partition(s) 0, 1, 2");
    assert_held(1, 8, "partition(s) 1, 2, 3"); // as many, others
    assert_held(1, 9, "partition(s) 1, 2, 3"); // more, from the same on
    assert_held(1, 9, "partition(s) 1, 2, 3, 4, 5, 6");
}

TEST(a_coordinator_is_asked_whether_it_answers_for_half_a_second_at_most)
{
    static const int timeouts_ms[][2] = {{300, 300}, {499, 499}, {500, 500}, {501, 500}, {5000, 500}};
    hold_partitions(0, 0);
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof *timeouts_ms; i++) {
        assert_int_equal(read_some(0, 2, timeouts_ms[i][0]), STATUS_RETRY);
        assert_int_equal(coordinator.describe_timeout_ms, timeouts_ms[i][1]);
    }
}

// ---- errors ----

static void assert_not_held(enum status status, int n_described)
{
    coordinator.n_described = 0;
    assert_int_equal(read_some(0, 2, TIMEOUT_MS), status);
    assert_non_null(strstr(error.text, "reading the group's offsets: "));
    assert_null(strstr(error.text, "held"));
    assert_int_equal(coordinator.n_described, n_described);
    assert_int_equal(coordinator.n_asked_alone, 0);
}

TEST(without_an_answer_of_the_coordinator_none_is_held)
{
    hold_partitions(0, 0);
    coordinator.is_silent = true;
    assert_not_held(STATUS_RETRY, 1);
    coordinator.is_silent = false;
    kafka.clients.producer.is_down = true; // it is not asked
    assert_not_held(STATUS_RETRY, 0);
    kafka.clients.producer.is_down = false;
    assert_held(0, 2, "partition(s) 0");
}

TEST(a_missing_right_ends_the_worker_unless_it_is_that_to_read_jobs)
{
    static const struct {
        rd_kafka_resp_err_t code;
        enum status status;
    } cases[] = {{RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, STATUS_REFUSE},
                 {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, STATUS_RETRY},
                 {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, STATUS_RETRY},
                 {RD_KAFKA_RESP_ERR__TRANSPORT, STATUS_RETRY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_test(NULL);
        coordinator.code = cases[i].code;
        assert_not_held(cases[i].status, 0);
        for (int partition = 0; partition < 2; partition++) {
            begin_test(NULL);
            coordinator.codes[partition] = cases[i].code;
            assert_not_held(cases[i].status, 0);
            assert_int_equal(kafka.watch.lacks_read,
                             cases[i].code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
        }
    }
    coordinator.codes[1] = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_not_held(STATUS_RETRY, 0);
    assert_non_null(strstr(error.text, "the worker needs the right Read on topic jobs"));
    coordinator.codes[1] = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_int_equal(read_some(0, 2, TIMEOUT_MS), STATUS_OK);
    assert_false(kafka.watch.lacks_read);
}

// A broker's error code, which librdkafka passes on.
TEST(an_undecided_transaction_holds_what_it_is_said_to_hold)
{
    coordinator.codes[1] = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    assert_int_equal(read_some(0, 2, TIMEOUT_MS), STATUS_RETRY);
    assert_non_null(strstr(error.text, "of some of 2 partitions"));
    coordinator.codes[0] = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT; // as each of one, too
    assert_held(0, 2, "partition(s) 0, 1");
}

// ---- maps ----

static enum status restart(struct offset_map *map, struct suspects *suspects, int64_t offset,
                           const char *metadata)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", metadata);
    rd_kafka_topic_partition_t committed = {
        .topic = "jobs", .partition = 3, .offset = offset, .metadata = copy, .metadata_size = strlen(copy)};
    error = (struct error){0};
    return kafka_restart_map(&kafka, map, suspects, &committed, &error);
}

TEST(an_unknown_map_is_refused_with_its_partition)
{
    struct offset_map map;
    struct suspects suspects = {.promised = 7};
    offset_map_init(&map);
    assert_int_equal(restart(&map, &suspects, 40, "another program's"), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "topic jobs partition 3, group workers: "));
    assert_int_equal(map.position, OFFSET_UNKNOWN);
    assert_int_equal(restart(&map, NULL, 40, ""), STATUS_OK);
    assert_int_equal(map.position, 40);
    assert_int_equal(suspects.promised, 7);
    assert_int_equal(restart(&map, &suspects, 41, ""), STATUS_OK);
    assert_int_equal(map.position, 41);
    assert_int_equal(suspects.promised, 0);
}

TEST(an_unknown_map_may_be_taken_as_an_empty_one)
{
    struct offset_map map;
    struct suspects suspects = {.promised = 7};
    config.accept_unknown_map = true;
    offset_map_init(&map);
    assert_int_equal(restart(&map, NULL, 0, "another program's"), STATUS_OK);
    assert_int_equal(map.position, 0);
    assert_int_equal(map.watermark, 0);
    assert_int_equal(restart(&map, &suspects, 40, "another program's"), STATUS_OK);
    assert_int_equal(map.position, 40);
    assert_int_equal(suspects.promised, 0);
    assert_int_equal(error.status, STATUS_OK);
    assert_string_equal(error.text, "");
    assert_int_equal(restart(&map, NULL, -1, ""), STATUS_REFUSE); // no offset at all
}

TEST_FIXTURE(begin_test, NULL);

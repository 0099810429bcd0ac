// Whether the queue is empty and what is held back, and which worker of a name may begin: by members, log
// ends and offsets that the test gives (consumer/queue/kafka/kafka_idle.c, kafka_namesake.c).
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 3, MEMBERS_MAX = 4 };

struct listed_member {
    const char *id, *client, *instance, *host;
    rd_kafka_topic_partition_list_t *list;
};

static struct {
    int64_t now_ms;
    int64_t high[N_PARTITIONS]; // of the log; -1: not known
    struct listed_member members[MEMBERS_MAX];
    int n_members, n_asked, n_metadata, n_looked, n_committed;
    bool is_unstable;
    rd_kafka_resp_err_t code;
    int gone_after; // questions; 0: never
    int32_t n_partitions;
    enum status found, committed;
    bool computes;
    int stop_after; // questions
    const char *session, *instance;
    char warnings[1024];
    int n_warnings;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct partition partitions[N_PARTITIONS], *table[N_PARTITIONS];
static struct error error;

// ---- what librdkafka says ----

const char *__wrap_rd_kafka_MemberDescription_consumer_id(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct listed_member *)member)->id;
}

const char *__wrap_rd_kafka_MemberDescription_client_id(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct listed_member *)member)->client;
}

const char *__wrap_rd_kafka_MemberDescription_group_instance_id(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct listed_member *)member)->instance;
}

const char *__wrap_rd_kafka_MemberDescription_host(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct listed_member *)member)->host;
}

const rd_kafka_MemberAssignment_t *
__wrap_rd_kafka_MemberDescription_assignment(const rd_kafka_MemberDescription_t *member);
const rd_kafka_MemberAssignment_t *
__wrap_rd_kafka_MemberDescription_assignment(const rd_kafka_MemberDescription_t *member)
{
    return (const rd_kafka_MemberAssignment_t *)member;
}

const rd_kafka_topic_partition_list_t *
__wrap_rd_kafka_MemberAssignment_partitions(const rd_kafka_MemberAssignment_t *assignment);
const rd_kafka_topic_partition_list_t *
__wrap_rd_kafka_MemberAssignment_partitions(const rd_kafka_MemberAssignment_t *assignment)
{
    return ((const struct listed_member *)assignment)->list;
}

rd_kafka_resp_err_t __wrap_kafka_members(struct kafka_asking *asking, const struct kafka_config *of,
                                         int timeout_ms,
                                         void (*receive)(void *, const rd_kafka_MemberDescription_t *),
                                         void *context, bool *is_stable)
{
    assert_ptr_equal(asking, &kafka.clients.asking);
    assert_ptr_equal(of, &config);
    assert_in_range(timeout_ms, 1000, 2000);
    world.n_asked++;
    *is_stable = !world.is_unstable;
    bool gone = world.gone_after && world.n_asked > world.gone_after;
    for (int i = 0; i < world.n_members && !gone && world.code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        receive(context, (const rd_kafka_MemberDescription_t *)&world.members[i]);
    return world.code;
}

rd_kafka_resp_err_t __wrap_rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                          int32_t partition, int64_t *low, int64_t *high)
{
    assert_string_equal(topic, "jobs");
    world.n_looked++;
    *low = 0;
    *high = world.high[partition];
    return *high < 0 ? RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION : RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
                                             const struct rd_kafka_metadata **metadata, int timeout_ms)
{
    assert_int_equal(all, 1); // topics: else the group does not see added partitions
    assert_null(only);
    assert_int_equal(timeout_ms, 2000);
    world.n_metadata++;
    return RD_KAFKA_RESP_ERR__TIMED_OUT;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_string_equal(topic, "jobs");
    assert_int_equal(timeout_ms, 2000);
    *n_partitions = world.n_partitions;
    return world.found;
}

enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *fault)
{
    assert_int_equal(timeout_ms, 1000);
    world.n_committed++;
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = i == list->cnt - 1 ? 0 : RD_KAFKA_OFFSET_INVALID;
    return world.committed;
}

bool __wrap_suspects_are_computed(int64_t offset, struct text metadata)
{
    assert_int_equal(offset, 0);
    return world.computes;
}

const rd_kafka_conf_t *__wrap_rd_kafka_conf(rd_kafka_t *rk)
{
    return NULL;
}

rd_kafka_conf_res_t __wrap_rd_kafka_conf_get(const rd_kafka_conf_t *conf, const char *name, char *value,
                                             size_t *size)
{
    const char *text = strcmp(name, "session.timeout.ms") == 0 ? world.session : world.instance;
    assert_true(strcmp(name, "session.timeout.ms") == 0 || strcmp(name, "group.instance.id") == 0);
    if (!text)
        return RD_KAFKA_CONF_UNKNOWN;
    snprintf(value, *size, "%s", text);
    return RD_KAFKA_CONF_OK;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    assert_int_equal(time->tv_sec, 0);
    world.now_ms += time->tv_nsec / 1000000;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

static bool asked_to_stop(void *context)
{
    return world.stop_after && world.n_asked >= world.stop_after;
}

static void keep_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    world.n_warnings++;
    snprintf(world.warnings, sizeof world.warnings, "%s", line);
}

static int end(void **state)
{
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (world.members[i].list)
            rd_kafka_topic_partition_list_destroy(world.members[i].list);
    return 0;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 100000;
    world.n_partitions = N_PARTITIONS;
    world.session = "6000";
    world.instance = "";
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .topics = {.jobs = "jobs", .control = "control"},
                                   .group.name = "workers",
                                   .is_stopping = asked_to_stop,
                                   .log = keep_warning};
    kafka = (struct kafka_transport){.config = &config};
    kafka.watch.held_ms = 3000;
    kafka.watch.held_unready_ms = 60000;
    strcpy(kafka.identity.id, "sheaf-workers-0");
    for (int i = 0; i < N_PARTITIONS; i++) {
        partitions[i] =
            (struct partition){.id = i, .owned = true, .fetching = {.at_end = true, .end = 10 * (i + 1)}};
        table[i] = &partitions[i];
        world.high[i] = 10 * (i + 1);
    }
    kafka.partitions = (struct partition_table){table, N_PARTITIONS};
    kafka.group.membership = (rd_kafka_consumer_group_metadata_t *)&world;
    error = (struct error){0};
    return 0;
}

static void add_member(const char *id, const char *client, const char *instance, const char *topic,
                       const char *numbers)
{
    struct listed_member *member = &world.members[world.n_members++];
    *member = (struct listed_member){.id = id, .client = client, .instance = instance, .host = "/10.0.0.7"};
    if (!numbers)
        return;
    member->list = rd_kafka_topic_partition_list_new(4);
    for (; *numbers; numbers++)
        rd_kafka_topic_partition_list_add(member->list, topic, *numbers - '0');
}

// ---- is the queue empty? ----

TEST(the_queue_is_drained_when_all_of_it_was_delivered)
{
    assert_true(kafka_is_drained(&kafka.base));
    for (int i = 0; i < 7; i++) {
        begin(state);
        if (i == 0)
            kafka.group.membership = NULL;
        if (i == 1)
            kafka.group.assigned = (rd_kafka_topic_partition_list_t *)&world;
        if (i == 2)
            partitions[2].fetching.at_end = false;
        if (i == 3)
            partitions[0].fetching.rewind = true;
        if (i == 4)
            world.high[1]++; // after the reached end: records of an open transaction
        if (i == 5)
            partitions[2].fetching.at_end = partitions[2].owned = false; // another's
        if (i == 6)
            table[1] = NULL, world.high[0] = -1; // never assigned; not known
        assert_int_equal(kafka_is_drained(&kafka.base), i >= 5);
    }
}

TEST(records_in_quarantine_are_not_drained_and_released_with_their_partition)
{
    char text[ERROR_TEXT_BYTES] = "";
    offset_map_init(&partitions[1].map);
    for (int64_t offset = 10; offset < 20; offset++)
        assert_int_equal(offset_map_deliver(&partitions[1].map, offset), DELIVERY_NEW);
    kafka_quarantine_describe(&kafka, text, sizeof text);
    assert_string_equal(text, "");
    kafka_quarantine(&kafka.base, 1, 17);
    kafka_quarantine(&kafka.base, 1, 12);
    kafka_quarantine(&kafka.base, 1, 15);
    kafka_quarantine(&kafka.base, 1, 30); // not delivered
    kafka_quarantine(&kafka.base, 9, 12); // no partition of ours
    assert_false(kafka_is_drained(&kafka.base));
    kafka_quarantine_describe(&kafka, text, sizeof text);
    assert_non_null(strstr(text, "topic jobs partition 1 from offset 12 on: 3 records that are no jobs"));
    for (int64_t offset = 10; offset < 20; offset++)
        if (offset != 12 && offset != 15 && offset != 17)
            offset_map_finish(&partitions[1].map, offset);
    assert_int_equal(partitions[1].map.watermark, 12);
    kafka_quarantine_release(&partitions[1]);
    assert_int_equal(partitions[1].map.n_running, 0);
    assert_int_equal(partitions[1].map.watermark, 12);
    assert_int_equal(offset_map_deliver(&partitions[1].map, 12), DELIVERY_NEW);
    assert_int_equal(offset_map_deliver(&partitions[1].map, 13), DELIVERY_DONE);
    offset_map_finish(&partitions[1].map, 12);
    assert_int_equal(partitions[1].quarantine.n_records, 0);
    assert_true(kafka_is_drained(&kafka.base));
}

TEST(the_last_worker_goes_when_each_partition_has_an_owner)
{
    static const struct {
        const char *first, *second, *topic;
        bool unstable;
        rd_kafka_resp_err_t code;
        bool drained;
    } rows[] = {
        {"012", "", "jobs", false, 0, true},
        {"02", "1", "jobs", false, 0, true},
        {"02", "", "jobs", false, 0, false},
        {"12", "", "jobs", false, 0, false},
        {"01", NULL, "jobs", false, 0, false},
        {"012", NULL, "other", false, 0, false},
        {"0123", "9", "jobs", false, 0, true}, // more than are known
        {"012", "", "jobs", true, 0, false},
        {"012", "", "jobs", false, RD_KAFKA_RESP_ERR__TIMED_OUT, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        end(state), begin(state);
        add_member("a", "a", NULL, rows[i].topic, rows[i].first);
        add_member("b", "b", NULL, rows[i].topic, rows[i].second);
        world.is_unstable = rows[i].unstable;
        world.code = rows[i].code;
        assert_int_equal(kafka_confirm_drained(&kafka.base), rows[i].drained);
        assert_int_equal(world.n_metadata, !rows[i].drained);
        assert_int_equal(world.n_warnings, 0);
    }
}

TEST(what_can_not_be_asked_keeps_the_worker)
{
    add_member("a", "a", NULL, "jobs", "012");
    kafka.clients.consumer.is_down = true;
    assert_false(kafka_confirm_drained(&kafka.base));
    kafka.clients.consumer.is_down = false;
    world.found = STATUS_REFUSE;
    assert_false(kafka_confirm_drained(&kafka.base));
    assert_int_equal(world.n_asked + world.n_metadata, 0);
    world.found = STATUS_OK;
    world.code = RD_KAFKA_RESP_ERR__FAIL;
    strcpy(kafka.clients.asking.handle.last_error, "no file for the certificate");
    assert_false(kafka_confirm_drained(&kafka.base));
    assert_string_equal(world.warnings,
                        "group workers: its members can't be asked for: no file for the certificate");
    config.log = NULL;
    assert_false(kafka_confirm_drained(&kafka.base));
    assert_int_equal(world.n_warnings, 1);
}

TEST(a_broker_that_does_not_know_the_topic_confirms_nothing)
{
    add_member("a", "worker", NULL, "jobs", "012");
    assert_true(kafka_confirm_drained(&kafka.base));
    world.n_partitions = 0;
    assert_false(kafka_confirm_drained(&kafka.base));
}

// The coordinator notices added partitions itself, by the next call.
TEST(with_the_group_protocol_the_number_of_partitions_is_seen_twice)
{
    config.group.protocol = GROUP_PROTOCOL_CONSUMER;
    assert_false(kafka_confirm_drained(&kafka.base));
    assert_true(kafka_confirm_drained(&kafka.base));
    world.n_partitions++;
    assert_false(kafka_confirm_drained(&kafka.base));
    assert_true(kafka_confirm_drained(&kafka.base));
    assert_int_equal(world.n_asked, 0);
    assert_int_equal(world.n_metadata, 2);
}

// ---- what is held back ----

static void look_at(int64_t ms)
{
    world.now_ms = 100000 + ms;
    kafka_watch_held(&kafka);
}

TEST(records_after_an_open_transaction_are_warned_of_once)
{
    world.high[0] = 12;
    world.high[2] = 40;
    look_at(0);
    look_at(2999);
    assert_int_equal(world.n_warnings, 0);
    assert_string_equal(kafka.hindrance.held, "");
    look_at(3199);
    assert_string_equal(
        world.warnings,
        "topic jobs partition 0 and 1 more: a transaction stays open for more than 3 s at offset "
        "10: what follows it is not delivered until it ends");
    look_at(30000);
    assert_int_equal(world.n_warnings, 1);
    partitions[0].fetching.end = 11; // the next transaction
    look_at(31000);
    look_at(33999);
    assert_int_equal(world.n_warnings, 1);
    look_at(34200);
    assert_int_equal(world.n_warnings, 2);
    assert_non_null(
        strstr(world.warnings, "partition 0: a transaction stays open for more than 3 s at offset 11:"));
    world.high[0] = 11; // over
    look_at(35000);
    assert_int_equal(partitions[0].held.since_ms, 0);
}

TEST(a_transaction_that_is_open_for_as_long_as_it_may_is_warned_of)
{
    world.high[2] = 31;
    look_at(0);
    look_at(2999);
    look_at(3000);
    assert_int_equal(world.n_warnings, 0); // too soon behind the look before
    look_at(3199);
    assert_int_equal(world.n_warnings, 1);
    begin(state);
    world.high[2] = 31;
    look_at(0);
    look_at(3000);
    assert_int_equal(world.n_warnings, 1);
    look_at(59800);
    look_at(60000);
    assert_string_not_equal(kafka.hindrance.held, "");
}

TEST(looks_are_a_fifth_of_a_second_apart)
{
    look_at(0);
    assert_int_equal(world.n_looked, N_PARTITIONS);
    look_at(199);
    assert_int_equal(world.n_looked, N_PARTITIONS);
    look_at(200);
    assert_int_equal(world.n_looked, 2 * N_PARTITIONS);
    partitions[0].owned = false;
    partitions[1].fetching.at_end = false;
    look_at(400);
    assert_int_equal(world.n_looked, 2 * N_PARTITIONS + 1);
}

TEST(a_worker_whose_jobs_are_all_held_back_is_not_ready_after_a_minute)
{
    world.high[1] = 21;
    look_at(0);
    world.high[2] = 31; // for less long
    look_at(10000);
    look_at(59999);
    assert_string_equal(kafka.hindrance.held, "");
    look_at(60300);
    assert_string_equal(
        kafka.hindrance.held,
        "topic jobs partition 1: the jobs from offset 20 on are held back by a transaction, open for "
        "60 s at least (ops/RUNBOOK.md: \"held back\")");
    partitions[0].map.n_running = 1;
    look_at(61000);
    assert_string_equal(kafka.hindrance.held, "");
    partitions[0].map.n_running = 0;
    look_at(62000);
    assert_string_not_equal(kafka.hindrance.held, "");
    world.high[1] = 20;
    look_at(63000);
    assert_string_equal(kafka.hindrance.held, "");
}

// ---- another worker with our name ----

static enum status await(void)
{
    return kafka_namesake_await(&kafka, &error);
}

TEST(a_name_that_no_member_has_is_taken_at_once)
{
    add_member("m-1", "sheaf-workers-1", NULL, "jobs", "0");
    add_member(NULL, "sheaf-workers-0", NULL, "jobs", "0");
    add_member("m-2", NULL, "sheaf-workers-0", "jobs", "1");
    strcpy(kafka.identity.slot.member, "m-0");
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.n_asked, 1);
    assert_int_equal(world.n_warnings, 0);
    end(state), begin(state); // a static member's name is its instance
    world.instance = "static-0";
    add_member("m-1", "sheaf-workers-0", "static-1", "jobs", "0");
    add_member("m-2", "sheaf-workers-0", NULL, "jobs", "0");
    strcpy(kafka.identity.slot.member, "m-0");
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.n_asked, 1);
}

TEST(the_last_process_of_the_slot_is_dead)
{
    static const char *const noted[] = {"m-1", SLOT_MEMBER_JOINING};
    for (int i = 0; i < 4; i++) {
        end(state), begin(state);
        if (i >= 2)
            world.instance = "static-0";
        add_member("m-1", "sheaf-workers-0", "static-0", "jobs", "0");
        strcpy(kafka.identity.slot.member, noted[i % 2]);
        assert_int_equal(await(), STATUS_OK);
        assert_int_equal(world.n_asked, 1);
        assert_int_equal(world.n_committed, 0);
    }
}

TEST(a_member_whose_partitions_nobody_computes_is_taken_over)
{
    static const struct {
        const char *numbers;
        bool computes, unstable;
        enum status committed;
        bool waits;
    } rows[] = {
        {"01", false, false, STATUS_OK, false}, {"01", true, false, STATUS_OK, true},
        {"01", false, true, STATUS_OK, true},   {"01", false, false, STATUS_RETRY, true},
        {"", true, false, STATUS_RETRY, false}, {NULL, true, false, STATUS_RETRY, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        end(state), begin(state);
        add_member("m-1", "sheaf-workers-0", NULL, "jobs", rows[i].numbers);
        world.computes = rows[i].computes;
        world.is_unstable = rows[i].unstable;
        world.committed = rows[i].committed;
        world.gone_after = 3;
        assert_int_equal(await(), STATUS_OK);
        assert_int_equal(world.n_asked, rows[i].waits ? 4 : 1);
        assert_int_equal(world.n_warnings, rows[i].waits);
    }
    end(state), begin(state); // a slot with its own record sends no request
    add_member("m-1", "sheaf-workers-0", NULL, "jobs", "01");
    strcpy(kafka.identity.slot.member, SLOT_MEMBER_FENCED);
    world.gone_after = 2;
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.n_asked, 3);
    assert_int_equal(world.n_committed, 0);
    assert_string_equal(
        world.warnings,
        "a worker of the name sheaf-workers-0 is in group workers, from 10.0.0.7: waiting for "
        "the end of its session, up to 6 s, in case it lives");
}

TEST(a_member_that_outlives_its_session_has_the_name)
{
    static const struct {
        const char *session;
        enum group_protocol protocol;
        int64_t waited_ms;
    } rows[] = {{"6000", GROUP_PROTOCOL_EAGER, 9250},
                {"6000", GROUP_PROTOCOL_CONSUMER, 48250},
                {"0", GROUP_PROTOCOL_EAGER, 48250},
                {NULL, GROUP_PROTOCOL_EAGER, 48250},
                {"1", GROUP_PROTOCOL_EAGER, 3250}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        end(state), begin(state);
        add_member("m-1", "sheaf-workers-0", NULL, "jobs", "01");
        strcpy(kafka.identity.slot.member, SLOT_MEMBER_FENCED);
        world.session = rows[i].session;
        config.group.protocol = rows[i].protocol;
        assert_int_equal(await(), STATUS_RESTART);
        assert_int_equal(world.now_ms - 100000, rows[i].waited_ms);
        assert_int_equal(world.n_warnings, 1);
        assert_non_null(
            strstr(error.text,
                   "another worker has our id, sheaf-workers-0, in group workers, from 10.0.0.7, and lives"));
    }
}

TEST(a_question_without_an_answer_is_asked_for_five_seconds)
{
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.now_ms - 100000, 5250);
    begin(state); // an answer that is none
    world.code = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.n_asked, 1);
    begin(state);
    add_member("m-1", "sheaf-workers-0", NULL, "jobs", "01");
    strcpy(kafka.identity.slot.member, SLOT_MEMBER_FENCED);
    world.stop_after = 7;
    assert_int_equal(await(), STATUS_OK);
    assert_int_equal(world.n_asked, 7);
}

TEST_FIXTURE(begin, end);

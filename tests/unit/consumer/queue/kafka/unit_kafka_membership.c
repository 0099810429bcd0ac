// Whether a worker is a confirmed member of its group, by what librdkafka and the coordinator say
// (consumer/queue/kafka/kafka_membership.c).
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { MEMBERS_MAX = 3 };

struct test_member {
    const char *id;
    rd_kafka_topic_partition_list_t *list;
};

// The states that librdkafka reports for this worker and the coordinator for all.
static struct {
    int64_t now_ms;
    const char *member; // NULL: none
    int32_t generation;
    bool has_no_metadata, is_lost, is_unstable;
    struct test_member members[MEMBERS_MAX];
    int n_members, n_asked, timeout_ms, n_metadata;
    rd_kafka_resp_err_t code;
    char noted[SLOT_MEMBER_BYTES_MAX + 2];
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

const char *__wrap_rd_kafka_MemberDescription_consumer_id(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct test_member *)member)->id;
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
    return ((const struct test_member *)assignment)->list;
}

rd_kafka_resp_err_t __wrap_kafka_members(struct kafka_asking *asking, const struct kafka_config *of,
                                         int timeout_ms,
                                         void (*receive)(void *, const rd_kafka_MemberDescription_t *),
                                         void *context, bool *is_stable)
{
    assert_ptr_equal(asking, &kafka.clients.asking);
    assert_ptr_equal(of, &config);
    world.n_asked++;
    world.timeout_ms = timeout_ms;
    *is_stable = !world.is_unstable;
    for (int i = 0; i < world.n_members && world.code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        receive(context, (const rd_kafka_MemberDescription_t *)&world.members[i]);
    return world.code;
}

char *__wrap_rd_kafka_memberid(const rd_kafka_t *rk)
{
    return world.member ? strdup(world.member) : NULL;
}

void __wrap_rd_kafka_mem_free(rd_kafka_t *rk, void *memory)
{
    free(memory);
}

rd_kafka_consumer_group_metadata_t *__wrap_rd_kafka_consumer_group_metadata(rd_kafka_t *rk)
{
    world.n_metadata++;
    return world.has_no_metadata
               ? NULL
               : rd_kafka_consumer_group_metadata_new_with_genid("workers", world.generation,
                                                                 world.member ? world.member : "", NULL);
}

int __wrap_rd_kafka_assignment_lost(rd_kafka_t *rk)
{
    return world.is_lost;
}

bool __wrap_kafka_is_cooperative(const struct kafka_transport *of)
{
    return of->config->group.protocol == GROUP_PROTOCOL_COOPERATIVE;
}

void __wrap_slot_note_member(struct slot *slot, const char *member)
{
    assert_ptr_equal(slot, &kafka.identity.slot);
    snprintf(world.noted, sizeof world.noted, "%s", member);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

static int end(void **state)
{
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (world.members[i].list)
            rd_kafka_topic_partition_list_destroy(world.members[i].list);
    if (kafka.group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka.group.assigned = NULL;
    kafka_drop_metadata(&kafka.group.coming);
    kafka_drop_metadata(&kafka.group.membership);
    return 0;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 100000;
    world.member = "me";
    world.generation = 5;
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .topics = {.jobs = "jobs", .control = "control"},
                                   .group.name = "workers"};
    kafka = (struct kafka_transport){.config = &config};
    kafka.clients.consumer.config = kafka.clients.asking.handle.config = &config;
    kafka.outside.timeout_ms = 30000;
    kafka.outside.looked_ms = world.now_ms;
    error = (struct error){0};
    return 0;
}

static void again(void **state)
{
    end(state);
    begin(state);
}

static rd_kafka_topic_partition_list_t *list_of(const char *numbers)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (; *numbers; numbers++)
        rd_kafka_topic_partition_list_add(list, "jobs", *numbers - '0');
    return list;
}

static void add_member(const char *id, const char *numbers)
{
    world.members[world.n_members++] = (struct test_member){id, numbers ? list_of(numbers) : NULL};
}

static rd_kafka_consumer_group_metadata_t *metadata_of(int32_t generation, const char *member)
{
    return rd_kafka_consumer_group_metadata_new_with_genid("workers", generation, member, NULL);
}

// ---- the membership of an assignment ----

TEST(an_assignment_is_committed_in_the_generation_that_it_came_with)
{
    for (int i = 0; i < 8; i++) {
        again(state);
        if (i != 1)
            kafka.group.coming = metadata_of(i == 2 || i == 7 ? 4 : 5, i == 3 ? "other" : "me");
        if (i == 4)
            world.is_lost = true;
        if (i == 5)
            world.has_no_metadata = true;
        if (i == 6)
            world.member = NULL;
        if (i == 7) // the epoch grows without an event
            config.group.protocol = GROUP_PROTOCOL_CONSUMER;
        kafka.group.membership = metadata_of(1, "me");
        kafka_take_membership(&kafka);
        bool is_taken = i == 0 || i == 7;
        assert_int_equal(kafka.group.membership != NULL, is_taken);
        assert_null(kafka.group.coming);
        assert_string_equal(world.noted, is_taken ? "me" : "");
    }
}

TEST(a_member_without_an_id_was_removed)
{
    world.member = "";
    kafka.group.coming = metadata_of(5, "");
    kafka_take_membership(&kafka);
    assert_null(kafka.group.membership);
}

TEST(an_id_that_the_slot_can_not_hold_is_noted_as_joining)
{
    char id[SLOT_MEMBER_BYTES_MAX + 2];
    for (int over = 0; over < 2; over++) {
        again(state);
        memset(id, 'i', sizeof id);
        id[SLOT_MEMBER_BYTES_MAX + over] = '\0';
        world.member = id;
        kafka.group.coming = metadata_of(5, id);
        kafka_take_membership(&kafka);
        assert_non_null(kafka.group.membership);
        assert_string_equal(world.noted, over ? SLOT_MEMBER_JOINING : id);
    }
}

TEST(the_epoch_of_the_group_protocol_is_refreshed)
{
    for (int i = 0; i < 8; i++) {
        again(state);
        config.group.protocol = i == 1 ? GROUP_PROTOCOL_COOPERATIVE : GROUP_PROTOCOL_CONSUMER;
        kafka.group.assigned = i == 2 ? list_of("0") : NULL;
        world.is_lost = i == 3;
        world.generation = i == 4 ? 0 : i == 5 ? -1 : 5; // of a member that the coordinator does not know
        if (i == 6)
            world.member = "";
        world.has_no_metadata = i == 7;
        kafka_refresh_membership(&kafka);
        assert_int_equal(kafka.group.membership != NULL, i == 0);
    }
    again(state);
    config.group.protocol = GROUP_PROTOCOL_CONSUMER;
    world.generation = 1;
    kafka_refresh_membership(&kafka);
    assert_non_null(kafka.group.membership);
}

// ---- is the assignment the newest? ----

TEST(an_assignment_is_confirmed_by_the_coordinator_s)
{
    static const struct {
        const char *ours, *theirs;
        bool unstable;
        enum status eager, cooperative;
    } rows[] = {
        {"01", "01", false, STATUS_OK, STATUS_OK},       {"01", "10", false, STATUS_OK, STATUS_OK},
        {"01", "012", false, STATUS_RETRY, STATUS_OK},   {"01", "0", false, STATUS_RETRY, STATUS_RETRY},
        {"01", "02", false, STATUS_RETRY, STATUS_RETRY}, {"01", "21", false, STATUS_RETRY, STATUS_RETRY},
        {"01", "01", true, STATUS_RETRY, STATUS_RETRY},  {"01", NULL, false, STATUS_RETRY, STATUS_RETRY},
        {"", "", false, STATUS_OK, STATUS_OK},           {"", NULL, false, STATUS_OK, STATUS_OK},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        again(state);
        bool cooperative = i % 2;
        config.group.protocol = cooperative ? GROUP_PROTOCOL_COOPERATIVE : GROUP_PROTOCOL_EAGER;
        kafka.group.assigned = list_of(rows[i / 2].ours);
        add_member("other", "01");
        add_member("me", rows[i / 2].theirs);
        add_member(NULL, "01");
        world.is_unstable = rows[i / 2].unstable;
        assert_int_equal(kafka_confirm_assigned(&kafka, 777, &error),
                         cooperative ? rows[i / 2].cooperative : rows[i / 2].eager);
        assert_int_equal(world.timeout_ms, 777);
        if (error.status != STATUS_OK)
            assert_string_equal(error.text, "Kafka at broker:9092: the group is being rebalanced");
    }
}

TEST(what_needs_no_question_is_confirmed_without_one)
{
    kafka.group.assigned = list_of("01");
    world.member = NULL;
    assert_ok(kafka_confirm_assigned(&kafka, 777, &error), &error);
    again(state);
    kafka.group.assigned = list_of("01");
    config.group.protocol = GROUP_PROTOCOL_CONSUMER;
    assert_ok(kafka_confirm_assigned(&kafka, 777, &error), &error);
    assert_int_equal(world.n_asked, 0);
}

TEST(without_an_answer_it_is_asked_again_and_a_denial_is_final)
{
    static const struct {
        rd_kafka_resp_err_t code;
        enum status status;
        const char *says;
    } rows[] = {{RD_KAFKA_RESP_ERR__TIMED_OUT, STATUS_RETRY, "of the consumer"},
                {RD_KAFKA_RESP_ERR__FAIL, STATUS_RETRY, "of the asking"},
                {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, STATUS_REFUSE,
                 "asking for the group's members"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        again(state);
        kafka.group.assigned = list_of("01");
        strcpy(kafka.clients.consumer.last_error, "of the consumer");
        strcpy(kafka.clients.asking.handle.last_error, "of the asking");
        world.code = rows[i].code;
        assert_int_equal(kafka_confirm_assigned(&kafka, 1, &error), rows[i].status);
        assert_non_null(strstr(error.text, rows[i].says));
    }
}

// ---- revoked partitions ----

TEST(revoked_partitions_are_committed_in_the_next_generation_unless_they_are_another_s)
{
    for (int i = 0; i < 9; i++) {
        again(state);
        rd_kafka_topic_partition_list_t *list = list_of("34");
        kafka.group.membership = i == 1 ? NULL : metadata_of(5, "me");
        rd_kafka_consumer_group_metadata_t *before = kafka.group.membership;
        world.generation = 6;
        add_member("me", "34");
        add_member("other", i == 2 ? "0123" : i == 3 ? "4" : "012");
        add_member("more", NULL);
        if (i == 4)
            config.group.protocol = GROUP_PROTOCOL_CONSUMER;
        world.is_unstable = i == 5;
        if (i == 6)
            world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
        if (i == 7)
            world.member = "";
        world.has_no_metadata = i == 8;
        kafka_confirm_revoked(&kafka, list, 55);
        assert_int_equal(kafka.group.membership != before, i == 0);
        assert_int_equal(world.n_asked, i != 1 && i != 4 && i != 7 && i != 8);
        if (i == 0)
            assert_int_equal(world.timeout_ms, 55);
        rd_kafka_topic_partition_list_destroy(list);
    }
}

// ---- the time without membership ----

static enum status watch_at(int64_t ms, const char *why)
{
    struct error last = {0};
    snprintf(last.text, sizeof last.text, "%s", why);
    world.now_ms = 100000 + ms;
    return kafka_watch_membership(&kafka, &last, &error);
}

TEST(a_member_waits_for_nothing)
{
    kafka.group.membership = metadata_of(5, "me");
    strcpy(kafka.outside.waiting, "something");
    kafka.outside.time_ms = 5000;
    assert_int_equal(watch_at(100, "a passing error"), STATUS_OK);
    assert_true(kafka.figures.is_member);
    assert_string_equal(kafka.outside.waiting, "");
    assert_int_equal(kafka.outside.time_ms, 0);
    world.generation = 6; // rejoined; it is looked at once a second
    assert_int_equal(watch_at(1099, ""), STATUS_OK);
    assert_true(kafka.figures.is_member);
    assert_int_equal(watch_at(1100, ""), STATUS_OK);
    assert_false(kafka.figures.is_member);
    assert_string_equal(kafka.outside.waiting, "Kafka at broker:9092: reading topic control");
    assert_int_equal(kafka.outside.time_ms, 1);
    world.generation = 5;
    watch_at(2100, "");
    assert_true(kafka.figures.is_member);
    kafka.group.assigned = list_of("0"); // whose offsets are not read yet
    watch_at(4000, "");
    assert_false(kafka.figures.is_member);
}

TEST(the_time_outside_is_counted_by_steps_of_five_seconds_at_most)
{
    kafka.group.subscribed = true;
    assert_int_equal(watch_at(4999, ""), STATUS_OK);
    assert_int_equal(kafka.outside.time_ms, 4999);
    assert_string_equal(kafka.outside.waiting, "Kafka at broker:9092: not yet a member of group workers");
    assert_int_equal(watch_at(9999, "why"), STATUS_OK);
    assert_int_equal(kafka.outside.time_ms, 9999);
    assert_string_equal(kafka.outside.waiting, "why");
    assert_int_equal(watch_at(3600000, ""), STATUS_OK); // stopped for an hour
    assert_int_equal(kafka.outside.time_ms, 14999);
    assert_string_equal(kafka.outside.waiting, "why"); // the last that was said
    kafka.clients.producer.is_down = true;
    assert_int_equal(watch_at(3601000, ""), STATUS_OK);
    assert_int_equal(kafka.outside.time_ms, 0);
    assert_string_equal(kafka.outside.waiting, "");
}

TEST(a_worker_that_stays_outside_ends_and_says_what_the_coordinator_says)
{
    for (int i = 0; i < 2; i++) {
        again(state);
        kafka.outside.time_ms = 25000;
        add_member("other", NULL);
        add_member(i ? "me" : "mee", NULL);
        add_member(NULL, NULL);
        world.is_unstable = i;
        assert_int_equal(watch_at(4999, "why"), STATUS_OK);
        assert_int_equal(world.n_asked, 0);
        assert_int_equal(watch_at(5000, ""), STATUS_RESTART);
        assert_int_equal(world.timeout_ms, 1000);
        assert_string_equal(
            error.text, i == 0
                            ? "no confirmed member of group workers for 30 s (--membership-timeout): why. "
                              "The group is stable and has 3 members, this worker is none of them"
                            : "no confirmed member of group workers for 30 s (--membership-timeout): why. "
                              "The group is being rebalanced and has 3 members, this worker is one of them");
        assert_int_equal(kafka.stopped.status, STATUS_RESTART);
    }
}

TEST(a_worker_that_waits_for_the_right_to_read_does_not_end)
{
    kafka.outside.time_ms = 29000;
    kafka.watch.lacks_read = true;
    assert_int_equal(watch_at(4999, "it needs the right Read"), STATUS_OK);
    assert_int_equal(kafka.outside.time_ms, 29000);
    assert_string_equal(kafka.outside.waiting, "it needs the right Read");
    kafka.watch.lacks_read = false;
    assert_int_equal(watch_at(6000, ""), STATUS_RESTART);
}

TEST(a_coordinator_that_does_not_answer_starts_the_time_again)
{
    static const rd_kafka_resp_err_t codes[] = {
        RD_KAFKA_RESP_ERR__TIMED_OUT,        RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
        RD_KAFKA_RESP_ERR__TRANSPORT,        RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
        RD_KAFKA_RESP_ERR_NOT_COORDINATOR,   RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        again(state);
        kafka.outside.time_ms = 29000;
        world.code = codes[i];
        assert_int_equal(watch_at(1000, "why"), STATUS_OK);
        assert_int_equal(kafka.outside.time_ms, 0);
        assert_non_null(strstr(kafka.outside.waiting, "asking for the group's members"));
        assert_int_equal(kafka.stopped.status, STATUS_OK);
    }
    again(state);
    kafka.outside.time_ms = 29000;
    world.code = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; // it answers
    assert_int_equal(watch_at(1000, "why"), STATUS_RESTART);
}

TEST_FIXTURE(begin, end);

// Topics followed for a mirror: where reading starts, what is delivered, when the end was reached, and what
// is said of a group (consumer/queue/kafka/client/kafka_follow.c). Messages and offsets are this program's.
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_TOPICS = 2, PARTITIONS_MAX = 4, MESSAGES_MAX = 8, LOOK_MS = 30000, MEMBERS_MAX = 3 };

static const char *const topics[N_TOPICS] = {"results", "jobs"};

struct named_member {
    const char *client, *host;
    rd_kafka_topic_partition_list_t *list;
};

static struct {
    int64_t now_ms;
    int32_t n_partitions[N_TOPICS];
    int64_t ends[N_TOPICS][PARTITIONS_MAX], starts[N_TOPICS][PARTITIONS_MAX];
    enum status finding, ending, opening;
    int n_opened, n_found, n_assigned, n_asking_closed;
    int find_timeout_ms;
    rd_kafka_topic_partition_list_t *assigned;
    rd_kafka_resp_err_t assigning, committing, ends_code;
    rd_kafka_message_t messages[MESSAGES_MAX];
    int n_messages, at, n_destroyed, poll_timeout_ms;
    rd_kafka_topic_partition_list_t *committed;
    int64_t log_starts[PARTITIONS_MAX], log_ends[PARTITIONS_MAX];
    struct named_member members[MEMBERS_MAX];
    int n_members;
} world;

static struct kafka_follow *follow;
static struct kafka_config config;
static struct error error;
static char clients[2];

static size_t number_of(const char *topic)
{
    for (size_t t = 0; t < N_TOPICS; t++)
        if (strcmp(topics[t], topic) == 0)
            return t;
    fail_msg("topic %s", topic);
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

// ---- clients and topics ----

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *conf, struct error *fault)
{
    assert_int_equal(role, world.n_opened % 2 == 0 ? KAFKA_ADMIN : KAFKA_READER);
    rd_kafka_conf_destroy(conf);
    if (world.opening != STATUS_OK && role == KAFKA_READER)
        return error_set(fault, world.opening, ERROR_BROKER, "no reader");
    handle->config = of;
    handle->rk = (rd_kafka_t *)&clients[world.n_opened++ % 2];
    return STATUS_OK;
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(deadline_ms, world.now_ms + 5000);
    handle->rk = NULL;
}

void __wrap_kafka_asking_close(struct kafka_asking *asking, int64_t deadline_ms)
{
    world.n_asking_closed++;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_ptr_equal(handle->rk, &clients[0]);
    world.n_found++;
    world.find_timeout_ms = timeout_ms;
    *n_partitions = world.n_partitions[number_of(topic)];
    return world.finding == STATUS_OK ? STATUS_OK : error_set(fault, world.finding, ERROR_BROKER, "away");
}

enum status __wrap_kafka_written_ends(const struct kafka_config *of, rd_kafka_topic_partition_list_t *list,
                                      struct error *fault)
{
    assert_ptr_equal(of, &config);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = world.ends[number_of(list->elems[i].topic)][list->elems[i].partition];
    return world.ending == STATUS_OK ? STATUS_OK : error_set(fault, world.ending, ERROR_BROKER, "no ends");
}

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &clients[1]);
    world.n_assigned++;
    if (world.assigned)
        rd_kafka_topic_partition_list_destroy(world.assigned);
    world.assigned = rd_kafka_topic_partition_list_copy(list);
    return world.assigning;
}

// ---- messages ----

// A message's topic is its name's address.
const char *__wrap_rd_kafka_topic_name(const rd_kafka_topic_t *topic)
{
    return (const char *)topic;
}

rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &clients[1]);
    world.poll_timeout_ms = timeout_ms;
    world.now_ms += 10;
    return world.at < world.n_messages ? &world.messages[world.at++] : NULL;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *message)
{
    assert_ptr_equal(message, &world.messages[world.at - 1]);
    world.n_destroyed++;
}

struct record __wrap_kafka_message_record(const rd_kafka_message_t *message, struct text topic,
                                          struct header *headers)
{
    return (struct record){.topic = topic,
                           .partition = message->partition,
                           .offset = message->offset,
                           .value = {message->payload, message->len}};
}

// ---- the group ----

rd_kafka_resp_err_t __wrap_rd_kafka_committed(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                              int timeout_ms)
{
    assert_ptr_equal(rk, &clients[1]);
    assert_int_equal(timeout_ms, 5000);
    for (int i = 0; i < list->cnt && world.committing == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        const rd_kafka_topic_partition_t *from =
            rd_kafka_topic_partition_list_find(world.committed, list->elems[i].topic, i);
        list->elems[i].offset = from->offset;
        list->elems[i].err = from->err;
        list->elems[i].metadata = from->metadata ? strdup(from->metadata) : NULL;
        list->elems[i].metadata_size = from->metadata_size;
    }
    return world.committing;
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    assert_ptr_equal(handle->rk, &clients[1]);
    assert_true(which == RD_KAFKA_OFFSET_BEGINNING || which == RD_KAFKA_OFFSET_END);
    assert_int_equal(timeout_ms, 5000);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = which == RD_KAFKA_OFFSET_END ? world.log_ends[i] : world.log_starts[i];
    return world.ends_code;
}

rd_kafka_resp_err_t __wrap_kafka_members(struct kafka_asking *asking, const struct kafka_config *of,
                                         int timeout_ms,
                                         void (*receive)(void *, const rd_kafka_MemberDescription_t *),
                                         void *context, bool *is_stable)
{
    assert_ptr_equal(of, &config);
    assert_int_equal(timeout_ms, 5000);
    *is_stable = false;
    for (int i = 0; i < world.n_members; i++)
        receive(context, (const rd_kafka_MemberDescription_t *)&world.members[i]);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

const char *__wrap_rd_kafka_MemberDescription_client_id(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct named_member *)member)->client;
}

const char *__wrap_rd_kafka_MemberDescription_host(const rd_kafka_MemberDescription_t *member)
{
    return ((const struct named_member *)member)->host;
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
    return ((const struct named_member *)assignment)->list;
}

// ---- the test ----

static int64_t start_of(void *context, const char *topic, int32_t partition)
{
    assert_ptr_equal(context, &world);
    return world.starts[number_of(topic)][partition];
}

static enum status open_it(void)
{
    return kafka_follow_open(&follow, &config, topics, N_TOPICS, start_of, &world, &error);
}

// "results" has partition 0, of which 5 of 9 were read; "jobs" 0 and 1, of which nothing was.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 5000;
    world.n_partitions[0] = 1;
    world.n_partitions[1] = 2;
    world.starts[0][0] = 5;
    world.ends[0][0] = 9;
    for (int i = 0; i < PARTITIONS_MAX; i++)
        world.starts[1][i] = OFFSET_UNKNOWN;
    config = (struct kafka_config){.brokers = "broker:9092", .group.name = "workers"};
    error = (struct error){0};
    follow = NULL;
    return 0;
}

static int end(void **state)
{
    kafka_follow_close(follow);
    if (world.assigned)
        rd_kafka_topic_partition_list_destroy(world.assigned);
    if (world.committed)
        rd_kafka_topic_partition_list_destroy(world.committed);
    for (int i = 0; i < world.n_members; i++)
        if (world.members[i].list)
            rd_kafka_topic_partition_list_destroy(world.members[i].list);
    return 0;
}

static void open_well(void)
{
    if (open_it() != STATUS_OK)
        fail_msg("%s", error.text);
}

static void assert_assigned(int i, const char *topic, int32_t partition, int64_t offset)
{
    assert_true(i < world.assigned->cnt);
    assert_string_equal(world.assigned->elems[i].topic, topic);
    assert_int_equal(world.assigned->elems[i].partition, partition);
    assert_int_equal(world.assigned->elems[i].offset, offset);
}

// Code 0: a record.
static void add_message(const char *topic, int32_t partition, int64_t offset, rd_kafka_resp_err_t code)
{
    assert_true(world.n_messages < MESSAGES_MAX);
    world.messages[world.n_messages++] = (rd_kafka_message_t){.err = code,
                                                              .rkt = (rd_kafka_topic_t *)(uintptr_t)topic,
                                                              .partition = partition,
                                                              .offset = offset,
                                                              .payload = (void *)(uintptr_t) "value",
                                                              .len = 5};
}

struct followed_record {
    char text[128]; // "topic/partition/offset "
    enum status status;
};

static enum status receive(void *context, const struct record *record, struct error *fault)
{
    struct followed_record *received = context;
    size_t size = strlen(received->text);
    snprintf(received->text + size, sizeof received->text - size, "%.*s/%d/%lld ", (int)record->topic.size,
             record->topic.data, record->partition, (long long)record->offset);
    return received->status == STATUS_OK ? STATUS_OK
                                         : error_set(fault, received->status, ERROR_STORE, "receiver");
}

static enum status poll_messages(int n_max, struct followed_record *received)
{
    return kafka_follow_poll(follow, 1000, n_max, receive, received, &error);
}

// ---- opening ----

TEST(reading_starts_where_the_caller_says)
{
    open_well();
    assert_int_equal(world.find_timeout_ms, KAFKA_START_TIMEOUT_MS);
    assert_int_equal(world.n_assigned, 1);
    assert_int_equal(world.assigned->cnt, 3);
    assert_assigned(0, "results", 0, 5);
    assert_assigned(1, "jobs", 0, RD_KAFKA_OFFSET_BEGINNING);
    assert_assigned(2, "jobs", 1, RD_KAFKA_OFFSET_BEGINNING);
    assert_int_equal(kafka_follow_n_partitions(follow, 0), 1);
    assert_int_equal(kafka_follow_n_partitions(follow, 1), 2);
    assert_int_equal(kafka_follow_position(follow, 0, 0), 5);
    assert_int_equal(kafka_follow_position(follow, 1, 1), OFFSET_UNKNOWN);
    int64_t offset, hash;
    kafka_follow_last(follow, 1, 1, &offset, &hash);
    assert_int_equal(offset, -1);
    kafka_follow_close(follow);
    follow = NULL;
    assert_int_equal(world.n_asking_closed, 1);
}

TEST(what_is_missing_refuses_to_open)
{
    world.n_partitions[1] = 0;
    assert_int_equal(open_it(), STATUS_REFUSE);
    assert_string_equal(error.text, "Kafka at broker:9092: there is no topic jobs");
    assert_null(follow);
    world.n_partitions[1] = KAFKA_PARTITIONS_MAX + 1;
    world.n_opened = 0;
    assert_int_equal(open_it(), STATUS_REFUSE);
    assert_string_equal(error.text, "topic jobs has 65537 partitions, at most 65536 are followed");
    world.n_partitions[1] = 2;
    for (int i = 0; i < 4; i++) {
        world.n_opened = 0;
        world.finding = i == 0 ? STATUS_REFUSE : STATUS_OK;
        world.ending = i == 1 ? STATUS_REFUSE : STATUS_OK;
        world.opening = i == 2 ? STATUS_REFUSE : STATUS_OK;
        world.assigning = i == 3 ? RD_KAFKA_RESP_ERR__STATE : RD_KAFKA_RESP_ERR_NO_ERROR;
        assert_int_equal(open_it(), STATUS_REFUSE);
        assert_null(follow);
    }
    assert_non_null(strstr(error.text, "taking partitions"));
}

// ---- records ----

TEST(records_are_delivered_with_their_places)
{
    struct followed_record received = {0};
    int64_t offset, hash;
    open_well();
    add_message("jobs", 1, 7, 0);
    add_message("results", 0, 5, 0);
    add_message("jobs", 1, 9, 0); // 8 is no record
    assert_int_equal(poll_messages(100, &received), STATUS_OK);
    assert_string_equal(received.text, "jobs/1/7 results/0/5 jobs/1/9 ");
    assert_int_equal(world.n_destroyed, 3);
    assert_int_equal(world.poll_timeout_ms, 1000 - 30);
    assert_int_equal(kafka_follow_position(follow, 1, 1), 10);
    assert_int_equal(kafka_follow_position(follow, 1, 0), OFFSET_UNKNOWN);
    assert_int_equal(kafka_follow_position(follow, 0, 0), 6);
    kafka_follow_last(follow, 1, 1, &offset, &hash);
    assert_int_equal(offset, 9);
    assert_int_equal(hash, kafka_follow_hash(&(struct record){.value = text_from_string("value")}));
    assert_false(kafka_follow_take_doubt(follow));
}

TEST(a_call_delivers_no_more_than_it_may)
{
    struct followed_record received = {0};
    open_well();
    add_message("jobs", 0, 0, RD_KAFKA_RESP_ERR__PARTITION_EOF); // no record
    for (int64_t i = 5; i < 8; i++)
        add_message("results", 0, i, 0);
    assert_int_equal(poll_messages(2, &received), STATUS_OK);
    assert_string_equal(received.text, "results/0/5 results/0/6 ");
    assert_int_equal(poll_messages(0, &received), STATUS_OK);
    assert_int_equal(world.at, 3);
}

TEST(a_record_that_is_not_taken_is_not_passed)
{
    struct followed_record received = {.status = STATUS_RETRY};
    open_well();
    add_message("results", 0, 5, 0);
    add_message("results", 0, 6, 0);
    assert_int_equal(poll_messages(100, &received), STATUS_RETRY);
    assert_string_equal(error.text, "receiver");
    assert_string_equal(received.text, "results/0/5 ");
    assert_int_equal(kafka_follow_position(follow, 0, 0), 5);
    assert_int_equal(world.n_destroyed, 1);
}

TEST(records_of_other_places_are_left_out)
{
    struct followed_record received = {0};
    open_well();
    add_message("results", 1, 0, 0); // added since, without a place yet
    add_message("results", -1, 0, 0);
    add_message("other", 0, 0, 0);
    add_message(NULL, 0, 0, 0);
    add_message("other", 0, 77, RD_KAFKA_RESP_ERR__PARTITION_EOF);
    assert_int_equal(poll_messages(100, &received), STATUS_OK);
    assert_string_equal(received.text, "");
    assert_int_equal(world.n_destroyed, 5);
    assert_int_equal(kafka_follow_position(follow, 0, 0), 5);
}

TEST(a_broker_that_is_away_is_waited_for_and_one_that_denies_is_not)
{
    struct followed_record received = {0};
    open_well();
    add_message("results", 0, 0, RD_KAFKA_RESP_ERR__TRANSPORT);
    assert_int_equal(poll_messages(100, &received), STATUS_OK);
    add_message("results", 0, 0, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(poll_messages(100, &received), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "results: "));
    assert_false(kafka_follow_take_doubt(follow));
}

// ---- doubts ----

TEST(a_topic_that_is_gone_or_shorter_is_doubtful)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                                                RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
                                                RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION};
    struct followed_record received = {0};
    open_well();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        world.at = world.n_messages = 0;
        add_message(i == 0 ? NULL : "results", 0, 0, codes[i]);
        assert_int_equal(poll_messages(100, &received), STATUS_OK);
        assert_true(kafka_follow_take_doubt(follow));
        assert_false(kafka_follow_take_doubt(follow)); // once
    }
    for (int shorter = 0; shorter < 2; shorter++)
        for (int is_end = 0; is_end < 2; is_end++) {
            world.at = world.n_messages = 0;
            add_message("results", 0, kafka_follow_position(follow, 0, 0) - shorter,
                        is_end ? RD_KAFKA_RESP_ERR__PARTITION_EOF : RD_KAFKA_RESP_ERR_NO_ERROR);
            add_message("results", 0, 50, RD_KAFKA_RESP_ERR__PARTITION_EOF);
            assert_int_equal(poll_messages(100, &received), STATUS_OK);
            assert_int_equal(kafka_follow_take_doubt(follow), shorter); // a later message takes nothing back
        }
    world.at = world.n_messages = 0;
    add_message("results", 0, 1, RD_KAFKA_RESP_ERR__TRANSPORT); // has no offset
    add_message("jobs", 0, 0, 0);                               // nothing was read of it
    assert_int_equal(poll_messages(100, &received), STATUS_OK);
    assert_false(kafka_follow_take_doubt(follow));
}

// ---- the end ----

static void reach(const char *topic, int32_t partition, int64_t offset)
{
    struct followed_record received = {0};
    world.at = world.n_messages = 0;
    add_message(topic, partition, offset, RD_KAFKA_RESP_ERR__PARTITION_EOF);
    assert_int_equal(poll_messages(100, &received), STATUS_OK);
}

TEST(the_end_is_that_of_every_partition_at_the_start)
{
    open_well();
    assert_false(kafka_follow_is_at_end(follow));
    reach("jobs", 0, 0);
    reach("results", 0, 9); // beyond records that are not delivered
    assert_int_equal(kafka_follow_position(follow, 0, 0), 9);
    assert_false(kafka_follow_is_at_end(follow)); // jobs/1 has no record, perhaps
    reach("jobs", 1, 0);
    assert_true(kafka_follow_is_at_end(follow));
    assert_ok(kafka_follow_check_end(follow, &error), &error);
}

TEST(a_transaction_that_stays_open_at_the_end_is_waited_for_and_said)
{
    open_well();
    reach("jobs", 0, 0);
    reach("jobs", 1, 0);
    reach("results", 0, 8);
    int64_t reached_ms = world.now_ms - 10;
    world.now_ms = reached_ms + KAFKA_OPEN_TRANSACTION_MS;
    assert_false(kafka_follow_is_at_end(follow));
    world.now_ms++;
    assert_true(kafka_follow_is_at_end(follow));
    assert_int_equal(kafka_follow_check_end(follow, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "topic results partition 0: a transaction stays open for more than 10 s"
                                    " at offset 8: what follows it was not read; run this again when it has"
                                    " ended");
}

// ---- partitions that are added ----

TEST(added_partitions_are_found_within_half_a_minute)
{
    struct followed_record received = {0};
    open_well();
    add_message("results", 0, 5, 0);
    world.n_partitions[1] = 4;
    world.now_ms += LOOK_MS - 1;
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.n_assigned, 1);
    world.now_ms = 5000 + LOOK_MS;
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.find_timeout_ms, 5000);
    assert_int_equal(world.n_assigned, 2);
    assert_int_equal(world.assigned->cnt, 5);
    assert_assigned(0, "results", 0, 6);
    assert_assigned(4, "jobs", 3, RD_KAFKA_OFFSET_BEGINNING);
    assert_int_equal(kafka_follow_position(follow, 1, 3), OFFSET_UNKNOWN);
    int64_t offset, hash;
    kafka_follow_last(follow, 1, 3, &offset, &hash);
    assert_int_equal(offset, -1);
    int n_found = world.n_found;
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.n_found, n_found); // not at once again
    world.now_ms += LOOK_MS;
    world.n_partitions[0] = 2; // the first topic has more, and the second as before
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.n_assigned, 3);
    world.now_ms += LOOK_MS;
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.n_assigned, 3);
    world.now_ms += LOOK_MS;
    world.n_partitions[1] = 5;
    world.finding = STATUS_REFUSE; // no answer: later
    assert_int_equal(poll_messages(1, &received), STATUS_OK);
    assert_int_equal(world.n_assigned, 3);
    world.finding = STATUS_OK;
    world.now_ms += LOOK_MS;
    world.assigning = RD_KAFKA_RESP_ERR__STATE;
    assert_int_equal(poll_messages(1, &received), STATUS_REFUSE);
}

// ---- the group ----

static void set_committed(int32_t partition, int64_t offset, const char *metadata)
{
    if (!world.committed)
        world.committed = rd_kafka_topic_partition_list_new(2);
    rd_kafka_topic_partition_t *added = rd_kafka_topic_partition_list_add(world.committed, "jobs", partition);
    added->offset = offset;
    added->metadata = metadata ? strdup(metadata) : NULL;
    added->metadata_size = metadata ? strlen(metadata) : 0;
}

static void commit_map(int32_t partition, int64_t offset, int n_finished)
{
    struct offset_map map;
    struct buffer text = {0};
    offset_map_init(&map);
    offset_map_restart_empty(&map, offset);
    for (int i = 0; i <= n_finished; i++)
        assert_int_equal(offset_map_deliver(&map, offset + i), DELIVERY_NEW);
    for (int i = 1; i <= n_finished; i++)
        offset_map_finish(&map, offset + i);
    offset_map_encode(&map, &text);
    set_committed(partition, offset, text.data);
    buffer_finish(&text);
}

static enum status read_standings(struct kafka_standing *standings)
{
    size_t n = 0;
    memset(standings, 0x55, 4 * sizeof *standings);
    enum status status = kafka_follow_standings(follow, 1, standings, 4, &n, &error);
    assert_int_equal(n, world.n_partitions[1]);
    return status;
}

TEST(a_group_stands_where_it_committed)
{
    struct kafka_standing standings[4];
    world.n_partitions[1] = 4;
    open_well();
    commit_map(0, 70, 3);
    set_committed(1, RD_KAFKA_OFFSET_INVALID, NULL); // none yet
    set_committed(2, 0, "of another program");
    set_committed(3, 0, NULL);
    for (int i = 0; i < 4; i++)
        world.log_ends[i] = 100 + i;
    world.log_starts[1] = 30;
    world.log_starts[2] = 40;
    assert_int_equal(read_standings(standings), STATUS_OK);
    static const int64_t committed[] = {70, -1, 0, 0};
    static const int32_t covered[] = {3, 0, -1, 0};
    static const int64_t unfinished[] = {27, 71, 62, 103}; // of what is in the log
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(standings[i].partition, i);
        assert_int_equal(standings[i].committed, committed[i]);
        assert_int_equal(standings[i].map_covered, covered[i]);
        assert_int_equal(standings[i].end, 100 + i);
        assert_int_equal(kafka_standing_unfinished(&standings[i]), unfinished[i]);
        assert_string_equal(standings[i].owner, "");
    }
}

// Else as many unread jobs would count as finished.
TEST(finished_offsets_that_were_deleted_are_not_subtracted_from_what_is_in_the_log)
{
    struct kafka_standing standings[4];
    open_well();
    commit_map(0, 70, 10); // finished: 71 to 80
    commit_map(1, 70, 10);
    world.log_ends[0] = world.log_ends[1] = 100;
    world.log_starts[0] = 75;
    world.log_starts[1] = 90;
    assert_int_equal(read_standings(standings), STATUS_OK);
    assert_int_equal(standings[0].map_covered, 10);
    assert_int_equal(kafka_standing_unfinished(&standings[0]), 19);
    assert_int_equal(kafka_standing_unfinished(&standings[1]), 10);
}

TEST(a_group_is_looked_at_without_reading_a_record)
{
    assert_ok(kafka_follow_open(&follow, &config, topics, N_TOPICS, NULL, NULL, &error), &error);
    assert_int_equal(world.n_assigned, 0);
    int32_t n_partitions = kafka_follow_n_partitions(follow, 1);
    world.n_partitions[1]++;
    assert_ok(kafka_follow_look(follow, &error), &error);
    assert_int_equal(kafka_follow_n_partitions(follow, 1), n_partitions + 1);
    assert_int_equal(world.n_assigned, 0);
    world.finding = STATUS_REFUSE;
    assert_int_equal(kafka_follow_look(follow, &error), STATUS_RETRY);
}

TEST(offsets_without_an_answer_are_asked_for_again)
{
    struct kafka_standing standings[4];
    open_well();
    set_committed(0, 1, NULL);
    set_committed(1, 1, NULL);
    world.committing = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_int_equal(read_standings(standings), STATUS_RETRY);
    assert_non_null(strstr(error.text, "reading the group's offsets"));
    world.committing = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.ends_code = RD_KAFKA_RESP_ERR__TRANSPORT;
    assert_int_equal(read_standings(standings), STATUS_RETRY);
    world.ends_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_int_equal(read_standings(standings), STATUS_OK);
    for (int i = 0; i < 2; i++) { // the first is no better than the last
        world.committed->elems[i].err = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        assert_int_equal(read_standings(standings), STATUS_RETRY);
        world.committed->elems[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
    }
}

static void own(int member, const char *client, const char *host, const char *topic, int32_t partition)
{
    struct named_member *listed = &world.members[member];
    if (!listed->list)
        listed->list = rd_kafka_topic_partition_list_new(2);
    rd_kafka_topic_partition_list_add(listed->list, topic, partition);
    listed->client = client;
    listed->host = host;
    world.n_members = member + 1;
}

TEST(owners_are_named_with_their_hosts)
{
    struct kafka_standing standings[4];
    world.n_partitions[1] = 4;
    open_well();
    for (int32_t i = 0; i < 4; i++)
        set_committed(i, 1, NULL);
    own(0, "a", "/10.0.0.1", "jobs", 2); // as brokers write it
    own(0, "a", "/10.0.0.1", "jobs", 0);
    own(0, "a", "/10.0.0.1", "other", 1);
    own(1, "b", "host", "jobs", 3);
    own(1, "b", "host", "jobs", 4); // added since
    own(1, "b", "host", "jobs", -1);
    world.n_members = 3; // the third has no partitions
    assert_int_equal(read_standings(standings), STATUS_OK);
    assert_string_equal(standings[0].owner, "a/10.0.0.1");
    assert_string_equal(standings[1].owner, "");
    assert_string_equal(standings[2].owner, "a/10.0.0.1");
    assert_string_equal(standings[3].owner, "b at host");
    world.members[1].host = NULL;
    assert_int_equal(read_standings(standings), STATUS_OK);
    assert_string_equal(standings[3].owner, "b at ");
}

TEST_FIXTURE(begin, end);

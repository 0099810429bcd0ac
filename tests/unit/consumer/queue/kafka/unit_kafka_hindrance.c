// What keeps a member of the group from its work: topics that are gone, silent brokers, an outage and its
// end, by answers that the test gives (consumer/queue/kafka/kafka_transport.h).
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

static struct {
    int64_t now_ms, silence_ms;
    bool has_answer, cannot_reopen;
    int n_reopened, n_partitions, n_opened;
    const char *opened[KAFKA_METADATA_TOPICS_MAX];
    char warnings[2048];
    int n_warnings;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

enum status __wrap_kafka_metadata_open(struct kafka_metadata *metadata, const struct kafka_config *of,
                                       const char *const *topics, int n_topics, struct error *fault)
{
    assert_ptr_equal(metadata, &kafka.hindrance.metadata);
    assert_ptr_equal(of, &config);
    world.n_opened = n_topics;
    for (int i = 0; i < n_topics; i++)
        world.opened[i] = topics[i];
    return STATUS_OK;
}

bool __wrap_kafka_metadata_turn(struct kafka_metadata *metadata)
{
    assert_ptr_equal(metadata, &kafka.hindrance.metadata);
    return world.has_answer;
}

int64_t __wrap_kafka_metadata_silence_ms(const struct kafka_metadata *metadata)
{
    return world.silence_ms;
}

enum status __wrap_kafka_control_reopen(struct kafka_transport *of, int32_t n_partitions, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    world.n_reopened++;
    world.n_partitions = n_partitions;
    return world.cannot_reopen ? error_set(fault, STATUS_RETRY, ERROR_BROKER, "not now") : STATUS_OK;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

static void keep_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    world.n_warnings++;
    snprintf(world.warnings, sizeof world.warnings, "%s", line);
}

static int begin(void **state)
{
    static const char *const names[] = {"jobs", "results", "dead", "control"};
    memset(&world, 0, sizeof world);
    world.now_ms = 5000;
    config = (struct kafka_config){
        .brokers = "broker:9092",
        .topics = {.jobs = names[0], .results = names[1], .dead = names[2], .control = names[3]},
        .log = keep_warning};
    kafka = (struct kafka_transport){.config = &config};
    kafka.hindrance.metadata.n_topics = 4;
    for (int i = 0; i < 4; i++)
        kafka.hindrance.metadata.topics[i] =
            (struct kafka_metadata_topic){.name = names[i], .n_partitions = 3 + i};
    error = (struct error){0};
    return 0;
}

static const char *look(void)
{
    assert_ok(kafka_hindrance_look(&kafka, &error), &error);
    return kafka_waiting(&kafka.base);
}

TEST(all_topics_are_asked_for)
{
    assert_ok(kafka_hindrance_open(&kafka, &error), &error);
    assert_int_equal(world.n_opened, 4);
    assert_string_equal(world.opened[KAFKA_TOPIC_JOBS], "jobs");
    assert_string_equal(world.opened[KAFKA_TOPIC_RESULTS], "results");
    assert_string_equal(world.opened[KAFKA_TOPIC_DEAD], "dead");
    assert_string_equal(world.opened[KAFKA_TOPIC_CONTROL], "control");
    config.topics.control = NULL;
    assert_ok(kafka_hindrance_open(&kafka, &error), &error);
    assert_int_equal(world.n_opened, 3);
}

TEST(a_topic_that_is_gone_is_named_with_what_it_means)
{
    static const char *const consequences[] = {[KAFKA_TOPIC_JOBS] = "there are no jobs",
                                               [KAFKA_TOPIC_RESULTS] = "results wait for it",
                                               [KAFKA_TOPIC_DEAD] =
                                                   "dead letters, and the results beside them, wait for it",
                                               [KAFKA_TOPIC_CONTROL] =
                                                   "cancellations do not reach this worker"};
    for (int which = 0; which < 4; which++) {
        begin(state);
        struct kafka_metadata_topic *topic = &kafka.hindrance.metadata.topics[which];
        char expected[128], back[64];
        snprintf(expected, sizeof expected, "Kafka at broker:9092 has no topic %s any more: %s", topic->name,
                 consequences[which]);
        snprintf(back, sizeof back, "topic %s is there again", topic->name);
        topic->n_missing = KAFKA_METADATA_MISSING_MIN - 1;
        assert_string_equal(look(), "");
        topic->n_missing++;
        const char *text = look();
        assert_string_equal(text, expected);
        assert_int_equal(world.n_warnings, 1);
        assert_string_equal(world.warnings, text);
        topic->n_missing++;
        assert_string_equal(look(), world.warnings); // still so, and warned of once
        assert_int_equal(world.n_warnings, 1);
        topic->n_missing = 1; // not gone, and not there either
        assert_string_equal(look(), "");
        assert_int_equal(world.n_warnings, 1);
        topic->n_missing = 0;
        assert_string_equal(look(), "");
        assert_int_equal(world.n_warnings, 2);
        assert_string_equal(world.warnings, back);
        assert_int_equal(world.n_reopened, which == KAFKA_TOPIC_CONTROL);
        look();
        assert_int_equal(world.n_warnings, 2);
    }
}

TEST(a_control_topic_that_is_back_is_read_from_its_beginning)
{
    struct kafka_metadata_topic *topic = &kafka.hindrance.metadata.topics[KAFKA_TOPIC_CONTROL];
    topic->n_missing = KAFKA_METADATA_MISSING_MIN;
    look();
    topic->n_missing = 0;
    world.cannot_reopen = true;
    assert_string_equal(look(), "cancellations are not read: not now");
    assert_string_equal(look(), "cancellations are not read: not now");
    assert_int_equal(world.n_warnings, 1);
    assert_int_equal(world.n_reopened, 2);
    world.cannot_reopen = false;
    assert_string_equal(look(), "");
    assert_int_equal(world.n_reopened, 3);
    assert_int_equal(world.n_partitions, 6);
    assert_string_equal(world.warnings, "topic control is there again");
}

TEST(a_jobs_topic_of_which_jobs_ran_here_ends_the_worker)
{
    struct partition unread = {.map.position = OFFSET_UNKNOWN}, read = {.map.position = 7};
    struct partition *tables[][3] = {
        {NULL, NULL, NULL}, {&unread, NULL, &unread}, {&read, NULL, NULL}, {NULL, &unread, &read}};
    for (int i = 0; i < 4; i++) {
        begin(state);
        kafka.partitions = (struct partition_table){tables[i], 3};
        kafka.hindrance.metadata.topics[KAFKA_TOPIC_JOBS].n_missing = KAFKA_METADATA_MISSING_MIN;
        assert_int_equal(kafka_hindrance_look(&kafka, &error), i < 2 ? STATUS_OK : STATUS_RESTART);
        assert_int_equal(kafka.stopped.status, i < 2 ? STATUS_OK : STATUS_RESTART);
        if (i >= 2)
            assert_non_null(strstr(error.text, "topic jobs was deleted or recreated"));
        begin(state); // of another topic it doesn't matter
        kafka.partitions = (struct partition_table){tables[i], 3};
        kafka.hindrance.metadata.topics[KAFKA_TOPIC_RESULTS].n_missing = KAFKA_METADATA_MISSING_MIN;
        assert_ok(kafka_hindrance_look(&kafka, &error), &error);
    }
}

TEST(silence_is_warned_of_once_and_told_in_seconds)
{
    world.silence_ms = 12999;
    assert_string_equal(look(), "Kafka at broker:9092: no broker has answered for 12 s");
    world.silence_ms = 14000;
    assert_string_equal(look(), "Kafka at broker:9092: no broker has answered for 14 s");
    assert_int_equal(world.n_warnings, 1);
    assert_non_null(strstr(world.warnings, "for 12 s"));
    world.silence_ms = 0;
    assert_string_equal(look(), "");
    world.silence_ms = 1;
    assert_string_equal(look(), "Kafka at broker:9092: no broker has answered for 0 s");
    assert_int_equal(world.n_warnings, 2);
}

TEST(what_a_transaction_holds_back_is_told_unless_there_is_more)
{
    strcpy(kafka.hindrance.held, "held back");
    assert_string_equal(look(), "held back");
    world.silence_ms = 20000;
    assert_non_null(strstr(look(), "no broker has answered"));
    strcpy(kafka.outside.waiting, "not a member");
    assert_string_equal(look(), "not a member");
}

// An answer ends an outage if its question was asked after the outage began.
TEST(an_outage_ends_with_a_later_answer)
{
    struct kafka_metadata *metadata = &kafka.hindrance.metadata;
    look();
    assert_int_equal(kafka.hindrance.down_ms, 0);
    assert_false(metadata->is_urgent);
    kafka.clients.producer.is_down = true;
    look();
    assert_int_equal(kafka.hindrance.down_ms, 5000);
    assert_true(metadata->is_urgent);
    world.now_ms = 6000;
    world.has_answer = true;
    metadata->answered_ms = 5000; // asked before
    look();
    assert_int_equal(kafka.hindrance.down_ms, 5000);
    assert_true(kafka_is_down(&kafka));
    metadata->answered_ms = 5001;
    world.has_answer = false; // taken before
    look();
    assert_true(kafka_is_down(&kafka));
    world.has_answer = true;
    kafka.clients.consumer.is_down = true;
    look();
    assert_false(kafka.clients.consumer.is_down || kafka.clients.producer.is_down);
    assert_false(metadata->is_urgent);
    assert_int_equal(kafka.hindrance.down_ms, 0);
    kafka.clients.consumer.is_down = true; // the next one, of which nothing can be asked
    world.has_answer = false;
    look();
    assert_int_equal(kafka.hindrance.down_ms, 6000);
    metadata->is_unable = true;
    look();
    assert_false(kafka_is_down(&kafka));
    kafka.clients.consumer.is_down = true;
    metadata->is_unable = false;
    look();
    kafka.clients.consumer.is_down = false; // as librdkafka found out itself
    look();
    assert_int_equal(kafka.hindrance.down_ms, 0);
}

TEST(a_commit_that_fails_for_want_of_replicas_names_them)
{
    struct kafka_metadata_topic *results = &kafka.hindrance.metadata.topics[KAFKA_TOPIC_RESULTS];
    error = (struct error){.status = STATUS_RETRY, .code = ERROR_BROKER, .text = "timed out"};
    kafka_publish_name_replicas(&kafka, &error);
    assert_string_equal(error.text, "timed out"); // nothing is known
    results->n_in_sync = 2;
    results->partition = 4;
    kafka.publishing.outputs.n_in_sync_min[KAFKA_TOPIC_RESULTS] = 2;
    kafka_publish_name_replicas(&kafka, &error);
    assert_string_equal(error.text, "timed out");
    results->n_in_sync = 1;
    kafka_publish_name_replicas(&kafka, &error);
    assert_string_equal(error.text,
                        "topic results partition 4 has 1 in-sync replicas, fewer than its "
                        "min.insync.replicas of 2: it takes no records until brokers are back (timed out)");
    assert_int_equal(error.status, STATUS_RETRY);
    assert_int_equal(error.code, ERROR_BROKER);
}

TEST_FIXTURE(begin, NULL);

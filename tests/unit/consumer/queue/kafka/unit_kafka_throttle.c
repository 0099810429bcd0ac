// Quotas (consumer/queue/kafka/kafka_throttle.c): what a throttle keeps from beginning, how large groups become, and the
// limits of a new producer. The clock and the producer's queue are this program's.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { START_MS = 1000000, GROUP_MS = 5000, SHORT_MS = 100 };

static struct {
    int64_t now_ms;
    int n_queued, n_warnings;
    char warning[ERROR_TEXT_BYTES];
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

int __wrap_rd_kafka_poll(rd_kafka_t *rk, int timeout_ms)
{
    world.now_ms += timeout_ms;
    return 0;
}

int __wrap_rd_kafka_outq_len(rd_kafka_t *rk)
{
    return world.n_queued;
}

static void keep_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    world.n_warnings++;
    snprintf(world.warning, sizeof world.warning, "%s", line);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    config = (struct kafka_config){.brokers = "b:1", .log = keep_warning};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    strcpy(kafka.identity.id, "sheaf-g-w");
    return 0;
}

// As librdkafka reports an answer.
static void throttle(int ms)
{
    struct kafka_throttle *of = &kafka.clients.producer.throttle;
    of->total_ms += ms;
    of->until_ms = world.now_ms + ms;
    of->longest_ms = of->longest_ms < ms ? ms : of->longest_ms;
}

TEST(nothing_begins_before_a_throttle_ends)
{
    struct commit_advice advice;
    assert_ok(kafka_throttle_await(&kafka, &error), &error);
    throttle(12000);
    assert_int_equal(kafka_throttle_await(&kafka, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "throttled by the broker for another 12.0 s"));
    assert_non_null(strstr(error.text, "sheaf-g-w"));
    assert_string_equal(strstr(world.warning, "throttled"), strstr(error.text, "throttled"));
    kafka_commit_advice(&kafka.base, &advice);
    assert_int_equal(advice.not_before_ms, START_MS + 12000);
    assert_int_equal(world.n_warnings, 1); // once a minute
    world.now_ms += 12000 - SHORT_MS;
    assert_ok(kafka_throttle_await(&kafka, &error), &error);
    kafka_commit_advice(&kafka.base, &advice);
    assert_int_equal(advice.not_before_ms, 0);
}

TEST(the_last_commit_waits_for_a_throttle_that_ends_in_its_time)
{
    throttle(4000);
    kafka.publishing.throttling.patient_until_ms = START_MS + 10000;
    assert_ok(kafka_throttle_await(&kafka, &error), &error);
    assert_in_range(world.now_ms, START_MS + 4000, START_MS + 4100);
    world.now_ms = START_MS;
    throttle(10000);
    assert_ok(kafka_throttle_await(&kafka, &error), &error);
    world.now_ms = START_MS;
    throttle(10001);
    assert_int_equal(kafka_throttle_await(&kafka, &error), STATUS_RETRY);
    assert_int_equal(world.now_ms, START_MS);
}

static size_t jobs_max_after(size_t n_jobs, int throttle_ms)
{
    struct commit_advice advice;
    kafka.publishing.transaction.n_entries = n_jobs;
    kafka_throttle_begin(&kafka);
    throttle(throttle_ms);
    kafka_throttle_learn(&kafka);
    kafka_commit_advice(&kafka.base, &advice);
    return advice.jobs_max;
}

TEST(a_group_is_as_large_as_the_quota_takes_in_five_seconds)
{
    assert_int_equal(jobs_max_after(100, GROUP_MS), 0);
    assert_int_equal(jobs_max_after(100, 4 * GROUP_MS), 25);
    assert_int_equal(jobs_max_after(25, GROUP_MS), 25);
    assert_int_equal(jobs_max_after(10, 1), 25); // a small one says little
    assert_int_equal(jobs_max_after(25, GROUP_MS / 2 - 1), 50);
    assert_int_equal(jobs_max_after(0, 100 * GROUP_MS), 50); // offsets alone
    assert_int_equal(jobs_max_after(1, 100 * GROUP_MS), 1);
}

TEST(records_that_would_time_out_on_a_throttled_connection_are_hopeless)
{
    kafka.publishing.throttling.socket_timeout_ms = 10000;
    kafka.publishing.transaction.began_ms = START_MS;
    throttle(10000);
    assert_false(kafka_throttle_outlasts_requests(&kafka)); // all were acknowledged
    world.n_queued = 1;
    assert_false(kafka_throttle_outlasts_requests(&kafka));
    throttle(10001);
    assert_true(kafka_throttle_outlasts_requests(&kafka));
    world.now_ms += 10001;
    assert_false(kafka_throttle_outlasts_requests(&kafka)); // by a quota
}

static void assert_limits(int transaction_ms, int socket_ms)
{
    char value[32];
    size_t size = sizeof value;
    rd_kafka_conf_t *conf = kafka_conf_create(&config, KAFKA_TRANSACTIONAL, "sheaf-g-w", &error);
    assert_non_null(conf);
    kafka_throttle_set_limits(&kafka, conf);
    assert_int_equal(rd_kafka_conf_get(conf, "transaction.timeout.ms", value, &size), RD_KAFKA_CONF_OK);
    assert_int_equal(atoi(value), transaction_ms);
    assert_int_equal(kafka.publishing.throttling.socket_timeout_ms, socket_ms);
    rd_kafka_conf_destroy(conf);
}

TEST(a_new_producer_waits_longer_after_long_throttles)
{
    assert_limits(30000, 10000);
    throttle(6000);
    assert_limits(30000, 18000);
    throttle(20000);
    assert_limits(60000, 60000);
    throttle(100000);
    assert_limits(120000, 120000);
    kafka.publishing.throttling.are_limits_refused = true;
    assert_limits(30000, 10000);
    kafka.publishing.throttling.are_limits_refused = false;
    struct kafka_property given = {"socket.timeout.ms", "15000"};
    config.properties = &given;
    config.n_properties = 1;
    assert_limits(120000, 15000);
}

TEST_FIXTURE(begin, NULL);

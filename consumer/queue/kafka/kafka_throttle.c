// Quotas. A broker that throttles a client responds to its Produce request at once with the throttle time,
// and reads nothing from that connection meanwhile (KIP-219). librdkafka 2.0.2 keeps sending: its requests
// wait there, and fail after socket.timeout.ms. Therefore
//
//   - no transaction begins while a broker throttles, because its offsets use the same connection. The last
//     one of a partition that leaves this worker has offsets alone, and uses a new producer's connections;
//   - a group of jobs is so large that its records are throttled for about GROUP_MS;
//   - a producer whose requests would time out is replaced, and the next one has longer timeouts.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_MS = 5000, // half of socket.timeout.ms
    SHORT_MS = 100,  // a throttle this short is ignored
    WAIT_MS = 50,
    WARN_INTERVAL_MS = 60000,
    // A worker that dies in a commit keeps others from its partitions until transaction.timeout.ms.
    LIMIT_MS_MAX = 120000,
    GROUP_JOBS_MAX = 1 << 20,
};

int kafka_throttled_ms(const struct kafka_transport *kafka)
{
    return kafka_remaining_ms(kafka->clients.producer.throttle.until_ms);
}

bool kafka_is_throttled(const struct kafka_transport *kafka)
{
    return kafka_throttled_ms(kafka) > SHORT_MS;
}

static void explain(const struct kafka_transport *kafka, char *text, size_t size)
{
    snprintf(
        text, size,
        "throttled by the broker for another %.1f s (quota producer_byte_rate or request_percentage of client %s)",
        kafka_throttled_ms(kafka) / 1000.0, kafka->identity.id);
}

void kafka_throttle_explain(const struct kafka_transport *kafka, struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    if (kafka_throttled_ms(kafka) == 0)
        return;
    explain(kafka, text, sizeof text);
    (void)error_prefix(error, "%s", text);
}

static void warn_sometimes(struct kafka_transport *kafka)
{
    struct kafka_throttling *throttling = &kafka->publishing.throttling;
    char line[ERROR_TEXT_BYTES] = "results wait: ";
    if (throttling->warned_ms && clock_ms() - throttling->warned_ms < WARN_INTERVAL_MS)
        return;
    throttling->warned_ms = clock_ms();
    explain(kafka, line + strlen(line), sizeof line - strlen(line));
    kafka_warn(kafka->config, line);
}

enum status kafka_throttle_await(struct kafka_transport *kafka, struct error *error)
{
    kafka_handle_serve(&kafka->clients.producer);
    while (kafka_throttled_ms(kafka) > 0 &&
           kafka->clients.producer.throttle.until_ms <= kafka->publishing.throttling.patient_until_ms)
        rd_kafka_poll(kafka->clients.producer.rk, WAIT_MS);
    if (!kafka_is_throttled(kafka))
        return STATUS_OK;
    warn_sometimes(kafka);
    char text[ERROR_TEXT_BYTES];
    explain(kafka, text, sizeof text);
    return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: %s", kafka->config->brokers, text);
}

void kafka_throttle_begin(struct kafka_transport *kafka)
{
    kafka->publishing.throttling.total_ms_before = kafka->clients.producer.throttle.total_ms;
}

void kafka_throttle_learn(struct kafka_transport *kafka)
{
    struct kafka_throttling *throttling = &kafka->publishing.throttling;
    int64_t n_jobs = (int64_t)kafka->publishing.transaction.n_entries;
    kafka_handle_serve(&kafka->clients.producer); // the last response may report a throttle
    int64_t took_ms = kafka->clients.producer.throttle.total_ms - throttling->total_ms_before;
    if (n_jobs == 0)
        return;
    if (took_ms > GROUP_MS) {
        int64_t n = n_jobs * GROUP_MS / took_ms;
        throttling->jobs_max = n > 1 ? n : 1;
    } else if (throttling->jobs_max > 0 && took_ms < GROUP_MS / 2 && n_jobs >= throttling->jobs_max) {
        throttling->jobs_max = throttling->jobs_max < GROUP_JOBS_MAX ? 2 * throttling->jobs_max : 0;
    }
}

bool kafka_throttle_outlasts_requests(const struct kafka_transport *kafka)
{
    int64_t waited_ms = clock_ms() - kafka->publishing.transaction.began_ms,
            left_ms = kafka_throttled_ms(kafka);
    return left_ms > 0 && rd_kafka_outq_len(kafka->clients.producer.rk) > 0 &&
           waited_ms + left_ms > kafka->publishing.throttling.socket_timeout_ms;
}

// ---- limits ----

static int read_integer(const rd_kafka_conf_t *conf, const char *name)
{
    char value[32] = "0";
    size_t size = sizeof value;
    (void)rd_kafka_conf_get(conf, name, value, &size);
    return atoi(value);
}

static bool is_given(const struct kafka_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_properties; i++)
        if (strcmp(config->properties[i].name, name) == 0)
            return true;
    return false;
}

static void raise_limit(const struct kafka_transport *kafka, rd_kafka_conf_t *conf, const char *name,
                        int64_t ms)
{
    char value[32], text[ERROR_TEXT_BYTES];
    if (read_integer(conf, name) >= ms || is_given(kafka->config, name))
        return;
    snprintf(value, sizeof value, "%lld", (long long)ms);
    (void)rd_kafka_conf_set(conf, name, value, text, sizeof text);
}

void kafka_throttle_set_limits(struct kafka_transport *kafka, rd_kafka_conf_t *conf)
{
    struct kafka_throttling *throttling = &kafka->publishing.throttling;
    int64_t wanted_ms = 3 * kafka->clients.producer.throttle.longest_ms;
    if (wanted_ms > LIMIT_MS_MAX)
        wanted_ms = LIMIT_MS_MAX;
    if (!throttling->are_limits_refused) {
        raise_limit(kafka, conf, "transaction.timeout.ms", wanted_ms);
        int transaction_ms = read_integer(conf, "transaction.timeout.ms"); // limit of socket.timeout.ms
        raise_limit(kafka, conf, "socket.timeout.ms",
                    wanted_ms < transaction_ms ? wanted_ms : transaction_ms);
    }
    throttling->socket_timeout_ms = read_integer(conf, "socket.timeout.ms");
}

// ---- the worker ----

void kafka_commit_advice(struct transport *transport, struct commit_advice *advice)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    kafka_handle_serve(&kafka->clients.producer);
    *advice = (struct commit_advice){.jobs_max = (size_t)kafka->publishing.throttling.jobs_max};
    if (kafka_is_throttled(kafka)) {
        advice->not_before_ms = kafka->clients.producer.throttle.until_ms;
        warn_sometimes(kafka);
    }
}

#include "consumer/queue/kafka/client/kafka_metadata.h"

#include "schemas/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENT_ID "sheaf-topics"

// After this time without an answer librdkafka queries another broker.
#define ANSWER_TIMEOUT_MS      5000
#define ANSWER_TIMEOUT_MS_TEXT "5000"

enum {
    RETRY_MS = 1000, // from a query without an answer, or an answer that lacks a topic, to the next query
    NO_ANSWER = -1,  // for a topic: the broker may know it later
};

struct kafka_metadata_client {
    struct kafka_handle handle;
    rd_kafka_topic_t *topics[KAFKA_METADATA_TOPICS_MAX];
    int n_topics;
    pthread_t thread;
    // Owned by the thread until it has ended.
    rd_kafka_resp_err_t code;
    struct topic_answer {
        int32_t n_partitions; // NO_ANSWER; 0: there is no such topic
        int32_t n_in_sync, partition;
    } answers[KAFKA_METADATA_TOPICS_MAX];
};

// ---- the thread of a query ----

static void find_fewest_in_sync(const rd_kafka_metadata_topic_t *topic, struct topic_answer *answer)
{
    for (int i = 0; topic->partitions && i < topic->partition_cnt; i++) {
        if (i > 0 && topic->partitions[i].isr_cnt >= answer->n_in_sync)
            continue;
        answer->n_in_sync = topic->partitions[i].isr_cnt;
        answer->partition = topic->partitions[i].id;
    }
}

static struct topic_answer read_answer(const rd_kafka_metadata_t *metadata, const char *name)
{
    struct topic_answer answer = {.n_partitions = NO_ANSWER};
    for (int i = 0; i < metadata->topic_cnt; i++) {
        const rd_kafka_metadata_topic_t *topic = &metadata->topics[i];
        if (strcmp(topic->topic, name) != 0)
            continue;
        bool is_missing = topic->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                          topic->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        answer.n_partitions = is_missing ? 0 : topic->partition_cnt > 0 ? topic->partition_cnt : NO_ANSWER;
        find_fewest_in_sync(topic, &answer);
        break;
    }
    return answer;
}

static void *request_metadata(void *context)
{
    struct kafka_metadata_client *client = context;
    const rd_kafka_metadata_t *metadata;
    client->code = rd_kafka_metadata(client->handle.rk, 0, NULL, &metadata, ANSWER_TIMEOUT_MS);
    if (client->code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return NULL;
    for (int i = 0; i < client->n_topics; i++)
        client->answers[i] = read_answer(metadata, rd_kafka_topic_name(client->topics[i]));
    rd_kafka_metadata_destroy(metadata);
    return NULL;
}

// ---- main ----

static void destroy_client(struct kafka_metadata_client *client, int64_t deadline_ms)
{
    for (int i = 0; i < client->n_topics; i++)
        rd_kafka_topic_destroy(client->topics[i]);
    kafka_handle_close(&client->handle, deadline_ms);
    free(client);
}

static enum status open_client(struct kafka_metadata *metadata, struct error *error)
{
    struct kafka_metadata_client *client = calloc(1, sizeof *client);
    if (!client)
        return error_memory(error, STATUS_REFUSE, "a client of Kafka");
    rd_kafka_conf_t *conf = kafka_conf_create(metadata->config, KAFKA_ADMIN, CLIENT_ID, error);
    if (conf)
        rd_kafka_conf_set(conf, "socket.timeout.ms", ANSWER_TIMEOUT_MS_TEXT, NULL, 0);
    if (!conf ||
        kafka_handle_open(&client->handle, metadata->config, KAFKA_ADMIN, conf, error) != STATUS_OK) {
        free(client);
        return error->status;
    }
    for (int i = 0; i < metadata->n_topics; i++) { // queries are for the client's own topics
        const char *name = metadata->topics[i].name;
        client->topics[i] = rd_kafka_topic_new(client->handle.rk, name, NULL);
        if (!client->topics[i]) {
            (void)kafka_error_set(error, STATUS_REFUSE, &client->handle, name, rd_kafka_last_error());
            destroy_client(client, clock_ms());
            return error->status;
        }
        client->n_topics++;
    }
    metadata->client = client;
    return STATUS_OK;
}

static void take_answer(struct kafka_metadata *metadata)
{
    for (int i = 0; i < metadata->n_topics; i++) {
        struct kafka_metadata_topic *topic = &metadata->topics[i];
        const struct topic_answer *answer = &metadata->client->answers[i];
        if (answer->n_partitions == 0)
            topic->n_missing++;
        else if (answer->n_partitions > 0)
            *topic = (struct kafka_metadata_topic){topic->name, answer->n_partitions, 0, answer->n_in_sync,
                                                   answer->partition};
    }
    metadata->unanswered_ms = 0;
    metadata->answered_ms = metadata->asked_ms;
    metadata->n_answers++;
}

static bool collect_answer(struct kafka_metadata *metadata)
{
    if (!metadata->is_asking || pthread_tryjoin_np(metadata->client->thread, NULL) != 0)
        return false;
    metadata->is_asking = false;
    if (metadata->client->code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    take_answer(metadata);
    return true;
}

static bool is_due(const struct kafka_metadata *metadata)
{
    int wait_ms = metadata->unanswered_ms || metadata->is_urgent ? RETRY_MS : metadata->interval_ms;
    for (int i = 0; i < metadata->n_topics; i++)
        if (metadata->topics[i].n_missing > 0 && wait_ms > RETRY_MS)
            wait_ms = RETRY_MS;
    return !metadata->is_asking && clock_ms() - metadata->asked_ms >= wait_ms;
}

enum status kafka_metadata_open(struct kafka_metadata *metadata, const struct kafka_config *config,
                                const char *const *topics, int n_topics, struct error *error)
{
    *metadata = (struct kafka_metadata){.config = config,
                                        .n_topics = n_topics,
                                        .interval_ms = KAFKA_METADATA_INTERVAL_MS,
                                        .silence_ms = KAFKA_METADATA_SILENCE_MS,
                                        .asked_ms = clock_ms()};
    for (int i = 0; i < n_topics; i++)
        metadata->topics[i].name = topics[i];
    return open_client(metadata, error);
}

bool kafka_metadata_turn(struct kafka_metadata *metadata)
{
    bool has_answer = collect_answer(metadata);
    kafka_handle_serve(&metadata->client->handle);
    if (!is_due(metadata))
        return has_answer;
    metadata->asked_ms = clock_ms();
    metadata->is_unable =
        !kafka_start_thread(&metadata->client->thread, CLIENT_ID, request_metadata, metadata->client);
    if (metadata->is_unable) // no query was sent: that says nothing about the brokers
        return has_answer;
    metadata->is_asking = true;
    if (!metadata->unanswered_ms)
        metadata->unanswered_ms = metadata->asked_ms;
    return has_answer;
}

bool kafka_metadata_is_missing(const struct kafka_metadata_topic *topic)
{
    return topic->n_missing >= KAFKA_METADATA_MISSING_MIN;
}

int64_t kafka_metadata_silence_ms(const struct kafka_metadata *metadata)
{
    int64_t silence_ms = metadata->unanswered_ms ? clock_ms() - metadata->unanswered_ms : 0;
    return silence_ms >= metadata->silence_ms ? silence_ms : 0;
}

void kafka_metadata_close(struct kafka_metadata *metadata, int64_t deadline_ms)
{
    struct kafka_metadata_client *client = metadata->client;
    metadata->client = NULL;
    if (!client)
        return;
    int64_t time_ms = clock_wall_us() / 1000 + kafka_remaining_ms(deadline_ms);
    struct timespec until = {.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000};
    if (metadata->is_asking && pthread_timedjoin_np(client->thread, NULL, &until) != 0) {
        pthread_detach(client->thread);
        return;
    }
    destroy_client(client, deadline_ms);
}

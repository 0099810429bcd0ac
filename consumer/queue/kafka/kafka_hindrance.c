// Obstacles to the work of a confirmed member of the group, for /readyz: a deleted topic, brokers that accept
// connections and do not answer, records held back by a transaction that stays open. A restart would not help
// against them, so only a deleted jobs topic ends the worker.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const consequences[] = {
    [KAFKA_TOPIC_JOBS] = "there are no jobs",
    [KAFKA_TOPIC_RESULTS] = "results wait for it",
    [KAFKA_TOPIC_DEAD] = "dead letters, and the results beside them, wait for it",
    [KAFKA_TOPIC_CONTROL] = "cancellations do not reach this worker",
};

enum status kafka_hindrance_open(struct kafka_transport *kafka, struct error *error)
{
    const struct kafka_config *config = kafka->config;
    const char *const topics[] = {[KAFKA_TOPIC_JOBS] = config->topics.jobs,
                                  [KAFKA_TOPIC_RESULTS] = config->topics.results,
                                  [KAFKA_TOPIC_DEAD] = config->topics.dead,
                                  [KAFKA_TOPIC_CONTROL] = config->topics.control};
    return kafka_metadata_open(&kafka->hindrance.metadata, config, topics, config->topics.control ? 4 : 3,
                               error);
}

static bool has_delivered(const struct kafka_transport *kafka)
{
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        if (kafka->partitions.items[i] && kafka->partitions.items[i]->map.position != OFFSET_UNKNOWN)
            return true;
    return false;
}

// The reader's position may be beyond the first records of the recreated topic, so reads it from the
// beginning.
static bool read_control_again(struct kafka_transport *kafka, int32_t n_partitions)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    struct error error;
    if (kafka_control_reopen(kafka, n_partitions, &error) == STATUS_OK)
        return true;
    snprintf(hindrance->text, sizeof hindrance->text, "cancellations are not read: %.450s", error.text);
    return false;
}

static void note_return(struct kafka_transport *kafka, int which)
{
    const struct kafka_metadata_topic *topic = &kafka->hindrance.metadata.topics[which];
    char line[ERROR_TEXT_BYTES];
    if (which == KAFKA_TOPIC_CONTROL && !read_control_again(kafka, topic->n_partitions))
        return; // tried again by the next poll
    kafka->hindrance.is_reported[which] = false;
    snprintf(line, sizeof line, "topic %.250s is there again", topic->name);
    kafka_warn(kafka->config, line);
}

static enum status look_at_topic(struct kafka_transport *kafka, int which, struct error *error)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    const struct kafka_metadata_topic *topic = &hindrance->metadata.topics[which];
    if (!kafka_metadata_is_missing(topic)) {
        if (hindrance->is_reported[which] && topic->n_missing == 0)
            note_return(kafka, which);
        return STATUS_OK;
    }
    if (which == KAFKA_TOPIC_JOBS && has_delivered(kafka))
        return kafka_stop_outdated(kafka, "the brokers do not know it any more", error);
    snprintf(hindrance->text, sizeof hindrance->text, "Kafka at %.150s has no topic %.250s any more: %s",
             kafka->config->brokers, topic->name, consequences[which]);
    if (!hindrance->is_reported[which])
        kafka_warn(kafka->config, hindrance->text);
    hindrance->is_reported[which] = true;
    return STATUS_OK;
}

static void look_at_silence(struct kafka_transport *kafka)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    int64_t silence_ms = kafka_metadata_silence_ms(&hindrance->metadata);
    bool is_new = silence_ms > 0 && !hindrance->silence_is_reported;
    hindrance->silence_is_reported = silence_ms > 0;
    if (silence_ms == 0)
        return;
    snprintf(hindrance->text, sizeof hindrance->text,
             "Kafka at %.150s: no broker has answered for %" PRId64 " s", kafka->config->brokers,
             silence_ms / 1000);
    if (is_new)
        kafka_warn(kafka->config, hindrance->text);
}

// An outage ends with the first answer to a query sent after it began, however long the answer takes:
// librdkafka reports that all brokers are down, but not that one is up again. If no query can be sent
// (is_unable), the calls that were suppressed during the outage are repeated, and show whether it is over.
static void look_for_brokers(struct kafka_transport *kafka)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    bool has_answer = kafka_metadata_turn(&hindrance->metadata);
    bool is_answered = has_answer && hindrance->metadata.answered_ms > hindrance->down_ms;
    if (hindrance->down_ms && (is_answered || hindrance->metadata.is_unable)) {
        kafka->clients.consumer.is_down = kafka->clients.producer.is_down = false;
        hindrance->down_ms = 0;
    }
    hindrance->metadata.is_urgent = kafka_is_down(kafka);
    if (!kafka_is_down(kafka))
        hindrance->down_ms = 0;
    else if (!hindrance->down_ms)
        hindrance->down_ms = clock_ms();
}

enum status kafka_hindrance_look(struct kafka_transport *kafka, struct error *error)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    look_for_brokers(kafka);
    memcpy(hindrance->text, hindrance->held, sizeof hindrance->text);
    enum status status = STATUS_OK;
    for (int i = 0; i < hindrance->metadata.n_topics && status == STATUS_OK; i++)
        status = look_at_topic(kafka, i, error);
    if (status == STATUS_OK)
        look_at_silence(kafka);
    if (!hindrance->text[0])
        kafka_stall_describe(kafka, hindrance->text, sizeof hindrance->text);
    if (!hindrance->text[0])
        kafka_quarantine_describe(kafka, hindrance->text, sizeof hindrance->text);
    return status;
}

const char *kafka_waiting(struct transport *transport)
{
    const struct kafka_transport *kafka = (const struct kafka_transport *)transport;
    return kafka->outside.waiting[0] ? kafka->outside.waiting : kafka->hindrance.text;
}

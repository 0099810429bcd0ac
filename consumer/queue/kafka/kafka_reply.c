// Reply topics: a job's header names the topic of its result, if the worker's --reply-topics has it. The result goes
// there in the transaction that has the job's offset, and not to the results topic.
//
//   the header's topic                         the job
//   not in the list, no name of a topic, or
//   the jobs, dead letters or control topic    is refused before it is computed: a dead letter, with an error result
//   absent, or the worker may not see it       is a dead letter when its result is published
//   deleted while a transaction writes to it   aborts the transaction, then as absent
//   refuses the result (size, schema)          as with the results topic (kafka_isolation.c), then a dead letter
//
// The error results of dead letters go to the results topic, except of a job whose reply topic is usable.
#include "consumer/queue/kafka/client/kafka_metadata.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOK_UP_TIMEOUT_MS = 2000,
    SETTINGS_TIMEOUT_MS = 1000,
    LOST_TIMEOUT_MS = 500, // of a lookup between two calls of a commit
    PRESENT_FOR_MS =
        1000, // a present topic is looked up again after this: librdkafka waits 30 s for a deleted one
};

// ---- which topic ----

static bool is_topic_name(struct text name)
{
    if (name.size == 0 || name.size >= KAFKA_TOPIC_NAME_BYTES || text_equals_string(name, ".") ||
        text_equals_string(name, ".."))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-'))
            return false;
    }
    return true;
}

static bool is_listed(struct text name, const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t size = strcspn(at, ",");
        bool is_prefix = size > 0 && at[size - 1] == '*';
        size -= is_prefix;
        if ((is_prefix ? name.size >= size : name.size == size) && memcmp(name.data, at, size) == 0)
            return true;
    }
    return false;
}

static bool is_own(const struct kafka_config *config, struct text name)
{
    return text_equals_string(name, config->topics.jobs) || text_equals_string(name, config->topics.dead) ||
           (config->topics.control && text_equals_string(name, config->topics.control));
}

void kafka_reply_read(struct kafka_transport *kafka, struct record *record)
{
    struct kafka_replies *replies = &kafka->publishing.replies;
    const struct kafka_config *config = kafka->config;
    struct text name = headers_reply_topic(record->headers, record->n_headers);
    if (name.size == 0)
        return;
    if (!config->reply_topics) {
        if (!replies->has_warned)
            kafka_warn(config,
                       "jobs name topics for their results (header reply-topic or kafka_replyTopic): without "
                       "--reply-topics all results are on the results topic");
        replies->has_warned = true;
        return;
    }
    if (!is_topic_name(name) || is_own(config, name) || !is_listed(name, config->reply_topics)) {
        int length =
            snprintf(replies->refusal, sizeof replies->refusal,
                     "the header of the reply topic: expected a topic of the worker's --reply-topics, "
                     "got \"%.*s\"",
                     (int)(name.size < KAFKA_TOPIC_NAME_BYTES ? name.size : KAFKA_TOPIC_NAME_BYTES),
                     name.data);
        utf8_make_printable(replies->refusal);
        record->refused = (struct text){replies->refusal, strnlen(replies->refusal, (size_t)length)};
        return;
    }
    record->reply_topic = name;
}

// ---- what is known of it ----

static void forget_topic(struct kafka_reply_topic *topic)
{
    if (topic->handle)
        rd_kafka_topic_destroy(topic->handle);
    *topic = (struct kafka_reply_topic){0};
}

void kafka_reply_forget(struct kafka_transport *kafka)
{
    struct kafka_replies *replies = &kafka->publishing.replies;
    while (replies->n_topics > 0)
        forget_topic(&replies->topics[--replies->n_topics]);
    replies->is_stale = false;
}

static struct kafka_reply_topic *free_place(struct kafka_replies *replies)
{
    struct kafka_reply_topic *oldest = &replies->topics[0];
    if (replies->n_topics < KAFKA_REPLY_TOPICS_MAX)
        return &replies->topics[replies->n_topics++];
    for (int i = 1; i < replies->n_topics; i++)
        if (replies->topics[i].checked_ms < oldest->checked_ms)
            oldest = &replies->topics[i];
    forget_topic(oldest);
    return oldest;
}

// The code that the brokers give for the topic: NO_ERROR: it can be used.
static rd_kafka_resp_err_t look_up(struct kafka_transport *kafka, rd_kafka_topic_t *topic, int timeout_ms)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka->clients.producer.rk, 0, topic, &metadata, timeout_ms);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return code;
    code = metadata->topic_cnt == 1 ? metadata->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    rd_kafka_metadata_destroy(metadata);
    return code;
}

static bool is_absence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION || code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

static void report_absence(const struct kafka_transport *kafka, const char *name)
{
    char line[KAFKA_TOPIC_NAME_BYTES + 128];
    snprintf(
        line, sizeof line,
        "reply topic %s does not exist, or the worker has no right Describe on it: the jobs that name it are "
        "dead letters, with an error on the results topic",
        name);
    kafka_warn(kafka->config, line);
}

static struct kafka_reply_topic *find_topic(struct kafka_transport *kafka, struct text name)
{
    struct kafka_replies *replies = &kafka->publishing.replies;
    for (int i = 0; i < replies->n_topics; i++)
        if (text_equals_string(name, replies->topics[i].name))
            return &replies->topics[i];
    return NULL;
}

const struct kafka_reply_topic *kafka_reply_known(const struct kafka_transport *kafka, const struct job *job)
{
    return find_topic((struct kafka_transport *)kafka, job->source.reply_topic);
}

// Looks up a topic that is known to exist. A broker that has just started may not know it, so it is absent only at
// the second answer. Without an answer it stays known: returns false. Records that were produced keep their own
// reference to the handle.
static bool check_again(struct kafka_transport *kafka, struct kafka_reply_topic *topic, int timeout_ms)
{
    rd_kafka_resp_err_t code = look_up(kafka, topic->handle, timeout_ms);
    topic->checked_ms = clock_ms();
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        topic->n_missing = 0;
    if (!is_absence(code))
        return code == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (++topic->n_missing < KAFKA_METADATA_MISSING_MIN)
        return true;
    rd_kafka_topic_destroy(topic->handle);
    topic->handle = NULL;
    report_absence(kafka, topic->name);
    return true;
}

const char *kafka_reply_find_lost(struct kafka_transport *kafka)
{
    struct kafka_replies *replies = &kafka->publishing.replies;
    for (int i = 0; i < replies->n_topics; i++) {
        struct kafka_reply_topic *topic = &replies->topics[i];
        if (topic->used_ms < kafka->publishing.transaction.began_ms)
            continue;
        if (topic->handle && clock_ms() - topic->checked_ms > PRESENT_FOR_MS &&
            !check_again(kafka, topic, LOST_TIMEOUT_MS))
            return NULL; // the brokers do not answer
        if (!topic->handle)
            return topic->name;
    }
    return NULL;
}

// was_absent: no second warning if the topic is still absent.
static enum status add_topic(struct kafka_transport *kafka, const char *name, bool was_absent,
                             int64_t deadline_ms, struct error *error)
{
    int left_ms = kafka_remaining_ms(deadline_ms);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka->clients.producer.rk, name, NULL);
    if (!handle)
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, name, rd_kafka_last_error());
    rd_kafka_resp_err_t code =
        look_up(kafka, handle, left_ms < LOOK_UP_TIMEOUT_MS ? left_ms : LOOK_UP_TIMEOUT_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && !is_absence(code)) {
        rd_kafka_topic_destroy(handle);
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, name, code);
    }
    struct kafka_reply_topic *topic = free_place(&kafka->publishing.replies);
    *topic = (struct kafka_reply_topic){.checked_ms = clock_ms()};
    snprintf(topic->name, sizeof topic->name, "%s", name);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_topic_destroy(handle);
        if (!was_absent)
            report_absence(kafka, name);
        return STATUS_OK;
    }
    struct kafka_topic_settings settings;
    kafka_topic_read_settings(&kafka->clients.producer, name, SETTINGS_TIMEOUT_MS, &settings);
    size_t most = kafka->publishing.outputs.results_bytes_max; // not above the producer's message.max.bytes
    topic->bytes_max = settings.bytes_max < most ? settings.bytes_max : most;
    topic->handle = handle;
    return STATUS_OK;
}

// The job's topic. A present topic is looked up again after a while, an absent topic once in each transaction, so that a
// recreated topic gets the next result. NULL: the brokers did not answer.
static struct kafka_reply_topic *find_current(struct kafka_transport *kafka, const struct job *job,
                                              int64_t deadline_ms, struct error *error)
{
    char name[KAFKA_TOPIC_NAME_BYTES];
    struct kafka_reply_topic *known = find_topic(kafka, job->source.reply_topic);
    int64_t known_ms = known ? clock_ms() - known->checked_ms : 0;
    bool was_absent = known && !known->handle;
    if (known && known->handle && known_ms > PRESENT_FOR_MS) {
        int left_ms = kafka_remaining_ms(deadline_ms);
        (void)check_again(kafka, known, left_ms < LOOK_UP_TIMEOUT_MS ? left_ms : LOOK_UP_TIMEOUT_MS);
    } else if (was_absent && known->checked_ms < kafka->publishing.transaction.began_ms) {
        *known = kafka->publishing.replies.topics[--kafka->publishing.replies.n_topics];
        known = NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)job->source.reply_topic.size, job->source.reply_topic.data);
    if (!known && add_topic(kafka, name, was_absent, deadline_ms, error) != STATUS_OK)
        return NULL;
    return find_topic(kafka, job->source.reply_topic);
}

enum status kafka_reply_check(struct kafka_transport *kafka, const struct job *job, int64_t deadline_ms,
                              struct error *error)
{
    if (kafka->publishing.replies.is_stale)
        kafka_reply_forget(kafka);
    struct kafka_reply_topic *topic = find_current(kafka, job, deadline_ms, error);
    if (!topic)
        return error->status;
    if (topic->handle && topic->n_missing > 0)
        return error_set(error, STATUS_RETRY, ERROR_BROKER,
                         "Kafka at %s: the reply topic %s is missing, and is looked up once more",
                         kafka->config->brokers, topic->name);
    if (topic->handle) {
        topic->used_ms = clock_ms();
        return STATUS_OK;
    }
    kafka->figures.records.n_reply_lost++;
    return error_set(error, STATUS_REJECT, ERROR_RESULT_REFUSED,
                     "the reply topic %s does not exist, or the worker has no right Describe on it",
                     topic->name);
}

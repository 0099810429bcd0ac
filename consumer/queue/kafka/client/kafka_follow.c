#include "consumer/queue/kafka/client/kafka_follow.h"

#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_ID "sheaf-mirror"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    LOOK_INTERVAL_MS = 30000, // between two searches for added partitions
    LOOK_TIMEOUT_MS = 5000,   // for one answer, while running
};

struct followed_partition {
    int64_t next;                   // next offset to deliver; OFFSET_UNKNOWN: from the first record on
    int64_t end;                    // log end when the partition was found; 0: not queried
    int64_t at_stable_ms;           // last time that the last stable offset was reached; 0: never
    int64_t last_offset, last_hash; // of the last record delivered; -1: none
};

struct followed_topic {
    const char *name;
    struct followed_partition *partitions; // [n_partitions]
    int32_t n_partitions;
};

struct kafka_follow {
    struct kafka_handle reader, admin;
    struct kafka_asking asking; // for the group's members
    struct followed_topic topics[FOLLOW_TOPICS_MAX];
    size_t n_topics;
    int64_t looked_ms;
    bool is_doubtful; // kafka_follow_take_doubt
    struct header headers[KAFKA_HEADERS_MAX];
};

// ---- partitions ----

static enum status grow_partitions(struct followed_topic *topic, int32_t n_partitions, struct error *error)
{
    struct followed_partition *partitions =
        realloc(topic->partitions, (size_t)n_partitions * sizeof *topic->partitions);
    if (!partitions)
        return error_memory(error, STATUS_REFUSE, "following topic %s", topic->name);
    for (int32_t i = topic->n_partitions; i < n_partitions; i++)
        partitions[i] = (struct followed_partition){.next = OFFSET_UNKNOWN, .last_offset = -1};
    topic->partitions = partitions;
    topic->n_partitions = n_partitions;
    return STATUS_OK;
}

static enum status find_ends(struct followed_topic *topic, const struct kafka_config *config,
                             struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(topic->n_partitions);
    for (int32_t i = 0; i < topic->n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic->name, i);
    enum status status = kafka_written_ends(config, list, error);
    for (int32_t i = 0; status == STATUS_OK && i < topic->n_partitions; i++)
        topic->partitions[i].end = list->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum status look_up(struct kafka_follow *follow, struct followed_topic *topic, int timeout_ms,
                           struct error *error)
{
    int32_t n_partitions;
    enum status status = kafka_topic_find(&follow->admin, topic->name, timeout_ms, &n_partitions, error);
    if (status != STATUS_OK || n_partitions <= topic->n_partitions)
        return status;
    if (n_partitions > KAFKA_PARTITIONS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "topic %s has %d partitions, at most %d are followed", topic->name,
                         (int)n_partitions, KAFKA_PARTITIONS_MAX);
    return grow_partitions(topic, n_partitions, error);
}

// Assigns all partitions at their positions: prefetched records are fetched again.
static enum status assign_partitions(struct kafka_follow *follow, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (size_t t = 0; t < follow->n_topics; t++) {
        const struct followed_topic *topic = &follow->topics[t];
        for (int32_t i = 0; i < topic->n_partitions; i++) {
            int64_t next = topic->partitions[i].next;
            rd_kafka_topic_partition_list_add(list, topic->name, i)->offset =
                next == OFFSET_UNKNOWN ? RD_KAFKA_OFFSET_BEGINNING : next;
        }
    }
    rd_kafka_resp_err_t code = rd_kafka_assign(follow->reader.rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? STATUS_OK
               : kafka_error_set(error, STATUS_REFUSE, &follow->reader, "taking partitions", code);
}

static enum status take_up_added(struct kafka_follow *follow, struct error *error)
{
    if (clock_ms() - follow->looked_ms < LOOK_INTERVAL_MS)
        return STATUS_OK;
    bool added = false;
    for (size_t t = 0; t < follow->n_topics; t++) {
        struct error away;
        int32_t before = follow->topics[t].n_partitions;
        if (look_up(follow, &follow->topics[t], LOOK_TIMEOUT_MS, &away) != STATUS_OK)
            break; // queried again later
        added = added || follow->topics[t].n_partitions > before;
    }
    follow->looked_ms = clock_ms();
    return added ? assign_partitions(follow, error) : STATUS_OK;
}

// ---- opening ----

static enum status open_handle(struct kafka_handle *handle, const struct kafka_config *config,
                               enum kafka_role role, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, CLIENT_ID, error);
    return conf ? kafka_handle_open(handle, config, role, conf, error) : error->status;
}

static enum status open_topic(struct kafka_follow *follow, const char *name,
                              int64_t (*start)(void *context, const char *topic, int32_t partition),
                              void *context, struct error *error)
{
    struct followed_topic *topic = &follow->topics[follow->n_topics++];
    topic->name = name;
    enum status status = look_up(follow, topic, KAFKA_START_TIMEOUT_MS, error);
    if (status == STATUS_OK && topic->n_partitions == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "Kafka at %s: there is no topic %s",
                           follow->admin.config->brokers, name);
    if (status == STATUS_OK && start)
        status = find_ends(topic, follow->admin.config, error);
    for (int32_t i = 0; status == STATUS_OK && start && i < topic->n_partitions; i++)
        topic->partitions[i].next = start(context, name, i);
    for (int32_t i = 0; status == STATUS_OK && start && i < topic->n_partitions; i++)
        if (topic->partitions[i].next == FOLLOW_FROM_END)
            topic->partitions[i].next = topic->partitions[i].end;
    return status;
}

enum status kafka_follow_open(struct kafka_follow **follow, const struct kafka_config *config,
                              const char *const *topics, size_t n_topics,
                              int64_t (*start)(void *context, const char *topic, int32_t partition),
                              void *context, struct error *error)
{
    assert(n_topics <= FOLLOW_TOPICS_MAX);
    struct kafka_follow *opened = *follow = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "following topics");
    enum status status = open_handle(&opened->admin, config, KAFKA_ADMIN, error);
    for (size_t i = 0; i < n_topics && status == STATUS_OK; i++)
        status = open_topic(opened, topics[i], start, context, error);
    if (status == STATUS_OK)
        status = open_handle(&opened->reader, config, KAFKA_READER, error);
    if (status == STATUS_OK && start)
        status = assign_partitions(opened, error);
    opened->looked_ms = clock_ms();
    if (status != STATUS_OK) {
        kafka_follow_close(opened);
        *follow = NULL;
    }
    return status;
}

void kafka_follow_close(struct kafka_follow *follow)
{
    if (!follow)
        return;
    int64_t deadline_ms = clock_ms() + CLOSE_TIMEOUT_MS;
    kafka_handle_close(&follow->reader, deadline_ms);
    kafka_handle_close(&follow->admin, deadline_ms);
    kafka_asking_close(&follow->asking, deadline_ms);
    for (size_t t = 0; t < follow->n_topics; t++)
        free(follow->topics[t].partitions);
    free(follow);
}

// ---- records ----

static struct followed_partition *partition_of(struct kafka_follow *follow, const rd_kafka_message_t *message,
                                               struct followed_topic **topic)
{
    const char *name = message->rkt ? rd_kafka_topic_name(message->rkt) : "";
    for (size_t t = 0; t < follow->n_topics; t++) {
        *topic = &follow->topics[t];
        if (strcmp((*topic)->name, name) == 0 && message->partition >= 0 &&
            message->partition < (*topic)->n_partitions)
            return &(*topic)->partitions[message->partition];
    }
    return NULL;
}

int64_t kafka_follow_hash(const struct record *record)
{
    uint64_t hash = hash_bytes(record->key.data, record->key.size, (uint64_t)record->written_s);
    return (int64_t)(hash_bytes(record->value.data, record->value.size, hash) & INT64_MAX);
}

static bool is_doubt(const struct followed_partition *partition, const rd_kafka_message_t *message)
{
    bool has_offset =
        message->err == RD_KAFKA_RESP_ERR_NO_ERROR || message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    return message->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           message->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           message->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
           (has_offset && partition && partition->next != OFFSET_UNKNOWN &&
            message->offset < partition->next);
}

static enum status handle_message(struct kafka_follow *follow, const rd_kafka_message_t *message,
                                  kafka_receive *receive, void *context, struct error *error)
{
    struct followed_topic *topic = NULL;
    struct followed_partition *partition = partition_of(follow, message, &topic);
    follow->is_doubtful = follow->is_doubtful || is_doubt(partition, message);
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && partition) {
        partition->at_stable_ms = clock_ms();
        partition->next = message->offset; // beyond control records, which are not delivered
        return STATUS_OK;
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_is_denial(message->err) ? kafka_error_set(error, STATUS_REFUSE, &follow->reader,
                                                               topic ? topic->name : "reading", message->err)
                                             : STATUS_OK; // a broker is unavailable
    if (!partition)
        return STATUS_OK;
    struct record record = kafka_message_record(message, text_from_string(topic->name), follow->headers);
    enum status status = receive(context, &record, error);
    if (status == STATUS_OK) {
        partition->next = message->offset + 1;
        partition->last_offset = message->offset;
        partition->last_hash = kafka_follow_hash(&record);
    }
    return status;
}

enum status kafka_follow_poll(struct kafka_follow *follow, int timeout_ms, int n_max, kafka_receive *receive,
                              void *context, struct error *error)
{
    enum status status = take_up_added(follow, error);
    int64_t deadline_ms = clock_ms() + timeout_ms;
    for (int n = 0; n < n_max && status == STATUS_OK;) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(follow->reader.rk, kafka_remaining_ms(deadline_ms));
        if (!message)
            break;
        n += message->err == RD_KAFKA_RESP_ERR_NO_ERROR;
        status = handle_message(follow, message, receive, context, error);
        rd_kafka_message_destroy(message);
    }
    return status;
}

// Whether the partition was read to `end`, or a transaction stays open there for KAFKA_OPEN_TRANSACTION_MS.
static bool is_at_end(const struct followed_partition *partition)
{
    return partition->at_stable_ms && (partition->next >= partition->end ||
                                       clock_ms() - partition->at_stable_ms > KAFKA_OPEN_TRANSACTION_MS);
}

bool kafka_follow_is_at_end(const struct kafka_follow *follow)
{
    for (size_t t = 0; t < follow->n_topics; t++)
        for (int32_t i = 0; i < follow->topics[t].n_partitions; i++)
            if (!is_at_end(&follow->topics[t].partitions[i]))
                return false;
    return true;
}

enum status kafka_follow_check_end(const struct kafka_follow *follow, struct error *error)
{
    for (size_t t = 0; t < follow->n_topics; t++)
        for (int32_t i = 0; i < follow->topics[t].n_partitions; i++) {
            const struct followed_partition *partition = &follow->topics[t].partitions[i];
            if (partition->next < partition->end)
                return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                                 "topic %s partition %" PRId32
                                 ": a transaction stays open for more than %d s at offset %" PRId64
                                 ": what follows it was not read; run this again when it has ended",
                                 follow->topics[t].name, i, KAFKA_OPEN_TRANSACTION_MS / 1000,
                                 partition->next);
        }
    return STATUS_OK;
}

int64_t kafka_follow_position(const struct kafka_follow *follow, size_t topic, int32_t partition)
{
    assert(topic < follow->n_topics && partition < follow->topics[topic].n_partitions);
    return follow->topics[topic].partitions[partition].next;
}

void kafka_follow_last(const struct kafka_follow *follow, size_t topic, int32_t partition, int64_t *offset,
                       int64_t *hash)
{
    assert(topic < follow->n_topics && partition < follow->topics[topic].n_partitions);
    *offset = follow->topics[topic].partitions[partition].last_offset;
    *hash = follow->topics[topic].partitions[partition].last_hash;
}

bool kafka_follow_take_doubt(struct kafka_follow *follow)
{
    bool is_doubtful = follow->is_doubtful;
    follow->is_doubtful = false;
    return is_doubtful;
}

int32_t kafka_follow_n_partitions(const struct kafka_follow *follow, size_t topic)
{
    return follow->topics[topic].n_partitions;
}

// ---- the group ----

int64_t kafka_standing_unfinished(const struct kafka_standing *standing)
{
    int64_t from = standing->committed > standing->start ? standing->committed : standing->start;
    int64_t n = standing->end - from - standing->map_covered_in_log;
    return n > 0 ? n : 0;
}

enum status kafka_follow_look(struct kafka_follow *follow, struct error *error)
{
    for (size_t t = 0; t < follow->n_topics; t++) {
        enum status status = look_up(follow, &follow->topics[t], LOOK_TIMEOUT_MS, error);
        if (status != STATUS_OK)
            return STATUS_RETRY;
    }
    return STATUS_OK;
}

static enum status read_offsets(struct kafka_follow *follow, const struct followed_topic *topic,
                                struct kafka_standing *standings, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(topic->n_partitions);
    for (int32_t i = 0; i < topic->n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic->name, i);
    rd_kafka_resp_err_t code =
        kafka_partition_ends(&follow->reader, list, RD_KAFKA_OFFSET_BEGINNING, LOOK_TIMEOUT_MS);
    for (int i = 0; i < list->cnt; i++)
        standings[i].start = list->elems[i].offset;
    // librdkafka waits here while a transaction has pending offsets.
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = rd_kafka_committed(follow->reader.rk, list, LOOK_TIMEOUT_MS);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        const rd_kafka_topic_partition_t *committed = &list->elems[i];
        struct kafka_standing *standing = &standings[i];
        code = committed->err;
        *standing = (struct kafka_standing){.partition = i,
                                            .committed = committed->offset < 0 ? -1 : committed->offset,
                                            .start = standing->start};
        struct offset_map map;
        struct error foreign;
        offset_map_init(&map);
        if (standing->committed >= 0)
            standing->map_covered =
                offset_map_restart(&map, committed->offset,
                                   (struct text){committed->metadata, committed->metadata_size},
                                   &foreign) == STATUS_OK
                    ? map.n_finished
                    : -1;
        standing->map_covered_in_log = offset_map_count(&map, standing->start);
    }
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = kafka_partition_ends(&follow->reader, list, RD_KAFKA_OFFSET_END, LOOK_TIMEOUT_MS);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        standings[i].end = list->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? STATUS_OK
               : kafka_error_set(error, STATUS_RETRY, &follow->reader, "reading the group's offsets", code);
}

struct naming {
    const struct followed_topic *topic;
    struct kafka_standing *standings;
};

static void name_owner(void *context, const rd_kafka_MemberDescription_t *member)
{
    const struct naming *naming = context;
    const rd_kafka_topic_partition_list_t *owned =
        rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(member));
    const char *host = rd_kafka_MemberDescription_host(member);
    for (int i = 0; owned && i < owned->cnt; i++) {
        int32_t partition = owned->elems[i].partition;
        if (strcmp(owned->elems[i].topic, naming->topic->name) != 0 || partition < 0 ||
            partition >= naming->topic->n_partitions)
            continue;
        char *owner = naming->standings[partition].owner;
        snprintf(owner, sizeof naming->standings[partition].owner, "%.200s%s%.100s",
                 rd_kafka_MemberDescription_client_id(member), host && *host == '/' ? "" : " at ",
                 host ? host : "");
    }
}

// Owners are informational: if a broker does not report them, they remain empty.
static void read_owners(struct kafka_follow *follow, const struct followed_topic *topic,
                        struct kafka_standing *standings)
{
    bool is_stable;
    struct naming naming = {topic, standings};
    kafka_members(&follow->asking, follow->reader.config, LOOK_TIMEOUT_MS, name_owner, &naming, &is_stable);
}

enum status kafka_follow_standings(struct kafka_follow *follow, size_t topic,
                                   struct kafka_standing *standings, size_t n_max, size_t *n,
                                   struct error *error)
{
    const struct followed_topic *followed = &follow->topics[topic];
    assert(topic < follow->n_topics && n_max >= (size_t)followed->n_partitions);
    *n = (size_t)followed->n_partitions;
    enum status status = read_offsets(follow, followed, standings, error);
    if (status == STATUS_OK)
        read_owners(follow, followed, standings);
    return status;
}

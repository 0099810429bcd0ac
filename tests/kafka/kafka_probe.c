#include "tests/kafka/kafka_probe.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 30000, LEADER_TIMEOUT_MS = 2000 };

static void require_that(bool condition, const char *what, const char *why)
{
    if (condition)
        return;
    fprintf(stderr, "kafka_probe: %s: %s\n", what, why);
    exit(1);
}

static void require_ok(rd_kafka_resp_err_t code, const char *what)
{
    require_that(code == RD_KAFKA_RESP_ERR_NO_ERROR, what, rd_kafka_err2str(code));
}

static void require_done(rd_kafka_error_t *fault, const char *what)
{
    require_that(!fault, what, fault ? rd_kafka_error_string(fault) : "");
}

static rd_kafka_t *open_client(const char *brokers, rd_kafka_type_t type, const char *const *settings)
{
    char text[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    require_that(rd_kafka_conf_set(conf, "bootstrap.servers", brokers, text, sizeof text) == RD_KAFKA_CONF_OK,
                 brokers, text);
    rd_kafka_conf_set(conf, "log_level", "3", text, sizeof text);
    for (; settings && *settings; settings += 2)
        require_that(rd_kafka_conf_set(conf, settings[0], settings[1], text, sizeof text) == RD_KAFKA_CONF_OK,
                     settings[0], text);
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof text);
    require_that(client, "rd_kafka_new", text);
    return client;
}

static void wait_for_partitions(rd_kafka_t *client, const char *name, int n_partitions)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    for (int tries = 0;; tries++) {
        const rd_kafka_metadata_t *metadata;
        require_ok(rd_kafka_metadata(client, 0, topic, &metadata, TIMEOUT_MS), name);
        bool there = metadata->topic_cnt == 1 && metadata->topics[0].err == 0 &&
                     metadata->topics[0].partition_cnt >= n_partitions;
        for (int i = 0; there && i < metadata->topics[0].partition_cnt; i++)
            there = metadata->topics[0].partitions[i].leader >= 0;
        rd_kafka_metadata_destroy(metadata);
        if (there)
            break;
        require_that(tries < 1000, name, "not there after it was created");
        rd_kafka_poll(client, 20);
    }
    rd_kafka_topic_destroy(topic);
}

// Takes ownership of the topic.
static void create_topic(const char *brokers, rd_kafka_NewTopic_t *topic, const char *name, int n_partitions)
{
    static const char *const settings[] = {"allow.auto.create.topics", "false", NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "not created");
    size_t n_results;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n_results);
    require_ok(rd_kafka_topic_result_error(results[0]), name);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(topic);
    wait_for_partitions(client, name, n_partitions);
    rd_kafka_destroy(client);
}

void probe_create_topic(const char *brokers, const char *name, int n_partitions, const char *setting,
                        const char *value)
{
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, n_partitions, 1, NULL, 0);
    if (setting)
        rd_kafka_NewTopic_set_config(topic, setting, value);
    create_topic(brokers, topic, name, n_partitions);
}

void probe_place_topic(const char *brokers, const char *name, const int32_t *ids, size_t n_ids)
{
    char text[512];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, 1, -1, NULL, 0);
    rd_kafka_NewTopic_set_config(topic, "cleanup.policy", "compact");
    require_ok(rd_kafka_NewTopic_set_replica_assignment(topic, 0, (int32_t *)ids, n_ids, text, sizeof text),
               name);
    create_topic(brokers, topic, name, 1);
}

void probe_configure_topic(const char *brokers, const char *name, const char *setting, const char *value)
{
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
    require_ok(rd_kafka_ConfigResource_set_config(resource, setting, value), name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_AlterConfigs(client, &resource, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "not configured");
    size_t n_results;
    const rd_kafka_ConfigResource_t **results =
        rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event), &n_results);
    require_ok(rd_kafka_ConfigResource_error(results[0]), name);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_destroy(client);
}

void probe_delete_records(const char *brokers, const char *name, int partition, int64_t offset)
{
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, name, partition)->offset = offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteRecords(client, &records, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "no records were deleted");
    const rd_kafka_topic_partition_list_t *done =
        rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
    require_ok(done->elems[0].err, name);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
}

void probe_add_partitions(const char *brokers, const char *name, int n_partitions)
{
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_NewPartitions_t *partitions = rd_kafka_NewPartitions_new(name, (size_t)n_partitions, NULL, 0);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreatePartitions(client, &partitions, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "no partitions were added");
    size_t n_results;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), &n_results);
    require_ok(rd_kafka_topic_result_error(results[0]), name);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewPartitions_destroy(partitions);
    wait_for_partitions(client, name, n_partitions);
    rd_kafka_destroy(client);
}

static bool is_there(rd_kafka_t *client, const char *name)
{
    const rd_kafka_metadata_t *metadata;
    bool there = false;
    require_ok(rd_kafka_metadata(client, 1, NULL, &metadata, TIMEOUT_MS), name);
    for (int i = 0; i < metadata->topic_cnt; i++)
        there = there || strcmp(metadata->topics[i].topic, name) == 0;
    rd_kafka_metadata_destroy(metadata);
    return there;
}

void probe_delete_topic(const char *brokers, const char *name)
{
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopics(client, &topic, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "not deleted");
    size_t n_results;
    const rd_kafka_topic_result_t **results =
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n_results);
    require_ok(rd_kafka_topic_result_error(results[0]), name);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy(topic);
    for (int tries = 0; is_there(client, name); tries++)
        require_that(tries < 1000 && rd_kafka_poll(client, 20) >= 0, name,
                     "still there after it was deleted");
    rd_kafka_destroy(client);
}

static void produce(rd_kafka_t *client, const char *topic, int partition, const char *key, const void *value,
                    size_t size, const char *header, const char *header_value)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(1);
    if (header)
        rd_kafka_header_add(headers, header, -1, header_value, -1);
    for (;;) {
        rd_kafka_resp_err_t code =
            rd_kafka_producev(client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                              RD_KAFKA_V_KEY(key, key ? strlen(key) : 0),
                              RD_KAFKA_V_VALUE((void *)value, size), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            require_ok(code, topic);
            return;
        }
        rd_kafka_poll(client, 10);
    }
}

void probe_produce(const char *brokers, const char *topic, int partition, const char *key, const void *value,
                   size_t size, const char *header, const char *header_value)
{
    static const char *const settings[] = {"message.max.bytes", "20000000", "enable.idempotence", "true",
                                           NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    produce(client, topic, partition, key, value, size, header, header_value);
    require_ok(rd_kafka_flush(client, TIMEOUT_MS), topic);
    rd_kafka_destroy(client);
}

static void produce_job(rd_kafka_t *client, const char *topic, int partition, int id)
{
    char key[32], value[128];
    snprintf(key, sizeof key, "job-%d", id);
    int size = snprintf(value, sizeof value, "{\"job_id\":\"job-%d\",\"prompt\":\"p\"}", id);
    produce(client, topic, partition, key, value, (size_t)size, NULL, NULL);
}

void probe_produce_jobs(const char *brokers, const char *topic, int partition, int first, int n)
{
    // A batch that is sent again, because its answer did not come, is not appended twice.
    static const char *const settings[] = {"linger.ms", "20", "enable.idempotence", "true", NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    for (int i = 0; i < n; i++)
        produce_job(client, topic, partition, first + i);
    require_ok(rd_kafka_flush(client, TIMEOUT_MS), topic);
    rd_kafka_destroy(client);
}

struct probe_transaction {
    rd_kafka_t *client;
};

struct probe_transaction *probe_hold_offsets(const char *brokers, const char *group, const char *topic,
                                             int n_partitions)
{
    const char *const settings[] = {"transactional.id", group, NULL};
    struct probe_transaction *transaction = malloc(sizeof *transaction);
    rd_kafka_t *client = transaction->client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    require_done(rd_kafka_init_transactions(client, TIMEOUT_MS), "init_transactions");
    require_done(rd_kafka_begin_transaction(client), "begin_transaction");
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_partitions);
    for (int i = 0; i < n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = 0;
    rd_kafka_consumer_group_metadata_t *nobody = rd_kafka_consumer_group_metadata_new(group);
    require_done(rd_kafka_send_offsets_to_transaction(client, list, nobody, TIMEOUT_MS),
                 "send_offsets_to_transaction");
    rd_kafka_consumer_group_metadata_destroy(nobody);
    rd_kafka_topic_partition_list_destroy(list);
    return transaction;
}

// Job by job to one partition after the other.
static void begin_transaction(rd_kafka_t *client, const char *topic, int n_partitions, int first, int n)
{
    require_done(rd_kafka_begin_transaction(client), "begin_transaction");
    for (int i = 0; i < n; i++)
        produce_job(client, topic, i % n_partitions, first + i);
    require_ok(rd_kafka_flush(client, TIMEOUT_MS), topic);
}

static struct probe_transaction *open_transaction(const char *brokers, const char *topic, int n_partitions,
                                                  int first, int n)
{
    static const char *const settings[] = {"transactional.id", "probe", NULL};
    struct probe_transaction *transaction = malloc(sizeof *transaction);
    transaction->client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    require_done(rd_kafka_init_transactions(transaction->client, TIMEOUT_MS), "init_transactions");
    begin_transaction(transaction->client, topic, n_partitions, first, n);
    return transaction;
}

struct probe_transaction *probe_open_transaction(const char *brokers, const char *topic, int first, int n)
{
    return open_transaction(brokers, topic, 1, first, n);
}

void probe_produce_transaction_everywhere(const char *brokers, const char *topic, int n_partitions)
{
    probe_commit_transaction(open_transaction(brokers, topic, n_partitions, 0, n_partitions));
}

void probe_commit_transaction(struct probe_transaction *transaction)
{
    require_done(rd_kafka_commit_transaction(transaction->client, TIMEOUT_MS), "commit_transaction");
    rd_kafka_destroy(transaction->client);
    free(transaction);
}

void probe_produce_single_transactions(const char *brokers, const char *topic, int first, int n)
{
    struct probe_transaction *transaction = open_transaction(brokers, topic, 1, first, 1);
    for (int i = 1; i < n; i++) {
        require_done(rd_kafka_commit_transaction(transaction->client, TIMEOUT_MS), "commit_transaction");
        begin_transaction(transaction->client, topic, 1, first + i, 1);
    }
    probe_commit_transaction(transaction);
}

void probe_produce_transaction(const char *brokers, const char *topic, int first, int n, bool commit)
{
    struct probe_transaction *transaction = probe_open_transaction(brokers, topic, first, n);
    if (commit)
        probe_commit_transaction(transaction);
    else
        probe_abort(transaction);
}

void probe_abort(struct probe_transaction *transaction)
{
    require_done(rd_kafka_abort_transaction(transaction->client, TIMEOUT_MS), "abort_transaction");
    rd_kafka_destroy(transaction->client);
    free(transaction);
}

static char *copy_bytes(const void *data, size_t size)
{
    char *bytes = malloc(size + 1);
    memcpy(bytes, data, size);
    bytes[size] = '\0';
    return bytes;
}

static char *headers_text(const rd_kafka_message_t *message)
{
    rd_kafka_headers_t *list;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    const char *name;
    const void *value;
    size_t size;
    if (rd_kafka_message_headers(message, &list) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (size_t i = 0;
             rd_kafka_header_get_all(list, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
            fprintf(out, "%s=%.*s\n", name, (int)size, (const char *)value);
    }
    fclose(out);
    return text;
}

static struct probe_record *copy_record(const rd_kafka_message_t *message)
{
    struct probe_record *record = calloc(1, sizeof *record);
    record->partition = message->partition;
    record->offset = message->offset;
    record->key = message->key ? copy_bytes(message->key, message->key_len) : NULL;
    record->value = message->payload ? copy_bytes(message->payload, message->len) : NULL;
    record->size = message->len;
    record->headers = headers_text(message);
    return record;
}

int64_t probe_log_end(const char *brokers, const char *name, int partition)
{
    static const char *const settings[] = {"isolation.level", "read_uncommitted", NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_CONSUMER, settings);
    int64_t low, high = -1;
    require_ok(rd_kafka_query_watermark_offsets(client, name, partition, &low, &high, TIMEOUT_MS), name);
    rd_kafka_destroy(client);
    return high;
}

int32_t probe_leader(const char *brokers, const char *name)
{
    const rd_kafka_metadata_t *metadata;
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    int32_t leader = -1;
    if (rd_kafka_metadata(client, 0, topic, &metadata, LEADER_TIMEOUT_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (metadata->topic_cnt == 1 && metadata->topics[0].partition_cnt > 0)
            leader = metadata->topics[0].partitions[0].leader;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return leader;
}

struct probe_record *probe_read(const char *brokers, const char *topic, size_t *n_records)
{
    static const char *const settings[] = {"group.id",
                                           "probe",
                                           "enable.partition.eof",
                                           "true",
                                           "isolation.level",
                                           "read_committed",
                                           "enable.auto.commit",
                                           "false",
                                           NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_CONSUMER, settings);
    const rd_kafka_metadata_t *metadata;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    require_ok(rd_kafka_metadata(client, 0, handle, &metadata, TIMEOUT_MS), topic);
    int n_left = metadata->topics[0].partition_cnt;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_left);
    for (int i = 0; i < n_left; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    require_ok(rd_kafka_assign(client, list), topic);
    struct probe_record *first = NULL, **last = &first;
    *n_records = 0;
    while (n_left > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, TIMEOUT_MS);
        require_that(message, topic, "no record and no end");
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            // Beyond it may lie a transaction whose end the broker is still writing: there will be another
            // end.
            int64_t low, high = 0;
            rd_kafka_get_watermark_offsets(client, topic, message->partition, &low, &high);
            n_left -= message->offset >= high;
        } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            *last = copy_record(message);
            last = &(*last)->next;
            ++*n_records;
        }
        rd_kafka_message_destroy(message);
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    rd_kafka_destroy(client);
    return first;
}

void probe_free(struct probe_record *records)
{
    while (records) {
        struct probe_record *next = records->next;
        free(records->key);
        free(records->value);
        free(records->headers);
        free(records);
        records = next;
    }
}

void probe_commit(const char *brokers, const char *group, const char *topic, int partition, int64_t offset,
                  const char *metadata)
{
    const char *settings[] = {"group.id", group, NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_CONSUMER, settings);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *item = rd_kafka_topic_partition_list_add(list, topic, partition);
    item->offset = offset;
    item->metadata = copy_bytes(metadata, strlen(metadata));
    item->metadata_size = strlen(metadata);
    require_ok(rd_kafka_commit(client, list, 0), "commit");
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
}

int64_t probe_committed(const char *brokers, const char *group, const char *topic, int partition,
                        char **metadata)
{
    const char *settings[] = {"group.id", group, "isolation.level", "read_committed", NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_CONSUMER, settings);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *item = rd_kafka_topic_partition_list_add(list, topic, partition);
    require_ok(rd_kafka_committed(client, list, TIMEOUT_MS), "committed");
    int64_t offset = item->offset;
    if (metadata)
        *metadata = copy_bytes(item->metadata ? item->metadata : "", item->metadata_size);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
    return offset < 0 ? -1 : offset;
}

// Where each of the records stands that have its key, and what they say of their job and time.
static void print_copies(const struct probe_record *records, const char *key)
{
    for (const struct probe_record *record = records; record; record = record->next)
        if (strcmp(record->key, key) == 0)
            fprintf(stderr, "kafka_probe: %s: partition %d offset %lld\n%s", key, (int)record->partition,
                    (long long)record->offset, record->headers ? record->headers : "");
}

void probe_assert_one_each(const char *brokers, const char *topic, const char *prefix, int n)
{
    size_t n_records;
    struct probe_record *records = probe_read(brokers, topic, &n_records);
    unsigned char *seen = calloc((size_t)n, 1);
    for (struct probe_record *record = records; record; record = record->next) {
        int number = atoi(record->key + strlen(prefix));
        require_that(strncmp(record->key, prefix, strlen(prefix)) == 0 && number >= 0 && number < n,
                     record->key, "no record of this topic");
        if (seen[number])
            print_copies(records, record->key);
        require_that(seen[number]++ == 0, record->key, "published twice");
    }
    for (int i = 0; i < n; i++)
        require_that(seen[i] == 1, topic, "a record is missing");
    free(seen);
    probe_free(records);
}

// ---- who may do what ----

static rd_kafka_AclBinding_t *binding(enum probe_resource resource, const char *name,
                                      rd_kafka_AclOperation_t operation,
                                      rd_kafka_AclPermissionType_t permission)
{
    static const rd_kafka_ResourceType_t types[] = {
        [PROBE_TOPIC] = RD_KAFKA_RESOURCE_TOPIC,
        [PROBE_GROUP] = RD_KAFKA_RESOURCE_GROUP,
    };
    rd_kafka_AclBinding_t *made =
        rd_kafka_AclBinding_new(types[resource], name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:ANONYMOUS",
                                "*", operation, permission, NULL, 0);
    require_that(made, name, "no such rule");
    return made;
}

static rd_kafka_AclOperation_t operation_of(const char *name)
{
    return strcmp(name, "read") == 0               ? RD_KAFKA_ACL_OPERATION_READ
           : strcmp(name, "describe-configs") == 0 ? RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS
                                                   : RD_KAFKA_ACL_OPERATION_WRITE;
}

void probe_deny(const char *brokers, enum probe_resource resource, const char *name, const char *operation)
{
    static const char *const settings[] = {NULL};
    rd_kafka_t *client = open_client(brokers, RD_KAFKA_PRODUCER, settings);
    rd_kafka_AclBinding_t *bindings[] = {
        binding(resource, name, RD_KAFKA_ACL_OPERATION_ALL, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW),
        binding(resource, name, operation_of(operation), RD_KAFKA_ACL_PERMISSION_TYPE_DENY)};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreateAcls(client, bindings, 2, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    require_that(event && !rd_kafka_event_error(event), name, "rules were not made");
    size_t n_results;
    const rd_kafka_acl_result_t **results =
        rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &n_results);
    for (size_t i = 0; i < n_results; i++) {
        const rd_kafka_error_t *fault = rd_kafka_acl_result_error(results[i]);
        require_that(!fault, name, fault ? rd_kafka_error_string(fault) : "");
    }
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AclBinding_destroy_array(bindings, 2);
    rd_kafka_destroy(client);
}

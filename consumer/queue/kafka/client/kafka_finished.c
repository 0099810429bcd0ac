#include "consumer/queue/kafka/client/kafka_finished.h"

#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "schemas/base/clock.h"

#include <stdlib.h>

#define CLIENT_ID "sheaf"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    OFFSETS_TIMEOUT_MS = 5000,
    OFFSETS_STEP_MS = 500, // between two checks for a denial, which rd_kafka_committed does not report
};

static enum status open_handle(struct kafka_handle *handle, const struct kafka_config *config,
                               enum kafka_role role, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, CLIENT_ID, error);
    return conf ? kafka_handle_open(handle, config, role, conf, error) : error->status;
}

static enum status find_partitions(const struct kafka_config *config, int32_t *n_partitions,
                                   struct error *error)
{
    struct kafka_handle admin = {0};
    enum status status = open_handle(&admin, config, KAFKA_ADMIN, error);
    if (status == STATUS_OK)
        status = kafka_topic_find(&admin, config->topics.jobs, KAFKA_START_TIMEOUT_MS, n_partitions, error);
    if (status == STATUS_OK && *n_partitions == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "Kafka at %s: there is no topic %s",
                           config->brokers, config->topics.jobs);
    if (status == STATUS_OK && *n_partitions > KAFKA_PARTITIONS_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                           "topic %s has %d partitions, at most %d are read", config->topics.jobs,
                           (int)*n_partitions, KAFKA_PARTITIONS_MAX);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// A reader's errors are reported while it is polled. It has no partitions.
static void take_denial(struct kafka_handle *reader)
{
    rd_kafka_message_t *message;
    while ((message = rd_kafka_consumer_poll(reader->rk, 0))) {
        if (kafka_is_denial(message->err))
            reader->denied = message->err;
        rd_kafka_message_destroy(message);
    }
}

// While a transaction has pending offsets, librdkafka repeats the request until the timeout.
static enum status read_offsets(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                struct error *error)
{
    int64_t deadline_ms = clock_ms() + OFFSETS_TIMEOUT_MS;
    rd_kafka_resp_err_t code;
    do {
        code = rd_kafka_committed(reader->rk, list, OFFSETS_STEP_MS);
        for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
            code = list->elems[i].err;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        take_denial(reader);
    } while (!reader->denied && !kafka_is_denial(code) && kafka_remaining_ms(deadline_ms) > 0);
    code = reader->denied ? reader->denied : code;
    return kafka_error_set(error, kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY, reader,
                           "reading the group's offsets", code);
}

// Metadata of another program is ignored: then only the offsets below the committed one are finished.
static void start_map(struct kafka_finished *finished, const rd_kafka_topic_partition_t *committed)
{
    struct offset_map *map = &finished->maps[committed->partition];
    struct text metadata = {committed->metadata, committed->metadata_size};
    struct error foreign;
    if (committed->offset < 0)
        return;
    finished->has_offsets = true;
    if (offset_map_restart(map, committed->offset, metadata, &foreign) != STATUS_OK)
        offset_map_restart_empty(map, committed->offset);
}

static enum status read_maps(struct kafka_finished *finished, const struct kafka_config *config,
                             struct error *error)
{
    struct kafka_handle reader = {0};
    enum status status = open_handle(&reader, config, KAFKA_READER, error);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(finished->n_partitions);
    for (int32_t i = 0; i < finished->n_partitions; i++) {
        rd_kafka_topic_partition_list_add(list, config->topics.jobs, i);
        offset_map_init(&finished->maps[i]);
    }
    if (status == STATUS_OK)
        status = read_offsets(&reader, list, error);
    for (int i = 0; i < list->cnt && status == STATUS_OK; i++)
        start_map(finished, &list->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
    kafka_handle_close(&reader, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

enum status kafka_finished_read(struct kafka_finished *finished, const struct kafka_config *config,
                                struct error *error)
{
    *finished = (struct kafka_finished){0};
    enum status status = find_partitions(config, &finished->n_partitions, error);
    if (status == STATUS_OK) {
        finished->maps = calloc((size_t)finished->n_partitions, sizeof *finished->maps);
        if (!finished->maps)
            status = error_memory(error, STATUS_REFUSE, "offset maps");
    }
    if (status == STATUS_OK)
        status = read_maps(finished, config, error);
    if (status != STATUS_OK)
        kafka_finished_finish(finished);
    return status;
}

bool kafka_finished_has(const struct kafka_finished *finished, int32_t partition, int64_t offset)
{
    return partition >= 0 && partition < finished->n_partitions &&
           offset_map_is_finished(&finished->maps[partition], offset);
}

void kafka_finished_finish(struct kafka_finished *finished)
{
    free(finished->maps);
    *finished = (struct kafka_finished){0};
}

#include "consumer/queue/kafka/client/kafka_undecided.h"

#include "consumer/queue/kafka/client/kafka_topic.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A compacted topic refuses a record without a key.
#define MARK_KEY  "sheaf-sweep"
#define CLIENT_ID "sheaf"

enum {
    LEADER_TIMEOUT_MS = 300,
    SCAN_POLL_MS = 100,
    CLOSE_TIMEOUT_MS = 1000,
};

static enum status add_topic(struct kafka_handle *reader, const char *topic, int64_t deadline_ms,
                             rd_kafka_topic_partition_list_t *list, struct error *error)
{
    int32_t n_partitions = 0;
    if (kafka_topic_find(reader, topic, kafka_remaining_ms(deadline_ms), &n_partitions, error) != STATUS_OK)
        return reader->denied ? STATUS_REFUSE : (error->status = STATUS_RETRY);
    if (n_partitions == 0) // the topic exists: without its partitions its records would count as decided
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: a broker does not know topic %s",
                         reader->config->brokers, topic);
    for (int32_t i = 0; i < n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic, i);
    return STATUS_OK;
}

rd_kafka_topic_partition_list_t *kafka_undecided_find(struct kafka_handle *reader, const char *const *topics,
                                                      size_t n_topics, int timeout_ms, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_topics && status == STATUS_OK; i++) {
        if (topics[i])
            status = add_topic(reader, topics[i], deadline_ms, list, error);
    }
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (status == STATUS_OK && list->cnt > 0)
        code = kafka_partition_ends(reader, list, RD_KAFKA_OFFSET_END, kafka_remaining_ms(deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = kafka_error_set(error, kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY, reader,
                                 "reading the ends of partitions", code);
    if (status == STATUS_OK)
        return list;
    rd_kafka_topic_partition_list_destroy(list);
    return NULL;
}

// Queries the partitions' leaders: librdkafka queries a topic without a handle only once and caches the
// answer.
static void look_up_leaders(struct kafka_handle *reader, const rd_kafka_topic_partition_list_t *list)
{
    struct error error;
    int32_t n_partitions;
    for (int i = 0; i < list->cnt; i++) {
        if (i == 0 || strcmp(list->elems[i].topic, list->elems[i - 1].topic) != 0)
            (void)!kafka_topic_find(reader, list->elems[i].topic, LEADER_TIMEOUT_MS, &n_partitions, &error);
    }
}

enum status kafka_undecided_look(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                 rd_kafka_topic_partition_list_t **first, int timeout_ms, struct error *error)
{
    rd_kafka_topic_partition_list_t *stable = rd_kafka_topic_partition_list_copy(list);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (list->cnt > 0)
        code = kafka_partition_ends(reader, stable, RD_KAFKA_OFFSET_END, timeout_ms);
    enum status status = STATUS_OK;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        status = kafka_error_set(error, STATUS_RETRY, reader, "reading the ends of partitions", code);
        look_up_leaders(reader, list);
    }
    for (int i = list->cnt - 1; i >= 0 && status == STATUS_OK; i--) {
        if (stable->elems[i].offset < list->elems[i].offset)
            continue;
        rd_kafka_topic_partition_list_del_by_idx(list, i);
        rd_kafka_topic_partition_list_del_by_idx(stable, i);
    }
    if (first && status == STATUS_OK)
        *first = stable;
    else
        rd_kafka_topic_partition_list_destroy(stable);
    return status;
}

static int find_partition(const rd_kafka_topic_partition_list_t *list, const rd_kafka_message_t *message)
{
    for (int i = 0; i < list->cnt; i++) {
        if (message->rkt && message->partition == list->elems[i].partition &&
            strcmp(rd_kafka_topic_name(message->rkt), list->elems[i].topic) == 0)
            return i;
    }
    return -1;
}

enum scan_state { SCAN_NOTHING, SCAN_BEGUN, SCAN_READ };

struct scan {
    const rd_kafka_topic_partition_list_t *list;
    enum scan_state *states; // [list->cnt]
    int n_unread;
    void (*receive)(void *context, int index, const struct record *record);
    void *context;
    struct header headers[KAFKA_HEADERS_MAX];
};

static void take_message(struct scan *scan, const rd_kafka_message_t *message)
{
    int i = find_partition(scan->list, message);
    bool is_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    if (i < 0 || scan->states[i] == SCAN_READ || (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && !is_end))
        return;
    const rd_kafka_topic_partition_t *end = &scan->list->elems[i];
    if (!is_end && message->offset < end->offset) {
        struct record record = kafka_message_record(message, text_from_string(end->topic), scan->headers);
        scan->receive(scan->context, i, &record);
        scan->states[i] = SCAN_BEGUN;
    }
    if (!is_end && message->offset + 1 < end->offset)
        return;
    scan->states[i] = SCAN_READ;
    scan->n_unread--;
}

static bool has_begun_all(const struct scan *scan)
{
    for (int i = 0; i < scan->list->cnt; i++) {
        if (scan->states[i] == SCAN_NOTHING)
            return false;
    }
    return true;
}

static enum status scan_all(struct scan *scan, struct kafka_handle *handle, int64_t deadline_ms,
                            struct error *error)
{
    while (scan->n_unread > 0 && kafka_remaining_ms(deadline_ms) > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(handle->rk, SCAN_POLL_MS);
        if (message)
            take_message(scan, message);
        if (message)
            rd_kafka_message_destroy(message);
    }
    return has_begun_all(scan) ? STATUS_OK
                               : kafka_error_set(error, STATUS_RETRY, handle, "reading undecided records",
                                                 RD_KAFKA_RESP_ERR__TIMED_OUT);
}

static enum status open_scan(struct kafka_handle *handle, const struct kafka_config *config,
                             const rd_kafka_topic_partition_list_t *from, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_READER, CLIENT_ID, error);
    if (!conf)
        return error->status;
    rd_kafka_conf_set(conf, "isolation.level", "read_uncommitted", NULL, 0);
    enum status status = kafka_handle_open(handle, config, KAFKA_READER, conf, error);
    if (status == STATUS_OK)
        rd_kafka_assign(handle->rk, from);
    return status;
}

enum status kafka_undecided_scan(const struct kafka_config *config,
                                 const rd_kafka_topic_partition_list_t *from,
                                 const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                                 void (*receive)(void *context, int index, const struct record *record),
                                 void *context, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    struct kafka_handle handle = {0};
    struct scan *scan = calloc(1, sizeof *scan);
    enum scan_state *states = calloc((size_t)list->cnt + 1, sizeof *states);
    enum status status = STATUS_OK;
    if (!scan || !states)
        status = error_memory(error, STATUS_RETRY, "reading undecided records");
    if (status == STATUS_OK)
        status = open_scan(&handle, config, from, error);
    if (status == STATUS_OK) {
        *scan = (struct scan){.list = list, .states = states, .receive = receive, .context = context};
        scan->n_unread = list->cnt;
        status = scan_all(scan, &handle, deadline_ms, error);
    }
    kafka_handle_close(&handle, clock_ms() + CLOSE_TIMEOUT_MS);
    free(states);
    free(scan);
    return status;
}

void kafka_undecided_mark(struct kafka_handle *producer, const rd_kafka_topic_partition_list_t *list,
                          int timeout_ms)
{
    for (int i = 0; i < list->cnt; i++)
        (void)rd_kafka_producev(producer->rk, RD_KAFKA_V_TOPIC(list->elems[i].topic),
                                RD_KAFKA_V_PARTITION(list->elems[i].partition),
                                RD_KAFKA_V_KEY(MARK_KEY, sizeof MARK_KEY - 1),
                                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    (void)rd_kafka_flush(producer->rk, timeout_ms);
}

void kafka_undecided_name(const rd_kafka_topic_partition_list_t *list, char *text, size_t size)
{
    char more[32] = "";
    if (list->cnt > 1)
        snprintf(more, sizeof more, " and %d more", list->cnt - 1);
    snprintf(text, size, "topic %s partition %" PRId32 "%s", list->cnt ? list->elems[0].topic : "",
             list->cnt ? list->elems[0].partition : -1, more);
}

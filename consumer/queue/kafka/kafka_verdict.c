// Whether the first open transaction of a partition was committed.
//
// If a transaction was committed while some of its partitions had no leader, the group's offsets show its
// jobs as finished, but its results in those partitions are undecided. They must not be aborted: the
// producer's next commit to the partition makes them visible. The first undecided record belongs to the first
// open transaction:
//
//   its job         another undecided record has the job's result    verdict
//   not finished    -                                                not committed
//   finished        yes                                              not committed: published again since
//   finished        no                                               committed
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { SCAN_TIMEOUT_MS = 3000, READ_TIMEOUT_MS = 1000, READ_ONE_TIMEOUT_MS = 100 };

// The first undecided record of a partition of results or dead letters.
struct first_record {
    bool is_seen, is_ours, is_repeated;
    int64_t partition, offset; // of the job in the jobs topic; -1: unknown
};

static int64_t read_place(const struct record *record, const char *of_result, const char *of_dead_letter)
{
    int64_t value = -1;
    if (!headers_read_integer(record->headers, record->n_headers, of_result, &value))
        (void)headers_read_integer(record->headers, record->n_headers, of_dead_letter, &value);
    return value;
}

struct scanning {
    const struct kafka_config *config;
    struct first_record *firsts;
};

static void take_record(void *context, int index, const struct record *record)
{
    const struct scanning *scanning = context;
    struct first_record *first = &scanning->firsts[index];
    int64_t partition = read_place(record, "sheaf-source-partition", "__sheaf.errors.partition");
    int64_t offset = read_place(record, "sheaf-source-offset", "__sheaf.errors.offset");
    struct text worker = headers_find(record->headers, record->n_headers, "sheaf-worker");
    if (first->is_seen) {
        first->is_repeated |= partition == first->partition && offset == first->offset;
        return;
    }
    bool is_result =
        headers_are_of_topic(record->headers, record->n_headers, scanning->config->topics.jobs) &&
        headers_are_of_group(record->headers, record->n_headers, scanning->config->group.name);
    *first = (struct first_record){.is_seen = true,
                                   .is_ours = text_equals_string(worker, scanning->config->worker),
                                   .partition = is_result ? partition : -1,
                                   .offset = offset};
}

static void move_offset(rd_kafka_topic_partition_t *to, rd_kafka_topic_partition_t *from)
{
    to->offset = from->offset;
    rd_kafka_mem_free(NULL, to->metadata);
    to->metadata = from->metadata;
    to->metadata_size = from->metadata_size;
    from->metadata = NULL;
    from->metadata_size = 0;
}

// Reads the group's offsets of the listed partitions, one by one if they cannot be read together. The offset
// of a partition that an open transaction holds is set to RD_KAFKA_OFFSET_INVALID: its commit is not decided.
static void read_offsets(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list)
{
    struct error error;
    int64_t deadline_ms = clock_ms() + READ_TIMEOUT_MS;
    if (list->cnt == 0 || kafka_read_committed(kafka, list, READ_TIMEOUT_MS, &error) == STATUS_OK)
        return;
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(one, list->elems[i].topic, list->elems[i].partition);
        bool is_read = kafka_remaining_ms(deadline_ms) > 0 &&
                       kafka_read_committed(kafka, one, READ_ONE_TIMEOUT_MS, &error) == STATUS_OK;
        list->elems[i].offset = RD_KAFKA_OFFSET_INVALID;
        if (is_read)
            move_offset(&list->elems[i], &one->elems[0]);
        rd_kafka_topic_partition_list_destroy(one);
    }
}

static bool has_place(const struct first_record *first)
{
    return first->is_seen && first->partition >= 0 && first->partition < KAFKA_PARTITIONS_MAX &&
           first->offset >= 0;
}

static rd_kafka_topic_partition_list_t *list_sources(const struct kafka_transport *kafka,
                                                     const struct first_record *firsts, int n_firsts)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_firsts);
    for (int i = 0; i < n_firsts; i++) {
        const char *topic = kafka->config->topics.jobs;
        int32_t partition = has_place(&firsts[i]) ? (int32_t)firsts[i].partition : -1;
        if (partition >= 0 && !rd_kafka_topic_partition_list_find(list, topic, partition))
            rd_kafka_topic_partition_list_add(list, topic, partition);
    }
    return list;
}

static bool is_finished(const struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *offsets,
                        const struct first_record *first)
{
    struct error error;
    struct offset_map map;
    const rd_kafka_topic_partition_t *saved =
        has_place(first) ? rd_kafka_topic_partition_list_find(offsets, kafka->config->topics.jobs,
                                                              (int32_t)first->partition)
                         : NULL;
    offset_map_init(&map);
    return saved && saved->offset >= 0 && kafka_restart_map(kafka, &map, NULL, saved, &error) == STATUS_OK &&
           offset_map_is_finished(&map, first->offset);
}

static void sort_out(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *undecided,
                     const struct first_record *firsts, bool is_first, int *n_others)
{
    rd_kafka_topic_partition_list_t *offsets = list_sources(kafka, firsts, undecided->cnt);
    read_offsets(kafka, offsets);
    for (int i = undecided->cnt - 1; i >= 0; i--) {
        if (firsts[i].is_repeated || !is_finished(kafka, offsets, &firsts[i]))
            continue;
        if (is_first || firsts[i].is_ours)
            rd_kafka_topic_partition_list_del_by_idx(undecided, i);
        else
            ++*n_others;
    }
    rd_kafka_topic_partition_list_destroy(offsets);
}

enum status kafka_verdict_keep(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *undecided,
                               bool is_first, int *n_others, struct error *error)
{
    rd_kafka_topic_partition_list_t *from = NULL;
    *n_others = 0;
    enum status status =
        kafka_undecided_look(&kafka->clients.consumer, undecided, &from, READ_TIMEOUT_MS, error);
    if (status != STATUS_OK)
        return status;
    struct first_record *firsts = calloc((size_t)undecided->cnt + 1, sizeof *firsts);
    struct scanning scanning = {kafka->config, firsts};
    status = firsts ? kafka_undecided_scan(kafka->config, from, undecided, SCAN_TIMEOUT_MS, take_record,
                                           &scanning, error)
                    : error_memory(error, STATUS_RETRY, "reading records");
    if (status == STATUS_OK)
        sort_out(kafka, undecided, firsts, is_first, n_others);
    rd_kafka_topic_partition_list_destroy(from);
    free(firsts);
    return status;
}

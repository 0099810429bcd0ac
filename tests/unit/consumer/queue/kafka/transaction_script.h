// The brokers, and the transport's other files, for the tests of consumer/queue/kafka/kafka_transaction.c: calls are noted
// by letters, and may fail.
#pragma once

#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum {
    FIRST = 100,
    N_JOBS = 5,
    OWNER = 77,
    CALL_MS = 2000,
    DOUBT_MS = 2000,
    RETRY_MS = 20,
    TRANSACTION_MS = 60000
};

enum call { BEGIN, OFFSETS, COMMIT, ABORT, OPEN, COMMITTED, CALL_COUNT };
enum kind { RETRIABLE, ABORTABLE, FATAL, PLAIN };

struct answers {
    rd_kafka_resp_err_t code;
    enum kind kind;
    int n; // that many times; then the call succeeds
    int64_t step_ms;
};

static struct {
    struct answers answers[CALL_COUNT];
    enum kind last; // error's
    int n_calls[CALL_COUNT], timeout_ms[CALL_COUNT];
    char steps[256]; // letters of calls in their order
    int64_t now_ms;
    rd_kafka_topic_partition_list_t *sent, *committed;
    bool is_made;     // what was sent is what the coordinator has
    char sent_as[64]; // the group metadata's bytes
    size_t sent_as_size;
    enum status publishing, flushing, topics, gaps, opening;
    bool is_outdated; // the topic was recreated
    const char *lost;
    int n_fenced;
    enum status settling;
    int n_settlings, n_settled; // begun, and asked for
    int n_queued;               // of the producer
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct job *jobs[N_JOBS]; // 0 to 2 of partition 1, 3 and 4 of partition 2
static bool committed[N_JOBS];
static struct error error;

// ---- the brokers ----

static void add_step(char letter)
{
    size_t size = strlen(world.steps);
    assert_true(size + 1 < sizeof world.steps);
    world.steps[size] = letter;
}

static rd_kafka_error_t *answer(enum call call, char letter, int timeout_ms)
{
    struct answers *answers = &world.answers[call];
    add_step(letter);
    world.n_calls[call]++;
    world.timeout_ms[call] = timeout_ms;
    if (answers->n == 0)
        return NULL;
    answers->n--;
    world.now_ms += answers->step_ms;
    world.last = answers->kind;
    return rd_kafka_error_new(answers->code, "as the test wants it");
}

static void write_group(const rd_kafka_consumer_group_metadata_t *group, char *out, size_t *size)
{
    void *bytes;
    assert_null(rd_kafka_consumer_group_metadata_write(group, &bytes, size));
    assert_true(*size <= sizeof world.sent_as);
    memcpy(out, bytes, *size);
    rd_kafka_mem_free(NULL, bytes);
}

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

int __wrap_rd_kafka_error_is_fatal(const rd_kafka_error_t *fault)
{
    return fault && world.last == FATAL;
}

int __wrap_rd_kafka_error_txn_requires_abort(const rd_kafka_error_t *fault)
{
    return fault && world.last == ABORTABLE;
}

int __wrap_rd_kafka_error_is_retriable(const rd_kafka_error_t *fault)
{
    return fault && world.last == RETRIABLE;
}

rd_kafka_error_t *__wrap_rd_kafka_begin_transaction(rd_kafka_t *rk)
{
    return answer(BEGIN, 'b', 0);
}

rd_kafka_error_t *__wrap_rd_kafka_send_offsets_to_transaction(rd_kafka_t *rk,
                                                              const rd_kafka_topic_partition_list_t *offsets,
                                                              const rd_kafka_consumer_group_metadata_t *group,
                                                              int timeout_ms)
{
    if (world.sent)
        rd_kafka_topic_partition_list_destroy(world.sent);
    world.sent = rd_kafka_topic_partition_list_copy(offsets);
    write_group(group, world.sent_as, &world.sent_as_size);
    return answer(OFFSETS, 'o', timeout_ms);
}

rd_kafka_error_t *__wrap_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms)
{
    return answer(COMMIT, 'c', timeout_ms);
}

rd_kafka_error_t *__wrap_rd_kafka_abort_transaction(rd_kafka_t *rk, int timeout_ms)
{
    return answer(ABORT, 'a', timeout_ms);
}

// ---- the other files of the transport ----

enum status __wrap_kafka_publish_open(struct kafka_transport *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    rd_kafka_error_t *refused = answer(OPEN, 'O', timeout_ms);
    if (!refused)
        return STATUS_OK;
    rd_kafka_error_destroy(refused);
    return error_set(fault, world.opening, ERROR_BROKER, "no producer");
}

void __wrap_kafka_publish_note_topics(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    add_step('n');
}

const char *__wrap_kafka_publish_find_lost(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    return world.lost;
}

enum status __wrap_kafka_publish_check_topics(const struct kafka_transport *of, struct job *const *some,
                                              size_t n_jobs, struct error *fault)
{
    return world.topics == STATUS_OK ? STATUS_OK : error_set(fault, world.topics, ERROR_BROKER, "topics");
}

static enum status publish(size_t index, char first, int64_t deadline_ms, struct error *fault)
{
    add_step((char)(first + (int)index));
    assert_int_equal(deadline_ms, 1000000 + KAFKA_COMMIT_TIMEOUT_MS);
    return world.publishing == STATUS_OK ? STATUS_OK
                                         : error_set(fault, world.publishing, ERROR_BROKER, "publishing");
}

enum status __wrap_kafka_publish_job(struct kafka_transport *of, struct job *job, size_t index,
                                     int64_t deadline_ms, struct error *fault)
{
    return publish(index, '0', deadline_ms, fault);
}

enum status __wrap_kafka_publish_job_alone(struct kafka_transport *of, struct job *job, size_t index,
                                           int64_t deadline_ms, struct error *fault)
{
    assert_true(job->source.is_doubted);
    return publish(index, 'A', deadline_ms, fault);
}

enum status __wrap_kafka_publish_flush(struct kafka_transport *of, int64_t deadline_ms, struct error *fault)
{
    add_step('f');
    return world.flushing == STATUS_OK ? STATUS_OK : error_set(fault, world.flushing, ERROR_BROKER, "flush");
}

enum status __wrap_kafka_isolation_count(struct kafka_transport *of, struct job *const *some, size_t n_jobs,
                                         struct error *fault)
{
    assert_int_equal(of->publishing.refusals.n_jobs, n_jobs);
    assert_non_null(of->publishing.refusals.named);
    add_step('i');
    return fault->status;
}

enum status __wrap_kafka_gaps_explain(struct kafka_transport *of, struct error *fault)
{
    add_step('g');
    return world.gaps == STATUS_OK ? STATUS_OK : error_set(fault, world.gaps, ERROR_BROKER, "gaps");
}

enum status __wrap_kafka_outdated_check(struct kafka_transport *of, struct error *fault)
{
    return world.is_outdated ? kafka_stop_outdated(of, "no offset", fault) : STATUS_OK;
}

void __wrap_kafka_refresh_membership(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    add_step('m');
}

enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *fault)
{
    rd_kafka_error_t *refused = answer(COMMITTED, 'r', timeout_ms);
    if (refused) {
        rd_kafka_error_destroy(refused);
        return error_set(fault, STATUS_RETRY, ERROR_BROKER, "no coordinator");
    }
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_list_t *from = world.is_made ? world.sent : world.committed;
        const rd_kafka_topic_partition_t *found =
            rd_kafka_topic_partition_list_find(from, list->elems[i].topic, list->elems[i].partition);
        free(list->elems[i].metadata);
        list->elems[i].metadata = found->metadata ? malloc(found->metadata_size + 1) : NULL;
        list->elems[i].metadata_size = found->metadata_size;
        if (found->metadata)
            memcpy(list->elems[i].metadata, found->metadata, found->metadata_size);
        list->elems[i].offset = found->offset;
    }
    return STATUS_OK;
}

void __wrap_kafka_settle_begin(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    of->publishing.settling.is_needed = true;
    world.n_settlings++;
}

enum status __wrap_kafka_settle(struct kafka_transport *of, int64_t deadline_ms, struct error *fault)
{
    enum transaction_phase phase = of->publishing.transaction.phase;
    assert_true(phase == TRANSACTION_NONE || phase == TRANSACTION_UNKNOWN);
    assert_true(deadline_ms >= 1000000);
    world.n_settled++;
    if (!of->publishing.settling.is_needed)
        return STATUS_OK;
    if (world.settling != STATUS_OK)
        return error_set(fault, world.settling, ERROR_BROKER, "undecided");
    of->publishing.settling.is_needed = false;
    return STATUS_OK;
}

void __wrap_slot_note_member(struct slot *slot, const char *member)
{
    assert_ptr_equal(slot, &kafka.identity.slot);
    assert_string_equal(member, SLOT_MEMBER_FENCED);
    world.n_fenced++;
}

void __wrap_fault_point(enum fault_point point)
{
    add_step(point == FAULT_BEGUN          ? '('
             : point == FAULT_PRODUCED     ? '-'
             : point == FAULT_OFFSETS_SENT ? '='
             : point == FAULT_COMMITTED    ? ')'
                                           : '?');
}

// ---- partitions and jobs ----

static struct partition *partition_of(int32_t id)
{
    struct partition *partition = partition_find(&kafka.partitions, id);
    assert_non_null(partition);
    return partition;
}

static void own_partition(int32_t id)
{
    struct partition *partition = partition_add(&kafka.partitions, id, 8);
    assert_non_null(partition);
    partition->owned = true;
    partition->committed = FIRST;
    offset_map_restart_empty(&partition->map, FIRST);
    for (int i = 0; i < 3; i++)
        assert_int_equal(offset_map_deliver(&partition->map, FIRST + i), DELIVERY_NEW);
}

// The offset and metadata that the coordinator has for the partition.
static inline void add_committed(int32_t id, int64_t offset, const char *finished)
{
    struct offset_map map;
    struct buffer text = {0};
    if (!world.committed)
        world.committed = rd_kafka_topic_partition_list_new(2);
    offset_map_init(&map);
    offset_map_restart_empty(&map, offset < 0 ? 0 : offset);
    for (int i = 0; finished[i]; i++) {
        if (FIRST + i < offset)
            continue;
        assert_int_equal(offset_map_deliver(&map, FIRST + i), DELIVERY_NEW);
        if (finished[i] == '1')
            offset_map_finish(&map, FIRST + i);
    }
    offset_map_encode(&map, &text);
    rd_kafka_topic_partition_t *added = rd_kafka_topic_partition_list_add(world.committed, "jobs", id);
    added->offset = offset;
    added->metadata = offset < 0 ? NULL : text.data;
    added->metadata_size = offset < 0 ? 0 : text.size;
    if (offset < 0)
        buffer_finish(&text);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 1000000;
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .group.name = "workers",
                                   .topics = {.jobs = "jobs", .results = "results", .dead = "dead"}};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    kafka.clients.consumer.config = kafka.clients.producer.config = &config;
    kafka.identity.owner = OWNER;
    snprintf(kafka.identity.id, sizeof kafka.identity.id, "workers-a");
    kafka.publishing.transaction_timeout_ms = TRANSACTION_MS;
    kafka.group.membership = rd_kafka_consumer_group_metadata_new("workers");
    own_partition(1);
    own_partition(2);
    memset(committed, 1, sizeof committed);
    error = (struct error){0};
    for (int i = 0; i < N_JOBS; i++) {
        jobs[i] = job_create();
        jobs[i]->source.partition = i < 3 ? 1 : 2;
        jobs[i]->source.offset = FIRST + (i < 3 ? i : i - 3);
    }
    return 0;
}

static int end(void **state)
{
    for (int i = 0; i < N_JOBS; i++)
        job_destroy(jobs[i]);
    kafka_transaction_finish(&kafka);
    assert_null(kafka.publishing.transaction.unacknowledged);
    assert_null(kafka.publishing.refusals.named);
    buffer_finish(&kafka.publishing.scratch.map);
    partition_table_finish(&kafka.partitions);
    if (kafka.group.membership)
        rd_kafka_consumer_group_metadata_destroy(kafka.group.membership);
    if (world.sent)
        rd_kafka_topic_partition_list_destroy(world.sent);
    if (world.committed)
        rd_kafka_topic_partition_list_destroy(world.committed);
    return 0;
}

static enum status commit_jobs(size_t first, size_t n)
{
    world.steps[0] = '\0';
    memset(world.steps, 0, sizeof world.steps);
    memset(committed, 1, sizeof committed);
    return kafka_commit(&kafka.base, jobs + first, n, committed + first, &error);
}

static void answer_with(enum call call, enum kind kind, rd_kafka_resp_err_t code, int n)
{
    world.answers[call] = (struct answers){.code = code, .kind = kind, .n = n};
}

static void assert_committed(const char *expected)
{
    for (size_t i = 0; expected[i]; i++)
        if (committed[i] != (expected[i] == '1'))
            fail_msg("job %zu: committed is %d, all: %s", i, committed[i], expected);
}

static void assert_no_transaction(void)
{
    const struct transaction *transaction = &kafka.publishing.transaction;
    assert_int_equal(transaction->phase, TRANSACTION_NONE);
    assert_int_equal(transaction->n_entries, 0);
    assert_null(transaction->entries);
    assert_null(transaction->offsets);
}

// The offset and its metadata as another worker reads them.
static inline void assert_sent(int index, int32_t id, int64_t offset, int64_t position, const char *finished)
{
    const rd_kafka_topic_partition_t *sent = &world.sent->elems[index];
    struct text metadata = {sent->metadata, sent->metadata_size};
    struct offset_map map;
    struct suspects suspects = {0};
    assert_true(index < world.sent->cnt);
    assert_string_equal(sent->topic, "jobs");
    assert_int_equal(sent->partition, id);
    assert_int_equal(sent->offset, offset);
    offset_map_init(&map);
    assert_ok(offset_map_restart(&map, offset, metadata, &error), &error);
    for (int i = 0; finished[i]; i++)
        assert_int_equal(offset_map_is_finished(&map, FIRST + i), finished[i] == '1');
    assert_ok(suspects_take_over(&suspects, offset, metadata, OWNER + 1, &error), &error);
    assert_int_equal(suspects.doubtful, position + SUSPECTS_AHEAD); // this process is at work
}

// librdkafka and the transport's other files for the tests of consumer/queue/kafka/kafka_group.c: each call is noted, and
// may fail.
#pragma once

#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 4, START_MS = 1000000, LOCAL_MS = 2000, REVOKE_MS = 10000, EVENTS_MAX = 4 };

enum part { RESOLVE = 1, CONFIRM, READ, ENDS, ASSIGN, OPEN, FIND, SUBSCRIBE, CHECK_ID, GAPS };

static struct {
    int64_t now_ms;
    bool is_cooperative, is_lost, redelivers;
    int fails; // one of the parts
    enum status status;
    int64_t step_ms; // of each part that has a time
    struct {
        int64_t offset, end;
        const char *metadata;
    } partitions[N_PARTITIONS];
    int32_t n_partitions;
    rd_kafka_resp_err_t seek_code;
    bool seek_fails;
    bool is_assigned[N_PARTITIONS]; // says librdkafka
    int timeout_ms[16];             // of parts
    struct buffer calls;
    int n_messages; // of polls while leaving
    int n_events;
    rd_kafka_resp_err_t events[EVENTS_MAX]; // rebalances while the group closes; 0: another event
    bool has_no_closing, never_closes;
    bool regroups;
    int n_polls_to_id, n_polls_to_leave; // until the member has its id, and until it has none after that
    rd_kafka_resp_err_t message_code;
    bool is_leaving;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;
static char client, queues[3], event;

// ---- calls ----

static void note(const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    buffer_add_format(&world.calls, "%s%s", world.calls.size ? "; " : "", text);
}

static void expect(const char *expected)
{
    buffer_add_string(&world.calls, "");
    assert_string_equal(world.calls.size ? world.calls.data : "", expected);
    buffer_clear(&world.calls);
}

static enum status part(int which, int timeout_ms, struct error *fault)
{
    world.timeout_ms[which] = timeout_ms;
    world.now_ms += world.step_ms;
    return world.fails == which ? error_set(fault, world.status, ERROR_BROKER, "part %d", which) : STATUS_OK;
}

static const char *text_of(const rd_kafka_topic_partition_list_t *list)
{
    static char text[256];
    size_t size = 0;
    snprintf(text, sizeof text, list ? "-" : "NULL");
    for (int i = 0; list && i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%d@%lld", i ? " " : "",
                                 list->elems[i].partition, (long long)list->elems[i].offset);
    }
    return text;
}

static const char *ids_of(const rd_kafka_topic_partition_list_t *list)
{
    static char text[256];
    size_t size = 0;
    snprintf(text, sizeof text, "-");
    for (int i = 0; i < list->cnt; i++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "%s%d", i ? " " : "", list->elems[i].partition);
    return text;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_resp_err_t __wrap_rd_kafka_pause_partitions(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    note("pause %s", ids_of(list));
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_resume_partitions(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    note("resume %s", ids_of(list));
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                                  int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(timeout_ms, LOCAL_MS);
    assert_int_equal(list->cnt, 1);
    note("seek %s", text_of(list));
    list->elems[0].err = world.seek_code;
    return world.seek_fails ? rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "seek") : NULL;
}

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    note("assign %s", text_of(list));
    return world.fails == ASSIGN ? RD_KAFKA_RESP_ERR__STATE : RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_error_t *__wrap_rd_kafka_incremental_assign(rd_kafka_t *rk,
                                                     const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    note("add %s", text_of(list));
    return world.fails == ASSIGN ? rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "assign") : NULL;
}

rd_kafka_error_t *__wrap_rd_kafka_incremental_unassign(rd_kafka_t *rk,
                                                       const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    note("remove %s", ids_of(list));
    return world.fails == ASSIGN ? rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "unassign") : NULL;
}

rd_kafka_resp_err_t __wrap_rd_kafka_assignment(rd_kafka_t *rk, rd_kafka_topic_partition_list_t **list)
{
    assert_ptr_equal(rk, &client);
    *list = rd_kafka_topic_partition_list_new(N_PARTITIONS);
    for (int32_t i = 0; i < N_PARTITIONS; i++)
        if (world.is_assigned[i])
            rd_kafka_topic_partition_list_add(*list, "jobs", i);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

int __wrap_rd_kafka_assignment_lost(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return world.is_lost;
}

rd_kafka_consumer_group_metadata_t *__wrap_rd_kafka_consumer_group_metadata(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return rd_kafka_consumer_group_metadata_new("workers");
}

// ---- queues ----

rd_kafka_queue_t *__wrap_rd_kafka_queue_get_partition(rd_kafka_t *rk, const char *topic, int32_t partition)
{
    assert_ptr_equal(rk, &client);
    assert_string_equal(topic, "jobs");
    note("apart %d", partition);
    return partition == 3 ? NULL : (rd_kafka_queue_t *)&queues[0];
}

void __wrap_rd_kafka_queue_forward(rd_kafka_queue_t *from, rd_kafka_queue_t *to)
{
    assert_ptr_equal(from, &queues[0]);
    assert_ptr_equal(to, kafka.intake.records);
    note("forward");
}

rd_kafka_queue_t *__wrap_rd_kafka_queue_get_consumer(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return (rd_kafka_queue_t *)&queues[1];
}

rd_kafka_queue_t *__wrap_rd_kafka_queue_new(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return (rd_kafka_queue_t *)&queues[2];
}

void __wrap_rd_kafka_queue_io_event_enable(rd_kafka_queue_t *queue, int fd, const void *payload, size_t size)
{
    static const uint64_t one = 1;
    assert_int_equal(fd, 33);
    assert_int_equal(size, sizeof one); // an eventfd takes
    assert_memory_equal(payload, &one, sizeof one);
    note("wake %d", (int)((char *)queue - queues));
}

void __wrap_rd_kafka_queue_destroy(rd_kafka_queue_t *queue)
{
    assert_true((char *)queue >= queues && (char *)queue < queues + 3);
    if ((char *)queue == &queues[2])
        note("destroy");
}

// ---- joining and leaving ----

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *conf, struct error *fault)
{
    assert_ptr_equal(handle, &kafka.clients.consumer);
    assert_ptr_equal(handle->owner, &kafka); // for the callbacks
    assert_ptr_equal(of, &config);
    assert_int_equal(role, KAFKA_CONSUMER);
    rd_kafka_conf_destroy(conf);
    handle->rk = (rd_kafka_t *)&client;
    note("open");
    return part(OPEN, 0, fault);
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_ptr_equal(handle, &kafka.clients.consumer);
    assert_int_equal(deadline_ms, world.now_ms + LOCAL_MS);
    note("close");
}

rd_kafka_resp_err_t __wrap_rd_kafka_subscribe(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(list->cnt, 1);
    assert_int_equal(list->elems[0].partition, RD_KAFKA_PARTITION_UA);
    assert_string_equal(list->elems[0].topic, "jobs");
    note("subscribe");
    return world.fails == SUBSCRIBE ? RD_KAFKA_RESP_ERR__STATE : RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t __wrap_rd_kafka_unsubscribe(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    note("unsubscribe");
    world.is_leaving = true;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

char *__wrap_rd_kafka_memberid(const rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    static char id[] = "member", none[] = "";
    bool has_id = world.is_leaving ? world.n_polls_to_leave > 0 : world.n_polls_to_id == 0;
    return has_id ? id : none;
}

void __wrap_rd_kafka_mem_free(rd_kafka_t *rk, void *memory)
{
    assert_ptr_equal(rk, &client);
    assert_non_null(memory);
}

// Each of the first polls has a message; one more has a rebalance.
rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    static rd_kafka_message_t message;
    assert_ptr_equal(rk, &client);
    assert_in_range(timeout_ms, 1, 50);
    note("poll");
    world.now_ms += world.step_ms;
    int *n_polls = world.is_leaving ? &world.n_polls_to_leave : &world.n_polls_to_id;
    *n_polls -= *n_polls > 0;
    if (world.n_messages == 0) {
        kafka.group.regrouped = world.regroups;
        world.regroups = false;
        return NULL;
    }
    world.n_messages--;
    message.err = world.message_code;
    return &message;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *message)
{
    assert_non_null(message);
}

rd_kafka_error_t *__wrap_rd_kafka_consumer_close_queue(rd_kafka_t *rk, rd_kafka_queue_t *queue)
{
    assert_ptr_equal(rk, &client);
    assert_ptr_equal(queue, &queues[2]);
    note("close group");
    return world.has_no_closing ? rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "closing") : NULL;
}

int __wrap_rd_kafka_consumer_closed(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return world.n_events < 0 && !world.never_closes;
}

rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms)
{
    assert_ptr_equal(queue, &queues[2]);
    world.now_ms += timeout_ms;
    note("await");
    return --world.n_events >= 0 ? (rd_kafka_event_t *)&event : NULL;
}

rd_kafka_event_type_t __wrap_rd_kafka_event_type(const rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    return world.events[world.n_events] ? RD_KAFKA_EVENT_REBALANCE : RD_KAFKA_EVENT_STATS;
}

rd_kafka_resp_err_t __wrap_rd_kafka_event_error(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    return world.events[world.n_events];
}

static rd_kafka_topic_partition_list_t *event_list;

rd_kafka_topic_partition_list_t *__wrap_rd_kafka_event_topic_partition_list(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    return event_list;
}

void __wrap_rd_kafka_event_destroy(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
}

// ---- the other files of the transport ----

bool __wrap_kafka_is_cooperative(const struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    return world.is_cooperative;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_string_equal(topic, "jobs");
    *n_partitions = world.n_partitions;
    return part(FIND, timeout_ms, fault);
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    struct error ignored;
    assert_ptr_equal(handle, &kafka.clients.consumer);
    assert_int_equal(which, RD_KAFKA_OFFSET_END);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = world.partitions[list->elems[i].partition].end;
    note("ends");
    return part(ENDS, timeout_ms, &ignored) == STATUS_OK ? RD_KAFKA_RESP_ERR_NO_ERROR
                                                         : RD_KAFKA_RESP_ERR__TIMED_OUT;
}

enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    note("read %s", ids_of(list));
    for (int i = 0; i < list->cnt; i++) {
        const char *metadata = world.partitions[list->elems[i].partition].metadata;
        list->elems[i].offset = world.partitions[list->elems[i].partition].offset;
        free(list->elems[i].metadata);
        list->elems[i].metadata = metadata ? strdup(metadata) : NULL;
        list->elems[i].metadata_size = metadata ? strlen(metadata) : 0;
    }
    return part(READ, timeout_ms, fault);
}

enum status __wrap_kafka_transaction_resolve(struct kafka_transport *of, int64_t deadline_ms,
                                             struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    note("resolve");
    return part(RESOLVE, (int)(deadline_ms - world.now_ms), fault);
}

enum status __wrap_kafka_transaction_check_id(struct kafka_transport *of, int64_t deadline_ms,
                                              struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    note("check id");
    enum status status = part(CHECK_ID, (int)(deadline_ms - world.now_ms), fault);
    return status == STATUS_RESTART ? kafka_stop(&kafka, fault) : status;
}

enum status __wrap_kafka_confirm_assigned(struct kafka_transport *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    note("confirm");
    return part(CONFIRM, timeout_ms, fault);
}

void __wrap_kafka_take_membership(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    note("member");
}

void __wrap_kafka_confirm_revoked(struct kafka_transport *of, const rd_kafka_topic_partition_list_t *list,
                                  int timeout_ms)
{
    assert_ptr_equal(of, &kafka);
    assert_int_equal(timeout_ms, LOCAL_MS);
    note("confirm revoked %s", ids_of(list));
}

void __wrap_kafka_mark_leaving(struct kafka_transport *of, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(of, &kafka);
    note("mark %s", ids_of(list));
}

void __wrap_kafka_say_leaving(struct kafka_transport *of)
{
    assert_ptr_equal(of, &kafka);
    note("say");
}

enum status __wrap_kafka_gaps_explain(struct kafka_transport *of, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    note("gaps");
    return part(GAPS, 0, fault);
}

void __wrap_kafka_gaps_warn_of_others(const struct kafka_transport *of,
                                      const rd_kafka_topic_partition_t *committed)
{
    assert_ptr_equal(of, &kafka);
    note("look at %d", committed->partition);
}

void __wrap_slot_note_member(struct slot *slot, const char *member)
{
    assert_ptr_equal(slot, &kafka.identity.slot);
    note("slot %s", member);
}

bool __wrap_fault_redelivers(void)
{
    return world.redelivers;
}

void __wrap_fault_point(enum fault_point point)
{
    assert_int_equal(point, FAULT_CLAIMED);
    note("claimed");
}

// ---- the test ----

static void revoke(void *context)
{
    assert_ptr_equal(context, &world);
    note("revoke");
}

static void lose(void *context, const int32_t *ids, size_t n)
{
    assert_ptr_equal(context, &world);
    for (size_t i = 0; i < n; i++)
        note("lost %d", ids[i]);
}

static const struct transport_events events = {.context = &world, .revoke = revoke, .lost = lose};

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    world.status = STATUS_RETRY;
    for (int i = 0; i < N_PARTITIONS; i++) {
        world.partitions[i].offset = RD_KAFKA_OFFSET_INVALID;
        world.partitions[i].end = 1000;
    }
    config = (struct kafka_config){.brokers = "broker:9092", .group.name = "workers", .topics.jobs = "jobs"};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = kafka.clients.consumer.config = kafka.clients.producer.config = &config;
    kafka.clients.consumer.owner = &kafka;
    kafka.clients.consumer.rk = (rd_kafka_t *)&client;
    kafka.intake.events = &events;
    kafka.intake.records = (rd_kafka_queue_t *)&queues[2];
    kafka.intake.wake_file = 33;
    error = (struct error){0};
    return 0;
}

static int end(void **state)
{
    if (kafka.group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka_drop_metadata(&kafka.group.coming);
    kafka_drop_metadata(&kafka.group.membership);
    partition_table_finish(&kafka.partitions);
    buffer_finish(&world.calls);
    return 0;
}

static struct partition *own(int32_t id, int64_t offset)
{
    struct partition *partition = partition_add(&kafka.partitions, id, N_PARTITIONS);
    assert_non_null(partition);
    partition->owned = true;
    partition->committed = offset;
    offset_map_restart_empty(&partition->map, offset);
    return partition;
}

static struct partition *partition_of(int32_t id)
{
    struct partition *partition = partition_find(&kafka.partitions, id);
    assert_non_null(partition);
    return partition;
}

static rd_kafka_topic_partition_list_t *list_of(const char *ids)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(N_PARTITIONS);
    for (; *ids; ids++)
        rd_kafka_topic_partition_list_add(list, "jobs", *ids - '0');
    return list;
}

static inline void rebalance(rd_kafka_resp_err_t code, const char *ids)
{
    rd_kafka_topic_partition_list_t *list = list_of(ids);
    kafka.group.regrouped = false;
    kafka_rebalance((rd_kafka_t *)&client, code, list, &kafka.clients.consumer);
    assert_true(kafka.group.regrouped);
    rd_kafka_topic_partition_list_destroy(list);
}

static void be_member(void)
{
    kafka_drop_metadata(&kafka.group.membership);
    kafka.group.membership = rd_kafka_consumer_group_metadata_new("workers");
}

// Rebalances: what a worker does when partitions come and go, in which order, and where reading starts
// (consumer/queue/kafka/kafka_group.c). The group and its offsets are this program's; calls are written down.
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

static void rebalance(rd_kafka_resp_err_t code, const char *ids)
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

// ---- steering ----

TEST(a_full_partition_is_paused_once_and_resumed_once)
{
    struct partition *partition = own(0, 100);
    own(1, 0);
    own(3, 5);
    partition->map.position = 100 + OFFSET_MAP_WINDOW;
    assert_true(offset_map_is_full(&partition->map));
    kafka_steer_partitions(&kafka);
    expect("pause 0");
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    world.now_ms++;
    kafka_steer_partitions(&kafka);
    expect("");
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    partition->map.position--;
    kafka_steer_partitions(&kafka);
    expect("resume 0");
    kafka_steer_partitions(&kafka);
    expect("");
    assert_int_equal(kafka.figures.n_pauses, 1);
    assert_int_equal(kafka.figures.n_resumes, 1);
    partition->owned = false;
    partition->map.position++;
    partition->fetching.rewind = true;
    kafka_steer_partitions(&kafka);
    expect("");
}

TEST(a_partition_is_rewound_until_it_works)
{
    struct partition *partition = own(1, 100);
    partition->map.position = 105;
    partition->fetching.rewind = partition->fetching.at_end = true;
    world.seek_code = RD_KAFKA_RESP_ERR__STATE;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_true(partition->fetching.rewind && partition->fetching.at_end);
    world.seek_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.seek_fails = true;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_int_equal(kafka.figures.n_rewinds, 0);
    world.seek_fails = false;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_false(partition->fetching.rewind || partition->fetching.at_end);
    assert_int_equal(kafka.figures.n_rewinds, 1);
    kafka_steer_partitions(&kafka);
    expect("");
    partition->map.position = 100 + OFFSET_MAP_WINDOW; // full: later
    partition->fetching.rewind = true;
    kafka_steer_partitions(&kafka);
    expect("pause 1");
    assert_true(partition->fetching.rewind);
    offset_map_init(&partition->map); // nothing was delivered
    kafka_steer_partitions(&kafka);
    expect("resume 1");
    assert_false(partition->fetching.rewind);
}

TEST(redelivery_is_from_the_watermark)
{
    struct partition *partition = own(1, 100);
    partition->map.position = 105;
    world.redelivers = true;
    kafka_steer_partitions(&kafka);
    expect("seek 1@100");
    partition->map.position = 100 + OFFSET_MAP_WINDOW;
    kafka_steer_partitions(&kafka);
    expect("pause 1");
}

// ---- partitions come ----

static enum status begin_assigned(const char *ids)
{
    if (kafka.group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka.group.assigned = list_of(ids);
    for (int i = 0; i < kafka.group.assigned->cnt; i++)
        kafka.group.assigned->elems[i].offset = 0;
    buffer_clear(&world.calls);
    return kafka_begin_assigned(&kafka, 6000, &error);
}

TEST(partitions_are_begun_at_their_committed_offsets)
{
    struct offset_map map;
    struct buffer text = {0};
    offset_map_init(&map);
    offset_map_restart_empty(&map, 100);
    for (int i = 0; i < 3; i++)
        assert_int_equal(offset_map_deliver(&map, 100 + i), DELIVERY_NEW);
    offset_map_finish(&map, 101);
    offset_map_encode(&map, &text);
    world.partitions[0].offset = 100;
    world.partitions[0].end = 100; // all of it is read
    world.partitions[0].metadata = text.data;
    world.partitions[3].offset = 0;
    struct partition *partition = own(0, 1);
    partition->owned = false;
    partition->fetching =
        (struct fetching){.paused = true, .rewind = true, .was_rewound = true, .at_end = true};
    partition->unsaved = partition->leaving = true;
    partition->gaps.n_items = 2;
    assert_int_equal(begin_assigned("013"), STATUS_OK);
    expect("resolve; confirm; read 0 1 3; ends; look at 0; look at 3; apart 0; forward; apart 1; forward; "
           "apart 3; assign 0@100 1@-1001 3@0; member; claimed");
    assert_null(kafka.group.assigned);
    assert_int_equal(kafka.figures.n_rebalances, 1);
    assert_true(partition->owned && partition_of(1)->owned && partition_of(3)->owned);
    assert_int_equal(partition->committed, 100);
    assert_true(offset_map_is_finished(&partition->map, 101));
    assert_int_equal(partition->fetching.end, -1);
    assert_false(partition->fetching.paused || partition->fetching.rewind ||
                 partition->fetching.was_rewound || partition->fetching.at_end || partition->unsaved ||
                 partition->leaving);
    assert_int_equal(partition->gaps.n_items, 0);
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    assert_int_equal(partition_of(1)->committed, -1);
    assert_int_equal(partition_of(3)->committed, 0);
    assert_int_equal(partition_of(3)->map.watermark, 0);
    assert_int_equal(partition_of(1)->map.watermark, OFFSET_UNKNOWN);
    buffer_finish(&text);
}

TEST(a_member_of_a_cooperative_group_adds_its_partitions)
{
    world.is_cooperative = true;
    world.partitions[2].offset = 7;
    assert_int_equal(begin_assigned("2"), STATUS_OK);
    expect("resolve; confirm; read 2; ends; look at 2; apart 2; forward; add 2@7; member; claimed");
    assert_int_equal(begin_assigned(""), STATUS_OK);
    expect("resolve; confirm; add -; member; claimed"); // it has what it had
}

// Released and delivered again, before anything was committed.
TEST(a_partition_without_a_commit_goes_on_where_it_was)
{
    struct partition *partition = own(1, 50);
    partition->committed = -1;
    partition->suspects.doubtful = 77;
    assert_int_equal(offset_map_deliver(&partition->map, 50), DELIVERY_NEW);
    assert_int_equal(offset_map_deliver(&partition->map, 51), DELIVERY_NEW);
    offset_map_finish(&partition->map, 50);
    assert_int_equal(begin_assigned("1"), STATUS_OK);
    assert_int_equal(partition->map.position, 51);
    assert_int_equal(partition->suspects.doubtful, 0);
    expect("resolve; confirm; read 1; ends; apart 1; forward; assign 1@51; member; claimed");
}

TEST(a_partition_that_lost_its_commit_ends_the_worker)
{
    own(1, 0);
    assert_int_equal(begin_assigned("1"), STATUS_RESTART);
    assert_non_null(strstr(error.text, "partition 1 had the committed offset 0 and has none"));
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
    expect("resolve; confirm; read 1; ends");
}

TEST(an_offset_beyond_the_end_is_of_another_topic)
{
    world.partitions[1].offset = 11;
    world.partitions[1].end = 10;
    assert_int_equal(begin_assigned("01"), STATUS_REFUSE);
    assert_string_equal(error.text,
                        "group workers committed offset 11 of topic jobs partition 1, which ends at 10: was"
                        " it recreated? Reset the group's offsets (kafka-consumer-groups --reset-offsets)");
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_null(partition_find(&kafka.partitions, 0)); // nothing was begun
    kafka.stopped = (struct error){0};
    assert_int_equal(begin_assigned("10"), STATUS_REFUSE); // as the first, too
    world.partitions[1].end = 11;
    kafka.stopped = (struct error){0};
    assert_int_equal(begin_assigned("10"), STATUS_OK);
}

TEST(what_fails_for_now_is_tried_again)
{
    static const char *const calls[] = {NULL, "resolve", "resolve; confirm", "resolve; confirm; read 1",
                                        "resolve; confirm; read 1; ends"};
    world.step_ms = 1000;
    for (int which = RESOLVE; which <= ENDS; which++) {
        world.fails = which;
        world.now_ms = START_MS;
        assert_int_equal(begin_assigned("1"), STATUS_RETRY);
        expect(calls[which]);
        assert_int_equal(world.timeout_ms[which], 6000 - 1000 * (which - 1));
        assert_non_null(kafka.group.assigned);
        assert_int_equal(kafka.stopped.status, STATUS_OK);
        assert_int_equal(kafka.figures.n_rebalances, 0);
    }
    assert_non_null(strstr(error.text, "reading the ends of partitions"));
    world.status = STATUS_REFUSE;
    world.fails = READ;
    assert_int_equal(begin_assigned("1"), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
}

TEST(partitions_that_are_not_taken_end_the_worker)
{
    world.fails = ASSIGN;
    for (int i = 0; i < 2; i++) {
        world.is_cooperative = i == 1;
        kafka.stopped = (struct error){0};
        assert_int_equal(begin_assigned("1"), STATUS_RESTART);
        assert_non_null(strstr(error.text, "taking partitions"));
        assert_int_equal(kafka.stopped.status, STATUS_RESTART);
        assert_false(partition_of(1)->owned);
    }
}

TEST(committed_maps_are_checked_before_joining)
{
    world.n_partitions = 3;
    world.partitions[2].offset = 9;
    assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    expect("read 0 1 2");
    assert_int_equal(world.timeout_ms[READ], 700);
    assert_int_equal(world.timeout_ms[FIND], KAFKA_START_TIMEOUT_MS);
    for (int i = 0; i < 3; i++) {
        world.partitions[i].offset = 9;
        world.partitions[i].metadata = "of another program";
        assert_int_equal(kafka_check_committed(&kafka, 700, &error), STATUS_REFUSE);
        world.partitions[i].offset = RD_KAFKA_OFFSET_INVALID; // it has none
        assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    }
    world.n_partitions = 0;
    buffer_clear(&world.calls);
    assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    expect("");
    world.n_partitions = 1;
    for (int i = 0; i < 2; i++) {
        world.fails = i == 0 ? FIND : READ;
        assert_int_equal(kafka_check_committed(&kafka, 700, &error), STATUS_RETRY);
    }
}

// ---- partitions go ----

TEST(an_assignment_is_answered_at_once_and_taken_later)
{
    own(2, 5)->fetching.paused = true;
    be_member();
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "01");
    expect("resume 2; assign -");
    assert_false(partition_of(2)->owned);
    assert_null(kafka.group.membership);
    assert_non_null(kafka.group.coming);
    assert_int_equal(kafka.group.assigned->cnt, 2);
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "1"); // another one before that was taken
    expect("assign -");
    assert_string_equal(ids_of(kafka.group.assigned), "1");
}

TEST(a_cooperative_assignment_is_added)
{
    world.is_cooperative = true;
    own(2, 5);
    be_member();
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "01");
    expect("add -");
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "13");
    expect("add -");
    assert_string_equal(ids_of(kafka.group.assigned), "0 1 3");
    assert_true(partition_of(2)->owned);
    assert_non_null(kafka.group.membership);
    world.fails = ASSIGN; // of no consequence here
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "");
    assert_string_equal(ids_of(kafka.group.assigned), "0 1 3");
}

TEST(finished_jobs_are_committed_before_partitions_go)
{
    struct partition *partition = own(1, 5);
    partition->fetching.at_end = partition->fetching.rewind = partition->fetching.paused = true;
    own(2, 5);
    be_member();
    kafka.group.assigned = list_of("3");
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "13");
    expect("mark 1 3; revoke; say; gaps; resolve; resume 1; assign NULL");
    assert_int_equal(world.timeout_ms[RESOLVE], REVOKE_MS);
    assert_false(partition->owned || partition->fetching.at_end || partition->fetching.rewind);
    assert_true(partition_of(2)->owned); // is none of them
    assert_true(kafka.group.has_lost);
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.membership);
}

TEST(a_stopped_worker_explains_nothing_and_one_without_events_asks_nobody)
{
    own(1, 5);
    kafka.stopped.status = STATUS_RESTART;
    kafka.intake.events = NULL; // outside of poll
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
    expect("mark 1; say; resolve; assign NULL");
    world.is_lost = true;
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
    expect("resolve; assign NULL");
}

TEST(of_lost_partitions_nothing_is_said)
{
    for (int i = 0; i < 2; i++) {
        world.is_cooperative = i == 1;
        world.is_lost = true;
        world.is_assigned[1] = true;
        own(1, 5);
        be_member();
        rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
        expect(i == 0 ? "resolve; assign NULL; slot joining" : "resolve; remove 1; slot joining");
        assert_null(kafka.group.membership);
    }
}

TEST(a_cooperative_member_gives_what_is_listed)
{
    world.is_cooperative = true;
    own(1, 5);
    own(2, 5);
    world.is_assigned[1] = world.is_assigned[2] = true;
    be_member();
    kafka.group.assigned = list_of("03");
    kafka.group.coming = rd_kafka_consumer_group_metadata_new("workers");
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "13"); // 3 is not taken yet
    expect("confirm revoked 1 3; mark 1 3; revoke; say; gaps; resolve; remove 1");
    assert_false(partition_of(1)->owned);
    assert_true(partition_of(2)->owned);
    assert_non_null(kafka.group.membership);
    assert_string_equal(ids_of(kafka.group.assigned), "0");
    assert_non_null(kafka.group.coming);
    world.fails = ASSIGN;
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "0");
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.coming);
}

TEST(lost_jobs_are_reported_once_the_group_is_known)
{
    static const struct transport_events none = {.context = &world};
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        if (i == 1)
            continue;
        struct partition *partition = own(i, 5);
        partition->owned = i == 2;
        assert_int_equal(offset_map_deliver(&partition->map, 5), DELIVERY_NEW);
    }
    kafka_report_lost(&kafka);
    expect(""); // nothing was lost since
    kafka.group.has_lost = true;
    kafka_report_lost(&kafka);
    expect(""); // no member
    be_member();
    kafka.group.assigned = list_of("1");
    kafka_report_lost(&kafka);
    expect("");
    rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka.group.assigned = NULL;
    kafka.intake.events = &none;
    kafka_report_lost(&kafka);
    kafka.intake.events = &events;
    kafka_report_lost(&kafka);
    expect("lost 0; lost 3");
    kafka_report_lost(&kafka);
    expect("");
    kafka.group.has_lost = true;
    offset_map_finish(&partition_of(0)->map, 5); // nothing runs
    partition_of(3)->owned = true;
    kafka_report_lost(&kafka);
    expect("");
    assert_false(kafka.group.has_lost);
}

// ---- joining ----

TEST(a_consumer_wakes_the_worker_and_has_its_time)
{
    static const struct kafka_property interval = {"max.poll.interval.ms", "70000"};
    static const struct kafka_property wrong = {"no.such.property", "1"};
    kafka.intake.records = NULL;
    kafka.clients.consumer.owner = NULL;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    expect("open; wake 1; wake 2");
    assert_ptr_equal(kafka.intake.records, &queues[2]);
    assert_true(kafka.outside.timeout_ms > 0 && kafka.outside.timeout_ms % 3 == 0);
    config.properties = &interval;
    config.n_properties = 1;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    assert_int_equal(kafka.outside.timeout_ms, 210000);
    config.group.membership_timeout_ms = 5;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    assert_int_equal(kafka.outside.timeout_ms, 5);
    config.properties = &wrong;
    assert_int_equal(kafka_group_open(&kafka, &error), STATUS_REFUSE);
    config.n_properties = 0;
    world.fails = OPEN;
    buffer_clear(&world.calls);
    assert_int_equal(kafka_group_open(&kafka, &error), STATUS_RETRY);
    expect("open");
    kafka_group_drop_records(&kafka);
    expect("destroy");
    kafka_group_drop_records(&kafka);
    expect("");
}

TEST(a_member_says_in_its_slot_that_it_joins)
{
    assert_ok(kafka_group_join(&kafka, &error), &error);
    expect("slot joining; subscribe");
    assert_true(kafka.group.subscribed);
    kafka.group.subscribed = false;
    world.fails = SUBSCRIBE;
    assert_int_equal(kafka_group_join(&kafka, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "joining the group"));
    assert_false(kafka.group.subscribed);
}

TEST(a_new_consumer_forgets_the_group_and_keeps_the_maps)
{
    struct partition *partition = own(0, 5);
    own(2, 5);
    partition->fetching.paused = partition->fetching.at_end = partition->fetching.rewind = true;
    be_member();
    kafka.group.assigned = list_of("2");
    kafka.group.coming = rd_kafka_consumer_group_metadata_new("workers");
    kafka.group.subscribed = kafka.watch.is_stuck = true;
    assert_ok(kafka_group_renew(&kafka, &error), &error);
    expect("destroy; close; open; wake 1; wake 2");
    assert_false(kafka.watch.is_stuck || kafka.group.subscribed);
    assert_true(kafka.group.has_lost);
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.coming);
    assert_null(kafka.group.membership);
    assert_false(partition->owned || partition->fetching.paused || partition->fetching.at_end ||
                 partition->fetching.rewind || partition_of(2)->owned);
    assert_int_equal(partition->map.watermark, 5);
    assert_int_equal(kafka.figures.n_rejoins, 1);
    world.fails = OPEN;
    assert_int_equal(kafka_group_renew(&kafka, &error), STATUS_RETRY);
    assert_int_equal(kafka.stopped.status, STATUS_RETRY);
}

TEST(a_member_that_is_expelled_twice_in_a_minute_has_a_namesake)
{
    kafka.group.is_expelled = true;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    assert_int_equal(world.timeout_ms[CHECK_ID], 5000);
    assert_false(kafka.group.is_expelled);
    assert_int_equal(kafka.group.rejoined_ms, START_MS);
    buffer_clear(&world.calls);
    world.now_ms += 60000;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    expect("check id; destroy; close; open; wake 1; wake 2");
    world.now_ms += 59999;
    assert_int_equal(kafka_group_rejoin(&kafka, &error), STATUS_RESTART);
    assert_non_null(strstr(error.text, "for the second time within a minute"));
    expect("slot fenced");
}

TEST(a_member_whose_id_is_taken_ends_and_one_without_an_answer_goes_on)
{
    world.fails = CHECK_ID;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    assert_int_equal(kafka.figures.n_rejoins, 1);
    world.now_ms += 60000;
    world.status = STATUS_RESTART;
    assert_int_equal(kafka_group_rejoin(&kafka, &error), STATUS_RESTART);
    assert_int_equal(kafka.figures.n_rejoins, 1);
}

// ---- leaving ----

TEST(all_events_are_answered_before_the_group_closes)
{
    world.n_messages = 2;
    world.regroups = true;
    kafka_group_leave(&kafka, false, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; poll; close group; await; destroy");
    world.n_events = 2;
    world.events[1] = RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS;
    event_list = list_of("1");
    own(1, 5);
    kafka_group_leave(&kafka, false, world.now_ms + 1000);
    expect("unsubscribe; poll; close group; await; mark 1; revoke; say; gaps; resolve; assign NULL; await; "
           "await; destroy");
    assert_false(partition_of(1)->owned);
    rd_kafka_topic_partition_list_destroy(event_list);
}

TEST(leaving_has_a_deadline)
{
    world.n_messages = 100;
    world.step_ms = 400;
    kafka_group_leave(&kafka, false, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; close group; destroy");
    world.n_messages = 0;
    world.step_ms = 0;
    world.never_closes = true;
    kafka_group_leave(&kafka, false, world.now_ms + 100);
    expect("unsubscribe; poll; close group; await; await; destroy");
    world.has_no_closing = true;
    kafka_group_leave(&kafka, false, world.now_ms + 100);
    expect("unsubscribe; poll; close group; destroy");
}

// Also a static one: librdkafka sends no LeaveGroup for it once its close has begun.
TEST(a_member_has_left_before_the_group_closes)
{
    kafka.group.subscribed = true;
    world.n_polls_to_leave = 3;
    kafka_group_leave(&kafka, true, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; close group; await; destroy");
    world.n_polls_to_leave = 100;
    world.step_ms = 400;
    kafka_group_leave(&kafka, true, world.now_ms + 1000);
    expect("unsubscribe; poll; poll; poll; close group; destroy");
    world.n_polls_to_leave = 100;
    world.step_ms = 0;
    kafka_group_leave(&kafka, false, world.now_ms + 1000); // no broker would take the request
    expect("unsubscribe; poll; close group; destroy");
    config.group.protocol = GROUP_PROTOCOL_CONSUMER; // keeps its id
    kafka_group_leave(&kafka, true, world.now_ms + 1000);
    expect("unsubscribe; poll; close group; destroy");
}

TEST(a_member_that_leaves_while_it_joins_waits_for_its_id)
{
    kafka.group.subscribed = true;
    world.n_polls_to_id = 2;
    kafka_group_leave(&kafka, true, START_MS + 10000);
    expect("poll; poll; unsubscribe; poll; close group; await; destroy");
    world.is_leaving = false;
    world.n_polls_to_id = 100;
    world.step_ms = 2000;
    kafka_group_leave(&kafka, true, world.now_ms + 10000);
    expect("poll; poll; poll; unsubscribe; poll; close group; destroy");
    world.is_leaving = false;
    world.n_polls_to_id = 100;
    world.n_messages = 1; // the group refuses it
    world.message_code = RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL;
    world.step_ms = 0;
    kafka_group_leave(&kafka, true, world.now_ms + 10000);
    expect("poll; unsubscribe; poll; close group; destroy");
}

TEST_FIXTURE(begin, end);

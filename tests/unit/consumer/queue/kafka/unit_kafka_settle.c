// What transactions that are over left undecided: when it is waited for, when it is aborted, and when it is
// another's (consumer/queue/kafka/kafka_settle.c). The brokers' answers are this program's.
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { NOW_MS = 1000000, PATIENCE_MS = 2000, COMMITTED = 40 };
enum kind { RETRIABLE, ABORTABLE, FATAL };

static struct {
    char steps[1024]; // letters of calls in their order; "l" or "lr" that repeats itself is left out
    int64_t now_ms;
    enum status finding, looking, reading;
    bool is_swept;        // an aborted sweep decides our transactions
    int n_ours, n_others; // undecided partitions
    enum status judging;
    int n_judged, n_kept, n_others_first;
    bool holds_offsets; // ours, until a sweep
    int n_begun, n_marked, n_aborted;
    enum kind kind; // of the next faults
    int n_begin_faults, n_abort_faults;
    bool sending_breaks;
    int64_t offset; // the group's
    char metadata[8];
    char warnings[2048];
    int n_stopped;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

static void add_step(char letter)
{
    size_t size = strlen(world.steps);
    assert_true(size + 1 < sizeof world.steps);
    char last = size > 0 ? world.steps[size - 1] : '\0', before = size > 1 ? world.steps[size - 2] : '\0';
    if (last != letter && !(letter == 'l' && last == 'r' && before == 'l'))
        world.steps[size] = letter;
}

// ---- the brokers ----

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

int __wrap_rd_kafka_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_true(timeout_ms > 0);
    world.now_ms += timeout_ms;
    return 0;
}

int __wrap_rd_kafka_error_is_fatal(const rd_kafka_error_t *fault)
{
    return fault && world.kind == FATAL;
}

int __wrap_rd_kafka_error_txn_requires_abort(const rd_kafka_error_t *fault)
{
    return fault && world.kind == ABORTABLE;
}

int __wrap_rd_kafka_error_is_retriable(const rd_kafka_error_t *fault)
{
    return fault && world.kind == RETRIABLE;
}

rd_kafka_error_t *__wrap_rd_kafka_begin_transaction(rd_kafka_t *rk)
{
    add_step('b');
    if (world.n_begin_faults-- > 0)
        return rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "as the test wants it");
    world.n_begun++;
    return NULL;
}

rd_kafka_error_t *__wrap_rd_kafka_abort_transaction(rd_kafka_t *rk, int timeout_ms)
{
    assert_true(timeout_ms > 0);
    add_step('a');
    if (world.n_abort_faults-- > 0)
        return rd_kafka_error_new(RD_KAFKA_RESP_ERR__STATE, "as the test wants it");
    world.n_aborted++;
    if (world.is_swept) {
        world.n_ours = 0;
        world.holds_offsets = false;
    }
    return NULL;
}

// ---- the other files of the transport ----

rd_kafka_topic_partition_list_t *__wrap_kafka_undecided_find(struct kafka_handle *reader,
                                                             const char *const *topics, size_t n_topics,
                                                             int timeout_ms, struct error *fault)
{
    assert_ptr_equal(reader, &kafka.clients.producer);
    assert_int_equal(n_topics, 2);
    assert_string_equal(topics[0], "results");
    assert_string_equal(topics[1], "dead");
    assert_true(timeout_ms > 0);
    add_step('f');
    if (world.finding != STATUS_OK) {
        (void)error_set(fault, world.finding, ERROR_BROKER, "finding");
        return NULL;
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (int i = 0; i < 4; i++)
        rd_kafka_topic_partition_list_add(list, i < 3 ? "results" : "dead", i % 3)->offset = 10;
    return list;
}

enum status __wrap_kafka_undecided_look(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                        rd_kafka_topic_partition_list_t **first, int timeout_ms,
                                        struct error *fault)
{
    assert_null(first);
    assert_ptr_equal(reader, &kafka.clients.consumer);
    assert_true(timeout_ms > 0);
    add_step('l');
    if (world.looking != STATUS_OK)
        return error_set(fault, world.looking, ERROR_BROKER, "looking");
    while (list->cnt > world.n_ours + world.n_others)
        rd_kafka_topic_partition_list_del_by_idx(list, list->cnt - 1);
    return STATUS_OK;
}

enum status __wrap_kafka_verdict_keep(struct kafka_transport *of, rd_kafka_topic_partition_list_t *undecided,
                                      bool is_first, int *n_others, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    assert_int_equal(is_first, of->figures.n_commits == 0);
    add_step('v');
    world.n_judged++;
    if (world.judging != STATUS_OK)
        return error_set(fault, world.judging, ERROR_BROKER, "judging");
    for (int i = 0; i < world.n_kept && undecided->cnt > 0; i++)
        rd_kafka_topic_partition_list_del_by_idx(undecided, 0);
    *n_others = world.n_others_first;
    return STATUS_OK;
}

void __wrap_kafka_undecided_mark(struct kafka_handle *producer, const rd_kafka_topic_partition_list_t *list,
                                 int timeout_ms)
{
    assert_ptr_equal(producer, &kafka.clients.producer);
    assert_true(timeout_ms > 0);
    assert_int_equal(list->cnt, world.n_ours + world.n_others - world.n_kept);
    add_step('m');
    world.n_marked++;
}

enum kafka_outcome __wrap_kafka_send_no_offsets(struct kafka_transport *of, int64_t deadline_ms,
                                                const char *what, struct error *fault)
{
    assert_true(deadline_ms > world.now_ms);
    add_step('o');
    if (!world.sending_breaks)
        return KAFKA_OUTCOME_DONE;
    (void)error_set(fault, STATUS_RETRY, ERROR_BROKER, "sending");
    return KAFKA_OUTCOME_BROKEN;
}

enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *fault)
{
    assert_true(timeout_ms > 0);
    assert_true(list->cnt > 0);
    add_step('r');
    if (world.holds_offsets || world.reading != STATUS_OK)
        return error_set(fault, world.holds_offsets ? STATUS_RETRY : world.reading, ERROR_BROKER, "held");
    for (int i = 0; i < list->cnt; i++) {
        free(list->elems[i].metadata);
        list->elems[i].offset = world.offset;
        list->elems[i].metadata = strdup(world.metadata);
        list->elems[i].metadata_size = strlen(world.metadata);
    }
    return STATUS_OK;
}

enum status __wrap_kafka_stop(struct kafka_transport *of, const struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    world.n_stopped++;
    return fault->status;
}

static void take_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    size_t size = strlen(world.warnings);
    snprintf(world.warnings + size, sizeof world.warnings - size, "%s\n", line);
}

// ---- cases ----

static void own(int32_t id, int64_t offset, const char *metadata)
{
    struct partition *partition = partition_add(&kafka.partitions, id, 8);
    rd_kafka_topic_partition_t saved = {.offset = offset,
                                        .metadata = (void *)(uintptr_t)metadata,
                                        .metadata_size = strlen(metadata)};
    assert_non_null(partition);
    partition->owned = true;
    partition->committed = offset;
    partition->saved_crc = kafka_saved_crc(&saved);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = NOW_MS;
    world.is_swept = true;
    world.offset = COMMITTED;
    strcpy(world.metadata, "map");
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .group.name = "workers",
                                   .topics = {.jobs = "jobs", .results = "results", .dead = "dead"},
                                   .log = take_warning};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    kafka.clients.consumer.config = kafka.clients.producer.config = &config;
    own(1, COMMITTED, "map");
    error = (struct error){0};
    kafka_settle_begin(&kafka);
    return 0;
}

static int end(void **state)
{
    if (kafka.publishing.transaction.offsets)
        rd_kafka_topic_partition_list_destroy(kafka.publishing.transaction.offsets);
    kafka_settle_finish(&kafka);
    partition_table_finish(&kafka.partitions);
    return 0;
}

static enum status settle_for(int ms)
{
    memset(world.steps, 0, sizeof world.steps);
    return kafka_settle(&kafka, world.now_ms + ms, &error);
}

static void set_unknown(size_t n_entries)
{
    kafka.publishing.transaction.phase = TRANSACTION_UNKNOWN;
    kafka.publishing.transaction.n_entries = n_entries;
    kafka.publishing.transaction.offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(kafka.publishing.transaction.offsets, "jobs", 1)->offset = 50;
}

TEST(nothing_is_asked_where_it_is_not_needed)
{
    kafka_settle_finish(&kafka);
    assert_int_equal(settle_for(1000), STATUS_OK);
    assert_string_equal(world.steps, "");
}

TEST(where_all_is_decided_one_look_is_enough)
{
    assert_int_equal(settle_for(1000), STATUS_OK);
    assert_string_equal(world.steps, "flr");
    assert_int_equal(world.now_ms, NOW_MS);
    assert_false(kafka.watch.is_outdated);
    assert_string_equal(world.warnings, "");
    assert_int_equal(settle_for(1000), STATUS_OK); // once
    assert_string_equal(world.steps, "");
}

TEST(transactions_of_others_end_soon)
{
    world.n_others = 2;
    assert_int_equal(settle_for(500), STATUS_RETRY);
    assert_string_equal(world.steps, "fl");
    assert_string_equal(error.text,
                        "Kafka at broker:9092: topic results partition 0 and 1 more: waiting until"
                        " the transactions that are open there are decided");
    assert_int_equal(settle_for(PATIENCE_MS - 600), STATUS_RETRY);
    assert_string_equal(world.steps, "l");
    world.n_others = 0;
    assert_int_equal(settle_for(500), STATUS_OK);
    assert_string_equal(world.steps, "lr");
    assert_int_equal(world.n_begun, 0);
}

TEST(what_hangs_of_ours_is_aborted)
{
    world.n_ours = 1;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "flvbmoalr");
    assert_true(world.now_ms >= NOW_MS + PATIENCE_MS && world.now_ms < NOW_MS + PATIENCE_MS + 200);
    assert_int_equal(world.n_begun, 1);
    assert_int_equal(world.n_aborted, 1);
    assert_int_equal(kafka.publishing.transaction.began_ms, world.now_ms);
    assert_string_equal(world.warnings,
                        "topic results partition 0: a transaction is not decided: what an earlier one of this"
                        " worker may have left there is aborted\n");
    assert_false(kafka.publishing.settling.is_needed);
}

TEST(a_sweep_whose_end_is_lost_too_is_repeated)
{
    world.n_ours = 1;
    world.is_swept = false;
    assert_int_equal(settle_for(PATIENCE_MS + 500), STATUS_RETRY);
    assert_int_equal(world.n_aborted, 1);
    world.is_swept = true;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_int_equal(world.n_aborted, 2);
}

TEST(what_stays_undecided_after_three_sweeps_is_another_s)
{
    world.n_others = 1;
    assert_int_equal(settle_for(60000), STATUS_OK);
    assert_int_equal(world.n_aborted, 3);
    assert_non_null(strstr(world.warnings, "topic results partition 0: a transaction of another producer"));
    assert_true(world.now_ms >= NOW_MS + 4 * PATIENCE_MS && world.now_ms < NOW_MS + 4 * PATIENCE_MS + 500);
}

TEST(partitions_that_can_t_be_asked_for_are_waited_for)
{
    world.finding = STATUS_RETRY;
    assert_int_equal(settle_for(500), STATUS_RETRY);
    assert_string_equal(world.steps, "f");
    world.finding = STATUS_OK;
    world.looking = STATUS_RETRY;
    world.n_ours = 1;
    assert_int_equal(settle_for(60000), STATUS_RETRY);
    assert_string_equal(world.steps, "fl");
    assert_string_equal(error.text, "looking");
    world.looking = STATUS_OK;
    assert_int_equal(settle_for(PATIENCE_MS - 100), STATUS_RETRY); // patience begins now
    assert_string_equal(world.steps, "l");
    assert_int_equal(settle_for(500), STATUS_OK);
}

TEST(missing_rights_stop_the_transport)
{
    world.finding = STATUS_REFUSE;
    assert_int_equal(settle_for(500), STATUS_REFUSE);
    assert_int_equal(world.n_stopped, 1);
}

// Whether a transaction holds them is not known.
TEST(offsets_that_may_not_be_read_are_not_swept)
{
    world.reading = STATUS_RETRY;
    kafka.watch.lacks_read = true;
    assert_int_equal(settle_for(60000), STATUS_RETRY);
    assert_string_equal(world.steps, "flr");
    assert_int_equal(world.now_ms, NOW_MS);
    kafka_settle_finish(&kafka);
    kafka_settle_begin(&kafka);
    world.n_ours = 1; // results are read with another right
    assert_int_equal(settle_for(PATIENCE_MS + 500), STATUS_RETRY);
    assert_int_equal(world.n_aborted, 1);
    world.reading = STATUS_OK;
    assert_int_equal(settle_for(9000), STATUS_OK);
}

TEST(an_abort_without_an_answer_is_continued)
{
    world.n_ours = 1;
    world.kind = RETRIABLE;
    world.n_abort_faults = 2;
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_string_equal(world.steps, "flvbmoa");
    assert_true(kafka.publishing.settling.is_sweeping);
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_string_equal(world.steps, "a");
    kafka_settle_begin(&kafka); // the open transaction is not forgotten
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "aflr");
    assert_int_equal(world.n_begun, 1);
}

TEST(a_producer_that_breaks_is_replaced_and_the_look_goes_on)
{
    world.n_ours = 1;
    world.kind = FATAL;
    world.n_begin_faults = 1;
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    kafka.publishing.transaction.phase = TRANSACTION_NONE;
    world.n_abort_faults = 1;
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_false(kafka.publishing.settling.is_sweeping);
    kafka.publishing.transaction.phase = TRANSACTION_NONE;
    world.sending_breaks = true;
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_false(kafka.publishing.settling.is_sweeping);
    assert_true(kafka.publishing.settling.is_needed);
    kafka.publishing.transaction.phase = TRANSACTION_NONE;
    world.sending_breaks = false;
    assert_int_equal(settle_for(9000), STATUS_OK);
}

TEST(what_was_committed_is_not_swept)
{
    world.n_ours = 2;
    world.n_kept = 2;
    kafka.figures.n_commits = 3;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "flvlr");
    assert_non_null(
        strstr(world.warnings, "topic results partition 0 and 1 more: results that were committed"));
    kafka_settle_begin(&kafka);
    world.n_kept = 1;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "flvbmoalr");
}

TEST(records_that_can_t_be_read_are_read_again)
{
    world.n_ours = 1;
    world.judging = STATUS_RETRY;
    assert_int_equal(settle_for(9000), STATUS_RETRY);
    assert_string_equal(world.steps, "flv");
    assert_string_equal(error.text, "judging");
    world.judging = STATUS_OK;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_int_equal(world.n_begun, 1);
}

// Its process commits further transactions there, or has ended; a transaction of ours may be queued after it.
TEST(after_what_another_process_committed_is_swept_in_the_end)
{
    world.n_ours = world.n_others_first = 1;
    assert_int_equal(settle_for(60000), STATUS_OK);
    assert_int_equal(world.n_judged, 3);
    assert_int_equal(world.n_begun, 1);
    assert_true(world.now_ms >= NOW_MS + 3 * PATIENCE_MS);
    kafka_settle_begin(&kafka);
    world.n_ours = 2;
    assert_int_equal(settle_for(PATIENCE_MS + 500), STATUS_OK); // one that is not another's
    assert_int_equal(world.n_begun, 2);
}

TEST(offsets_that_are_held_are_swept)
{
    world.holds_offsets = true;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "flrbmoalr");
    assert_non_null(strstr(world.warnings, "the group's offsets: a transaction is not decided"));
}

TEST(of_partitions_to_come_the_offsets_are_asked_for_too)
{
    kafka.partitions.items[1]->owned = false;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "fl");
    rd_kafka_topic_partition_list_t *assigned = rd_kafka_topic_partition_list_new(2);
    rd_kafka_topic_partition_list_add(assigned, "jobs", 1);
    rd_kafka_topic_partition_list_add(assigned, "jobs", 3);
    kafka.group.assigned = assigned;
    world.holds_offsets = true;
    kafka_settle_begin(&kafka);
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_string_equal(world.steps, "flrbmoalr");
    kafka.group.assigned = NULL;
    rd_kafka_topic_partition_list_destroy(assigned);
    assert_false(kafka.watch.is_outdated); // none is ours
}

// Its results are decided, possibly committed; then its offsets must not be aborted.
TEST(held_offsets_of_a_transaction_with_results_are_not_swept_alone)
{
    world.holds_offsets = true;
    set_unknown(3);
    assert_int_equal(settle_for(60000), STATUS_RETRY);
    assert_string_equal(error.text, "held");
    assert_int_equal(world.n_begun, 0);
    world.n_ours = 1; // nothing of it is decided
    kafka_settle_begin(&kafka);
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_int_equal(world.n_begun, 1);
}

TEST(held_offsets_of_a_transaction_without_results_are_swept)
{
    world.holds_offsets = true;
    set_unknown(0);
    world.is_swept = false;
    assert_int_equal(settle_for(60000), STATUS_RETRY); // not given up: they are needed
    assert_true(world.n_aborted > 3);
    world.is_swept = true;
    assert_int_equal(settle_for(9000), STATUS_OK);
    assert_false(kafka.watch.is_outdated); // only the process that knows the outcome compares its own
}

TEST(offsets_older_than_the_last_committed_ones_are_read_again)
{
    world.offset = COMMITTED - 1;
    assert_int_equal(settle_for(1000), STATUS_OK);
    assert_true(kafka.watch.is_outdated);
    assert_non_null(strstr(world.warnings, "topic jobs partition 1: the group's offset is 39, and 40 was"));
    kafka.watch.is_outdated = false;
    world.offset = COMMITTED;
    strcpy(world.metadata, "pam"); // the same offset with another map
    kafka_settle_begin(&kafka);
    assert_int_equal(settle_for(1000), STATUS_OK);
    assert_true(kafka.watch.is_outdated);
}

TEST(a_group_without_an_offset_still_has_none)
{
    own(1, RD_KAFKA_OFFSET_INVALID, "");
    world.offset = RD_KAFKA_OFFSET_INVALID;
    assert_int_equal(settle_for(1000), STATUS_OK);
    assert_false(kafka.watch.is_outdated);
}

TEST_FIXTURE(begin, end);

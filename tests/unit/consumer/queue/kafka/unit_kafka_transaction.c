// Commits: which jobs are published, what is sent with them, and what each answer of the brokers means for
// the jobs and the next commit (consumer/queue/kafka/kafka_transaction.c). The brokers' answers are this program's.
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
    const char *lost;
    int n_fenced;
    enum status settling;
    int n_settlings, n_settled; // begun, and asked for
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
static void add_committed(int32_t id, int64_t offset, const char *finished)
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
static void assert_sent(int index, int32_t id, int64_t offset, int64_t position, const char *finished)
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

// ---- what is published ----

TEST(jobs_are_published_with_the_maps_of_their_partitions)
{
    char bytes[sizeof world.sent_as];
    size_t size;
    own_partition(3); // nothing of it is finished
    for (int i = 3; i <= 40; i++)
        assert_int_equal(offset_map_deliver(&partition_of(1)->map, FIRST + i), DELIVERY_NEW);
    jobs[2]->source.offset = FIRST + 40;
    assert_int_equal(commit_jobs(1, 3), STATUS_OK);
    assert_string_equal(world.steps, "mnb(012-o=c)");
    assert_committed("1111");
    assert_int_equal(world.sent->cnt, 2);
    write_group(kafka.group.membership, bytes, &size);
    assert_int_equal(world.sent_as_size, size);
    assert_memory_equal(world.sent_as, bytes, size);
    assert_sent(0, 1, FIRST, FIRST + 41, "01000000000000000000000000000000000000001");
    assert_sent(1, 2, FIRST + 1, FIRST + 3, "1000");
    assert_int_equal(partition_of(1)->committed, FIRST);
    assert_int_equal(partition_of(2)->committed, FIRST + 1);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST + 40));
    assert_true(offset_map_is_finished(&partition_of(2)->map, FIRST));
    assert_int_equal(partition_of(2)->suspects.promised, FIRST + 3 + SUSPECTS_AHEAD);
    assert_int_equal(partition_of(3)->suspects.promised, 0);
    assert_int_equal(kafka.figures.n_commits, 1);
    assert_int_equal(kafka.figures.n_aborts + kafka.figures.n_dropped, 0);
    assert_int_equal(kafka.figures.map_bytes_max, world.sent->elems[0].metadata_size);
    assert_true(world.sent->elems[0].metadata_size > world.sent->elems[1].metadata_size);
    assert_no_transaction();
}

TEST(finished_suspects_are_forgotten_and_others_are_saved)
{
    struct partition *partition = partition_of(1);
    suspects_compute(&partition->suspects, FIRST, SUSPECT_ALONE);
    suspects_compute(&partition->suspects, FIRST + 1, SUSPECT_AMONG_FEW);
    partition->unsaved = true;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_false(partition->unsaved);
    assert_int_equal(partition->suspects.n_items, 1);
    assert_int_equal(partition->suspects.items[0].offset, FIRST + 1);
}

TEST(a_state_to_save_is_committed_without_jobs)
{
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
    partition_of(2)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "mnb(-o=c)");
    assert_int_equal(world.sent->cnt, 1);
    assert_sent(0, 2, FIRST, FIRST + 3, "000");
    assert_false(partition_of(2)->unsaved);
    partition_of(1)->committed = FIRST - 1; // the watermark has passed offsets that are no records
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_int_equal(world.sent->elems[0].partition, 1);
    partition_of(1)->committed = FIRST - 1;
    partition_of(1)->owned = false;
    offset_map_init(&partition_of(2)->map); // nothing was delivered yet
    partition_of(2)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
}

TEST(a_partition_that_is_left_says_that_nothing_is_computed)
{
    struct suspects suspects = {.doubtful = 1};
    partition_of(1)->leaving = partition_of(1)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    struct text metadata = {world.sent->elems[0].metadata, world.sent->elems[0].metadata_size};
    assert_ok(suspects_take_over(&suspects, FIRST, metadata, OWNER + 1, &error), &error);
    assert_int_equal(suspects.doubtful, 0);
    assert_false(suspects_are_computed(FIRST, metadata));
    assert_int_equal(partition_of(1)->suspects.promised, FIRST);
}

TEST(jobs_of_others_are_dropped)
{
    partition_of(1)->owned = false;
    offset_map_forget(&partition_of(2)->map, FIRST + 1); // job 4: delivered to another worker
    assert_int_equal(commit_jobs(0, 5), STATUS_OK);
    assert_string_equal(world.steps, "mnb(3-o=c)");
    assert_committed("00010");
    assert_int_equal(kafka.figures.n_dropped, 4);
    for (int i = 0; i < 3; i++)
        assert_false(offset_map_is_running(&partition_of(1)->map, FIRST + i));
    assert_int_equal(world.sent->cnt, 1);
    jobs[0]->source.partition = 5; // which never was ours
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "m");
    assert_committed("0");
}

TEST(of_two_jobs_of_one_offset_one_is_published)
{
    jobs[2]->source.offset = jobs[0]->source.offset;
    jobs[4]->source.offset = jobs[0]->source.offset;
    assert_int_equal(commit_jobs(0, 5), STATUS_OK); // 3 and 4 too
    assert_string_equal(world.steps, "mnb(013-o=c)");
    assert_committed("11010");
    assert_int_equal(kafka.figures.n_dropped, 2);
    assert_sent(0, 1, FIRST + 2, FIRST + 3, "110");
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST)); // not forgotten for its twin
}

TEST(between_owners_nothing_is_published)
{
    rd_kafka_topic_partition_list_t *assigned = rd_kafka_topic_partition_list_new(1);
    kafka.group.assigned = assigned;
    partition_of(1)->unsaved = true;
    assert_int_equal(commit_jobs(0, 5), STATUS_RETRY);
    assert_string_equal(world.steps, "mi");
    assert_non_null(strstr(error.text, "the group is being rebalanced"));
    assert_committed("00000");
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_no_transaction();
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
    kafka.group.assigned = NULL;
    rd_kafka_topic_partition_list_destroy(assigned);
    rd_kafka_consumer_group_metadata_destroy(kafka.group.membership);
    kafka.group.membership = NULL;
    assert_int_equal(commit_jobs(0, 5), STATUS_RETRY);
    for (int i = 0; i < 3; i++) // of none of ours
        offset_map_forget(&partition_of(1)->map, FIRST + i);
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "m");
    assert_committed("000");
}

TEST(doubted_jobs_are_published_after_the_others_each_alone)
{
    jobs[0]->source.is_doubted = jobs[3]->source.is_doubted = true;
    assert_int_equal(commit_jobs(0, 5), STATUS_OK);
    assert_string_equal(world.steps, "mnb(124fAD-o=c)");
    assert_committed("11111");
}

TEST(jobs_that_can_t_be_published_end_the_transaction)
{
    world.publishing = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0ai");
    world.publishing = STATUS_OK;
    world.flushing = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK); // nothing to flush for
    assert_string_equal(world.steps, "mnb(012-o=c)");
    jobs[3]->source.is_doubted = true;
    assert_int_equal(commit_jobs(3, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(1fai");
    world.flushing = STATUS_OK;
    world.publishing = STATUS_REFUSE;
    assert_int_equal(commit_jobs(3, 1), STATUS_REFUSE);
    assert_string_equal(world.steps, "mnb(fAa"); // no refusals to count
    assert_int_equal(kafka.figures.n_aborts, 3);
    assert_no_transaction();
    assert_true(offset_map_is_running(&partition_of(2)->map, FIRST));
    assert_int_equal(partition_of(2)->committed, FIRST);
}

TEST(results_that_are_published_end_a_series_of_given_up_ones)
{
    kafka.publishing.refusals.n_given_up = 5;
    jobs[0]->result.error.code = ERROR_RESULT_REFUSED;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_int_equal(kafka.publishing.refusals.n_given_up, 5);
    partition_of(1)->owned = false;
    assert_int_equal(commit_jobs(1, 1), STATUS_OK); // dropped
    assert_int_equal(kafka.publishing.refusals.n_given_up, 5);
    assert_int_equal(commit_jobs(3, 1), STATUS_OK);
    assert_int_equal(kafka.publishing.refusals.n_given_up, 0);
}

// ---- before a commit ----

TEST(a_commit_needs_brokers_and_topics)
{
    kafka.clients.consumer.is_down = true;
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_non_null(strstr(error.text, "no broker is up"));
    kafka.clients.consumer.is_down = false;
    world.topics = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_string_equal(error.text, "topics");
    world.topics = STATUS_OK;
    config.refuse_deleted = true;
    world.gaps = STATUS_REFUSE;
    assert_int_equal(commit_jobs(0, 1), STATUS_REFUSE);
    assert_string_equal(world.steps, "g");
    world.gaps = STATUS_OK;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "gmnb(0-o=c)");
    kafka.stopped = (struct error){.status = STATUS_RESTART, .text = "stopped"};
    assert_int_equal(commit_jobs(1, 1), STATUS_RESTART);
    assert_string_equal(error.text, "stopped");
    assert_string_equal(world.steps, "");
    assert_false(committed[1]);
    assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms + 1, &error), STATUS_RESTART);
}

TEST(a_transaction_that_does_not_begin_is_none)
{
    for (enum kind kind = RETRIABLE; kind <= PLAIN; kind++) {
        if (kind == FATAL)
            continue;
        answer_with(BEGIN, kind, RD_KAFKA_RESP_ERR__STATE, 1);
        assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
        assert_string_equal(world.steps, "mnbi");
        assert_non_null(strstr(error.text, "Kafka at broker:9092: beginning a transaction: as the test"));
        assert_no_transaction();
    }
    answer_with(BEGIN, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnbi");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

// ---- what the brokers answer ----

TEST(offsets_are_sent_again_until_the_deadline)
{
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-ooo=c)");
    assert_int_equal(world.timeout_ms[OFFSETS], CALL_MS);
    world.now_ms = 1000000;
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1000);
    world.answers[OFFSETS].step_ms = KAFKA_COMMIT_TIMEOUT_MS / 2 - 100;
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oooai");
    assert_true(world.timeout_ms[OFFSETS] > 0 && world.timeout_ms[OFFSETS] < 200);
    assert_no_transaction();
    world.now_ms = 1000000;
    answer_with(OFFSETS, ABORTABLE, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oai");
    world.now_ms = 1000000;
    kafka.clients.producer.is_down = false;
    answer_with(OFFSETS, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oi");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

// The caller has an error, so its next commits learn of what was published.
TEST(a_commit_in_doubt_is_continued_and_its_jobs_are_reported_once)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0123-o=ci");
    assert_committed("0000");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_COMMITTING);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "c)m");
    assert_committed("11");
    assert_int_equal(kafka.figures.n_commits, 1);
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST + 2));
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 2);
    assert_int_equal(commit_jobs(2, 3), STATUS_OK); // two of it, and a new one
    assert_string_equal(world.steps, "mnb(2-o=c)");
    assert_committed("11111");
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(commit_jobs(0, 4), STATUS_OK); // as no caller does
    assert_committed("0000");
    assert_no_transaction();
}

TEST(a_commit_is_tried_again_until_its_deadline)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 3);
    world.answers[COMMIT].step_ms = 600;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-o=cccc)");
    assert_int_equal(world.timeout_ms[COMMIT], CALL_MS);
    kafka.clients.producer.is_down = true; // as it turns out in its callbacks
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    kafka.publishing.transaction.phase = TRANSACTION_ABORTING;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 3);
    assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    assert_int_equal(world.n_calls[ABORT], 1); // without a broker there is no use in it
}

TEST(jobs_are_reported_in_any_order)
{
    struct job *reversed[] = {jobs[4], jobs[2], jobs[0]};
    for (int n = 1; n <= 3; n++) {
        answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
        world.answers[COMMIT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
        world.now_ms = 1000000;
        assert_int_equal(kafka_commit(&kafka.base, reversed, (size_t)n, committed, &error), STATUS_RETRY);
        world.now_ms = 1000000;
        for (int i = 0; i < n; i++) {
            memset(world.steps, 0, sizeof world.steps);
            assert_ok(kafka_commit(&kafka.base, &reversed[i], 1, committed, &error), &error);
            assert_string_equal(world.steps, i == 0 ? "c)m" : "m");
            assert_true(committed[0]);
        }
        assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
        partition_table_finish(&kafka.partitions);
        own_partition(1);
        own_partition(2);
    }
}

// A deadline that has passed: librdkafka is asked once, without waiting.
TEST(a_call_is_made_once_after_its_deadline)
{
    for (int64_t late_ms = 0; late_ms < 2; late_ms++) {
        kafka.publishing.transaction.phase = TRANSACTION_ABORTING;
        answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
        assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms - late_ms, &error), STATUS_RETRY);
        assert_int_equal(world.n_calls[ABORT], late_ms + 1);
        assert_int_equal(world.timeout_ms[ABORT], 1);
    }
}

TEST(an_aborted_commit_is_published_again)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(01-o=cai");
    assert_non_null(strstr(error.text, "committing a transaction"));
    assert_int_equal(kafka.figures.n_aborts, 1);
    assert_int_equal(kafka.figures.n_commits, 0);
    assert_int_equal(world.timeout_ms[ABORT], CALL_MS);
    assert_no_transaction();
    assert_committed("00");
    answer_with(COMMIT, PLAIN, RD_KAFKA_RESP_ERR__STATE, 1); // of no kind: the same
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(01-o=cai");
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_committed("11");
}

TEST(an_abort_without_an_answer_is_continued)
{
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    world.answers[ABORT].step_ms = 3000;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(error.text, "publishing"); // the cause
    assert_string_equal(world.steps, "mnb(0ai");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_ABORTING);
    world.publishing = STATUS_OK;
    world.answers[ABORT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "a");
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "amnb(01-o=c)");
    assert_int_equal(kafka.figures.n_aborts, 1);
}

TEST(a_producer_that_can_t_abort_is_replaced)
{
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, ABORTABLE, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.n_aborts, 0);
    world.publishing = STATUS_OK;
    world.opening = STATUS_RETRY;
    add_committed(1, FIRST, "000");
    answer_with(OPEN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "O");
    assert_int_equal(world.timeout_ms[OPEN], CALL_MS);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "Ormnb(01-o=c)");
    assert_int_equal(kafka.figures.n_producers, 1);
    kafka.publishing.transaction.phase = TRANSACTION_BROKEN; // after a commit that was aborted
    assert_int_equal(commit_jobs(2, 1), STATUS_OK);
    assert_string_equal(world.steps, "Omnb(0-o=c)"); // it has no offsets
    kafka.publishing.transaction.phase = TRANSACTION_BROKEN;
    world.opening = STATUS_REFUSE;
    answer_with(OPEN, PLAIN, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(3, 1), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_string_equal(kafka.stopped.text, "no producer");
}

// ---- a transaction whose outcome the group's offsets say ----

static void break_commit(void)
{
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0123-o=ci");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.n_aborts, 0);
}

TEST(a_broken_commit_was_made_if_the_group_s_offsets_say_so)
{
    break_commit();
    add_committed(1, FIRST + 3, "111");
    add_committed(2, FIRST, "0");
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "Ormnb(3-o=c)"); // 3 was not published
    assert_committed("1111");
    assert_int_equal(partition_of(1)->committed, FIRST + 3);
    assert_int_equal(partition_of(2)->committed, FIRST + 1);
    assert_int_equal(partition_of(1)->map.watermark, FIRST + 3);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(kafka.figures.n_producers, 1);
}

TEST(offsets_without_a_commit_publish_none)
{
    break_commit();
    add_committed(1, -1, "");
    add_committed(2, FIRST, "0");
    partition_of(2)->owned = false;
    partition_of(2)->committed = 5;
    partition_of(1)->saved_crc = 6;
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(partition_of(1)->committed, FIRST); // as it was
    assert_int_equal(partition_of(1)->saved_crc, 6);
    assert_int_equal(partition_of(2)->committed, 5); // another's
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_no_transaction();
}

TEST(a_part_may_have_been_published_by_others)
{
    break_commit();
    add_committed(1, FIRST, "010");
    add_committed(2, FIRST + 2, "11");
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "Orr");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_UNKNOWN);
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "rmnb(02-o=c)");
    assert_committed("1111");
    assert_int_equal(partition_of(1)->map.watermark, FIRST + 3);
    assert_int_equal(partition_of(2)->committed, FIRST + 2);
}

TEST(metadata_of_another_program_ends_the_worker)
{
    break_commit();
    add_committed(1, FIRST, "010");
    add_committed(2, FIRST, "0");
    memcpy(world.committed->elems[0].metadata, "other:", 6);
    assert_int_equal(commit_jobs(0, 4), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_non_null(strstr(error.text, "topic jobs partition 1, group workers"));
}

// A broker that stood still may have lost the end of what it called committed.
TEST(a_transaction_that_took_long_counts_when_the_group_s_offsets_say_so)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS - RETRY_MS - 1;
    assert_int_equal(commit_jobs(3, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-o=cc)");
    world.now_ms = 1000000;
    add_committed(1, FIRST, "000");
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS - RETRY_MS;
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(012-o=cc)ri");
    assert_non_null(strstr(error.text, "took 2000 ms, and the group's offsets do not show it yet"));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_UNKNOWN);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    world.now_ms = 1000000;
    memset(world.steps, 0, sizeof world.steps);
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_string_equal(world.steps, "r");
    assert_no_transaction();
    assert_int_equal(world.n_settlings, 1);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    world.is_made = true;
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "mnb(012-o=cc)r");
    assert_committed("111");
    assert_int_equal(partition_of(1)->saved_crc, kafka_saved_crc(&world.sent->elems[0]));
    assert_int_equal(world.n_settlings, 1);
}

// Its offsets are held at first; then they show that it was made, and its jobs are reported.
TEST(a_transaction_that_took_long_is_reported_by_the_next_commit)
{
    world.is_made = true;
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS;
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_committed("000");
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "rm");
    assert_committed("111");
    assert_int_equal(world.n_settlings, 0);
}

TEST(nothing_is_published_before_what_an_abort_left_is_settled)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_int_equal(world.n_settlings, 1);
    world.settling = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "");
    assert_string_equal(error.text, "undecided");
    world.settling = STATUS_OK;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "mnb(01-o=c)");
    assert_committed("11");
    assert_int_equal(world.n_settlings, 1);
}

TEST(nothing_is_published_before_older_offsets_of_the_group_are_read)
{
    kafka.watch.is_behind = true;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "");
    assert_non_null(strstr(error.text, "the group's offsets are read again"));
    kafka.watch.is_behind = false;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
}

TEST(offsets_that_are_held_are_settled_and_read_again)
{
    break_commit();
    add_committed(1, FIRST, "000");
    add_committed(2, FIRST, "0");
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    world.settling = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "Or");
    assert_int_equal(world.n_settlings, 1);
    assert_string_equal(error.text, "no coordinator");
    world.settling = STATUS_OK;
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "rrmnb(0123-o=c)");
    assert_int_equal(world.n_settlings, 2); // for what was not committed
}

// ---- errors that end the worker ----

TEST(a_producer_that_is_fenced_young_has_a_namesake)
{
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1);
    world.answers[COMMIT].step_ms = TRANSACTION_MS / 2 - 1;
    assert_int_equal(commit_jobs(0, 1), STATUS_RESTART);
    assert_int_equal(world.n_fenced, 1);
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "another worker has our id, workers-a"));
    kafka.stopped = (struct error){0};
    kafka_transaction_finish(&kafka);
    world.now_ms = 1000000;
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1);
    world.answers[COMMIT].step_ms = TRANSACTION_MS / 2; // the coordinator aborts what is open too long
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_fenced, 1);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

TEST(missing_rights_name_both_topics)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
    assert_int_equal(commit_jobs(0, 1), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "the worker needs the right Write on topics results and dead"));
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    kafka.stopped = (struct error){0};
    kafka_transaction_finish(&kafka);
    answer_with(BEGIN, ABORTABLE, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 1);
    (void)commit_jobs(0, 1);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_null(strstr(error.text, "the right Write"));
}

TEST(records_for_a_deleted_topic_cost_the_producer)
{
    world.lost = "results";
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 9);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_calls[COMMIT], 1);
    assert_non_null(strstr(error.text, "topic results was deleted or recreated"));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    kafka_transaction_finish(&kafka);
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 9);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_calls[ABORT], 1);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    kafka_transaction_finish(&kafka);
    world.publishing = STATUS_OK;
    answer_with(COMMIT, RETRIABLE, 0, 0); // an answer in time: the topic was of no use to it
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
}

// ---- another process with our id ----

TEST(an_id_is_checked_in_a_transaction_that_is_aborted)
{
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_ok(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), &error);
    assert_string_equal(world.steps, "booa");
    assert_int_equal(world.sent->cnt, 1);
    assert_string_equal(world.sent->elems[0].topic, "jobs");
    assert_int_equal(world.sent->elems[0].partition, 0);
    assert_int_equal(world.sent->elems[0].offset, 0);
    assert_int_equal(kafka.publishing.transaction.began_ms, 1000000);
    assert_no_transaction();
    answer_with(BEGIN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    answer_with(BEGIN, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    answer_with(OFFSETS, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1); // by a new producer
    world.steps[0] = '\0';
    memset(world.steps, 0, sizeof world.steps);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RESTART);
    assert_string_equal(world.steps, "Obo");
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
}

TEST_FIXTURE(begin, end);

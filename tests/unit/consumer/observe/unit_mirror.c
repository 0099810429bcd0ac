// A fleet mirrored from its topics (consumer/observe/mirror.h) into a store: which records count, where a mirror goes
// on, and topics that were made again. The topics, the clock and waiting are this program's; the store is
// SQLite's.
#include "consumer/observe/mirror.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <poll.h>

enum { JOBS, RESULTS, N_TOPICS, RECORDS_MAX = 4, STOP_FD = 7, LONG_AGO_S = 1000 };

struct mirror_source {
    const char *value; // NULL: a tombstone
    struct header headers[6];
    int32_t n_headers;
};

static struct {
    struct mirror_source records[N_TOPICS][RECORDS_MAX];
    int n[N_TOPICS], next[N_TOPICS];
    int64_t started[N_TOPICS], now_ms;
    int n_polls, stop_at_poll; // of the topics, from 1; 0: never
    bool is_stopped;
    int doubt_at_poll; // of the topics; then the first job is `changed`, unless that is NULL
    const char *changed;
    bool has_doubt;
    int n_looks, n_closed; // looks at places
    enum kafka_place places[N_TOPICS];
    int n_absent; // looks at the jobs topic that find it absent
    bool is_end_open, has_standings;
    int n_busy; // of the store
    int n_stores, n_compactions, n_more;
    int64_t compacted_before_us;
} world;

static const char *const topics[N_TOPICS] = {"jobs", "results"};

static bool is_stopped(void *context)
{
    return world.is_stopped;
}

static const struct kafka_config kafka = {.brokers = "broker:9092",
                                          .is_stopping = is_stopped,
                                          .topics = {.jobs = "jobs", .results = "results"},
                                          .group.name = "g"};

// ---- the topics ----

static void add(int topic, const char *value)
{
    assert_true(world.n[topic] < RECORDS_MAX);
    world.records[topic][world.n[topic]++] = (struct mirror_source){.value = value};
}

static void add_header(int topic, const char *name, const char *value)
{
    struct mirror_source *record = &world.records[topic][world.n[topic] - 1];
    assert_true(record->n_headers < (int)(sizeof record->headers / sizeof *record->headers));
    record->headers[record->n_headers++] = (struct header){text_from_string(name), text_from_string(value)};
}

// As a worker of this group publishes it.
static void add_result(const char *value, const char *worker, const char *topic)
{
    add(RESULTS, value);
    add_header(RESULTS, "sheaf-worker", worker);
    add_header(RESULTS, "sheaf-finished-us", "7000000");
    add_header(RESULTS, "sheaf-source-topic", topic);
    add_header(RESULTS, "sheaf-source-partition", "0");
    add_header(RESULTS, "sheaf-source-offset", "0");
}

static struct record record_of(int topic, int at)
{
    const struct mirror_source *from = &world.records[topic][at];
    return (struct record){.topic = text_from_string(topics[topic]),
                           .partition = 0,
                           .offset = at,
                           .identity = headers_identity(from->headers, from->n_headers),
                           .headers = from->headers,
                           .n_headers = from->n_headers,
                           .content_type = TEXT("application/json"),
                           .value = from->value ? text_from_string(from->value) : (struct text){0}};
}

enum status __wrap_kafka_follow_open(struct kafka_follow **follow, const struct kafka_config *config,
                                     const char *const *names, size_t n,
                                     int64_t (*start)(void *context, const char *topic, int32_t partition),
                                     void *context, struct error *fault)
{
    assert_ptr_equal(config, &kafka);
    assert_int_equal(n, N_TOPICS);
    for (int t = 0; t < N_TOPICS; t++) {
        assert_string_equal(names[t], topics[t]);
        world.started[t] = start(context, names[t], 0);
        world.next[t] = world.started[t] == OFFSET_UNKNOWN ? 0 : (int)world.started[t];
    }
    *follow = (struct kafka_follow *)(void *)&world;
    return STATUS_OK;
}

enum status __wrap_kafka_follow_poll(struct kafka_follow *follow, int timeout_ms, int n_max,
                                     kafka_receive *receive, void *context, struct error *fault)
{
    assert_true(timeout_ms > 0 && n_max >= N_TOPICS * RECORDS_MAX);
    world.is_stopped = world.is_stopped || ++world.n_polls == world.stop_at_poll;
    if (world.n_polls == world.doubt_at_poll) {
        world.has_doubt = true;
        if (world.changed)
            world.records[JOBS][0].value = world.changed;
    }
    for (int t = 0; t < N_TOPICS; t++)
        for (; world.next[t] < world.n[t]; world.next[t]++) {
            struct record record = record_of(t, world.next[t]);
            enum status status = receive(context, &record, fault);
            if (status != STATUS_OK)
                return status;
        }
    world.now_ms += timeout_ms;
    return STATUS_OK;
}

bool __wrap_kafka_follow_is_at_end(const struct kafka_follow *follow)
{
    return world.next[JOBS] == world.n[JOBS] && world.next[RESULTS] == world.n[RESULTS];
}

enum status __wrap_kafka_follow_check_end(const struct kafka_follow *follow, struct error *fault)
{
    return world.is_end_open ? error_set(fault, STATUS_REFUSE, ERROR_BROKER, "open") : STATUS_OK;
}

int64_t __wrap_kafka_follow_position(const struct kafka_follow *follow, size_t topic, int32_t partition)
{
    return world.next[topic] ? world.next[topic] : OFFSET_UNKNOWN;
}

void __wrap_kafka_follow_last(const struct kafka_follow *follow, size_t topic, int32_t partition,
                              int64_t *offset, int64_t *hash)
{
    *offset = world.next[topic] - 1;
    struct record record = {0};
    if (*offset >= 0)
        record = record_of((int)topic, (int)*offset);
    *hash = *offset < 0 ? 0 : kafka_follow_hash(&record);
}

bool __wrap_kafka_follow_take_doubt(struct kafka_follow *follow)
{
    bool had = world.has_doubt;
    world.has_doubt = false;
    return had;
}

int32_t __wrap_kafka_follow_n_partitions(const struct kafka_follow *follow, size_t topic)
{
    return 1;
}

enum status __wrap_kafka_follow_standings(struct kafka_follow *follow, size_t topic,
                                          struct kafka_standing *standings, size_t n_max, size_t *n,
                                          struct error *fault)
{
    assert_int_equal(topic, JOBS);
    assert_int_equal(n_max, 1);
    if (!world.has_standings)
        return error_set(fault, STATUS_RETRY, ERROR_BROKER, "away");
    standings[0] = (struct kafka_standing){.committed = 3, .end = 9, .map_covered = -1, .owner = "w@host"};
    *n = 1;
    return STATUS_OK;
}

void __wrap_kafka_follow_close(struct kafka_follow *follow)
{
    world.n_closed++;
}

enum status __wrap_kafka_read_place(const struct kafka_config *config, const char *topic, int32_t partition,
                                    int64_t offset, kafka_receive *receive, void *context,
                                    enum kafka_place *place, struct error *fault)
{
    int t = strcmp(topic, topics[RESULTS]) == 0;
    assert_ptr_equal(config, &kafka);
    assert_int_equal(partition, 0);
    world.n_looks++;
    *place = t == JOBS && world.n_absent-- > 0 ? KAFKA_PLACE_ABSENT : world.places[t];
    if (*place != KAFKA_PLACE_RECORD)
        return STATUS_OK;
    assert_in_range(offset, 0, world.n[t] - 1);
    struct record record = record_of(t, (int)offset);
    return receive(context, &record, fault);
}

// ---- the clock, waiting, and what the store answers ----

int64_t __wrap_clock_ms(void)
{
    return world.now_ms;
}

int64_t __wrap_clock_wall_us(void)
{
    return 5000 * INT64_C(1000000);
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (n != 1 || fds->fd != STOP_FD) // the log's
        return __real_poll(fds, n, timeout_ms);
    world.now_ms += timeout_ms;
    return world.is_stopped;
}

enum status __real_store_mirror(struct store *store, const struct mirror_record *record, struct error *fault);
enum status __wrap_store_mirror(struct store *store, const struct mirror_record *record, struct error *fault)
{
    world.n_stores++;
    if (world.n_busy-- > 0)
        return error_set(fault, STATUS_RETRY, ERROR_STORE, "busy");
    return __real_store_mirror(store, record, fault);
}

enum status __wrap_store_compact(struct store *store, int64_t before_us, bool with_answers, bool *more,
                                 struct error *fault)
{
    world.n_compactions++;
    world.compacted_before_us = before_us;
    *more = world.n_more-- > 0;
    return STATUS_OK;
}

// ---- mirroring ----

static struct mirror_config config;

static int fresh_world(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 1000000;
    config = (struct mirror_config){.kafka = &kafka, .until_end = true, .stop_fd = STOP_FD};
    return fresh_path(state);
}

static enum status run_mirror(void)
{
    struct store *store = open_store(false);
    config.store = store;
    enum status status = mirror_run(&config, &error);
    store_close(store);
    assert_int_equal(world.n_closed, 1);
    world.n_closed = 0;
    return status;
}

static const char *query(const char *sql)
{
    static char answer[1024];
    struct store *store = open_store(false);
    sqlite3_stmt *select = database_statement(&store->database, sql, &error);
    size_t size = 0;
    assert_non_null(select);
    while (sqlite3_step(select) == SQLITE_ROW)
        for (int i = 0, n = sqlite3_column_count(select); i < n; i++) {
            const char *text = (const char *)sqlite3_column_text(select, i);
            size += (size_t)snprintf(answer + size, sizeof answer - size, "%s%s", text ? text : "-",
                                     i + 1 < n ? "|" : "\n");
        }
    answer[size] = '\0';
    sqlite3_reset(select);
    store_close(store);
    return answer;
}

#define JOB(id) "{\"job_id\":\"" id "\",\"dataset\":\"d\",\"index\":1,\"created\":50,\"prompt\":\"p\"}"
#define RESULT(id)                                                                                                  \
    "{\"job_id\":\"" id "\",\"dataset\":\"d\",\"custom_id\":\"c\",\"index\":1,\"status\":\"done\","                 \
    "\"object\":\"text_completion\",\"model\":\"m\",\"created\":50,\"choices\":[{\"text\":\"x\",\"finish_reason\":" \
    "\"stop\",\"completion_tokens\":2}],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}"

TEST(jobs_and_results_become_rows_with_the_figures_of_their_headers)
{
    add(JOBS, JOB("a"));
    add(JOBS, JOB("b"));
    add_result(RESULT("a"), "w-1", "jobs");
    add_header(RESULTS, "sheaf-attempts", "2");
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query("SELECT job_id, status, attempts, submitted_at_us, topic, offset, made_by,"
                              " finished_at_us FROM jobs ORDER BY job_id"),
                        "a|done|2|50000000|jobs|0|w-1|7000000\nb|queued|0|50000000|jobs|1|-|-\n");
    assert_string_equal(query("SELECT topic, partition, next_offset FROM mirrored WHERE partition >= 0"),
                        "jobs|0|2\nresults|0|1\n");
}

TEST(figures_of_a_result_are_those_of_its_headers)
{
    static const char *const names[] = {
        "sheaf-source-partition", "sheaf-source-offset",   "sheaf-attempts",  "sheaf-cached-tokens",
        "sheaf-queued-us",        "sheaf-prefill-us",      "sheaf-decode-us", "sheaf-forced-tokens",
        "sheaf-drafted-tokens",   "sheaf-accepted-tokens", "sheaf-duplicate", "sheaf-constrained-by"};
    static const char *const values[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "1", "regex"};
    enum { N = sizeof names / sizeof *names };
    struct header headers[N];
    for (size_t i = 0; i < N; i++)
        headers[i] = (struct header){text_from_string(names[i]), text_from_string(values[i])};
    struct record record = {.headers = headers,
                            .n_headers = N,
                            .content_type = TEXT("application/json"),
                            .value = TEXT(RESULT("a"))};
    struct job *job = job_create();
    assert_int_equal(mirror_decode_result(job, &record), STATUS_OK);
    const struct job_figures *figures = &job->figures, none = {0};
    const int64_t got[] = {job->source.partition,    job->source.offset,     figures->attempts,
                           figures->cached_tokens,   figures->queued_us,     figures->prefill_us,
                           figures->decode_us,       figures->forced_tokens, figures->drafted_tokens,
                           figures->accepted_tokens, figures->is_duplicate};
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_int_equal(got[i], strtoll(values[i], NULL, 10));
    assert_int_equal(figures->constrained_by, constraint_name_find(TEXT("regex")));
    assert_int_not_equal(figures->constrained_by, constraint_name_find((struct text){0}));
    job_destroy(job);

    record.n_headers = 0;
    job = job_create();
    assert_int_equal(mirror_decode_result(job, &record), STATUS_OK);
    assert_int_equal(job->source.partition, -1);
    assert_int_equal(job->source.offset, -1);
    assert_memory_equal(&job->figures, &none, sizeof none);
    job_destroy(job);
}

TEST(what_is_no_job_and_no_result_of_the_topic_is_skipped)
{
    add(JOBS, NULL);
    add(JOBS, JOB("a"));
    add(RESULTS, "no result");
    add_result(RESULT("b"), "w-1", "others");
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query("SELECT job_id, status FROM jobs"), "a|queued\n");
    assert_string_equal(query("SELECT topic, next_offset FROM mirrored WHERE partition >= 0"),
                        "jobs|2\nresults|2\n");
}

// Their workers are not the fleet's.
TEST(results_of_another_group_end_jobs_but_count_no_worker)
{
    add(JOBS, JOB("a"));
    add(JOBS, JOB("b"));
    for (int i = 0; i < 2; i++) {
        add_result(i ? RESULT("b") : RESULT("a"), i ? "own" : "other", "jobs");
        add_header(RESULTS, "ce_source", i ? "/sheaf/g/jobs" : "/sheaf/other/jobs");
    }
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query("SELECT job_id, status FROM jobs ORDER BY job_id"), "a|done\nb|done\n");
    assert_string_equal(query("SELECT worker FROM fleet"), "own\n");
}

TEST(a_mirror_goes_on_where_the_last_one_ended)
{
    add(JOBS, JOB("a"));
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.started[JOBS], OFFSET_UNKNOWN);
    assert_int_equal(world.started[RESULTS], OFFSET_UNKNOWN);
    add(JOBS, JOB("b"));
    add_result(RESULT("a"), "w-1", "jobs");
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.started[JOBS], 1);
    assert_int_equal(world.started[RESULTS], OFFSET_UNKNOWN);
    assert_string_equal(query("SELECT n_submitted, n_done FROM datasets"), "2|1\n");
}

TEST(the_group_s_progress_is_stored_where_it_is_known)
{
    static const char sql[] = "SELECT topic, partition, position, committed, log_end, map_covered, owner "
                              "FROM partitions";
    add(JOBS, JOB("a"));
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query(sql), "");
    world.has_standings = true;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query(sql), "jobs|0|3|3|9|0|w@host\n");
}

TEST(a_live_mirror_looks_at_the_group_every_two_seconds)
{
    config.until_end = false;
    world.has_standings = true;
    world.stop_at_poll = 21; // polls of 200 ms: looks at 0.2, 2.2 and 4.2 s
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_stores, 3);
    assert_int_equal(world.n_polls, 21);
}

TEST(an_open_transaction_at_the_end_is_an_error)
{
    add(JOBS, JOB("a"));
    world.is_end_open = true;
    assert_int_equal(run_mirror(), STATUS_REFUSE);
    assert_string_equal(error.text, "open");
    assert_string_equal(query("SELECT job_id FROM jobs"), "a\n");
    config.until_end = false;
    world.stop_at_poll = world.n_polls + 1;
    assert_int_equal(run_mirror(), STATUS_OK);
}

// ---- a store that is busy, and old rows ----

TEST(a_busy_store_is_tried_again_until_it_answers_or_the_mirror_stops)
{
    add(JOBS, JOB("a"));
    world.n_busy = 3;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_stores, 4);
    assert_string_equal(query("SELECT job_id FROM jobs"), "a\n");
    add(JOBS, JOB("b"));
    world.n_busy = 1000;
    world.stop_at_poll = world.n_polls + 1;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_stores, 5);
    assert_string_equal(query("SELECT job_id FROM jobs"), "a\n");
}

TEST(old_rows_are_compacted_once_a_minute_and_while_there_are_more)
{
    config.until_end = false;
    config.retain_s = LONG_AGO_S;
    world.n_more = 2;
    world.stop_at_poll = 310; // polls of 200 ms: 62 s
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_compactions, 4);
    assert_true(world.compacted_before_us == (5000 - LONG_AGO_S) * INT64_C(1000000));
    world.n_compactions = 0;
    config.retain_s = 0;
    world.stop_at_poll = world.n_polls + 10;
    world.is_stopped = false;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_compactions, 0);
}

// ---- topics that were made again ----

static void mirror_one_of_each(void)
{
    add(JOBS, JOB("a"));
    add_result(RESULT("a"), "w-1", "jobs");
    assert_int_equal(run_mirror(), STATUS_OK);
    world.n_stores = 0;
}

TEST(another_record_at_the_last_ones_place_is_another_topic)
{
    for (int topic = 0; topic < N_TOPICS; topic++)
        for (int is_shorter = 0; is_shorter < 2; is_shorter++) {
            char expected[128];
            fresh_world(NULL);
            mirror_one_of_each();
            if (is_shorter)
                world.places[topic] = KAFKA_PLACE_NONE;
            else
                world.records[topic][0].value = topic ? RESULT("x") : JOB("x");
            snprintf(expected, sizeof expected, "topic %s was recreated since it was mirrored",
                     topics[topic]);
            assert_int_equal(run_mirror(), STATUS_REFUSE);
            assert_memory_equal(error.text, expected, strlen(expected));
            assert_int_equal(world.n_stores, 0);
        }
}

TEST(a_record_that_retention_deleted_says_nothing_of_its_topic)
{
    mirror_one_of_each();
    add(JOBS, JOB("b"));
    world.places[JOBS] = world.places[RESULTS] = KAFKA_PLACE_DELETED;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_string_equal(query("SELECT n_submitted FROM datasets"), "2\n");
}

TEST(while_a_topic_is_absent_nothing_is_stored)
{
    mirror_one_of_each();
    add(JOBS, JOB("b"));
    world.n_absent = 3;
    int64_t began_ms = world.now_ms;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_stores, 1);
    assert_in_range(world.now_ms - began_ms, 6000, 8000); // looked again every two seconds
    assert_string_equal(query("SELECT n_submitted FROM datasets"), "2\n");
}

TEST(a_doubt_is_dispelled_by_the_record_that_is_still_there)
{
    mirror_one_of_each();
    config.until_end = false;
    world.has_standings = true;
    world.doubt_at_poll = world.n_polls + 5;
    world.stop_at_poll = world.n_polls + 21;
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_stores, 3); // as without it
    assert_int_equal(world.n_looks, 4);  // two at the start
}

TEST(without_a_doubt_topics_are_compared_every_half_minute)
{
    mirror_one_of_each();
    config.until_end = false;
    world.stop_at_poll = world.n_polls + 320; // of 200 ms
    assert_int_equal(run_mirror(), STATUS_OK);
    assert_int_equal(world.n_looks, 6); // both topics at the start, after 30 and 60 s
}

TEST(a_topic_made_again_meanwhile_ends_a_live_mirror)
{
    mirror_one_of_each();
    config.until_end = false;
    world.doubt_at_poll = world.n_polls + 5;
    world.stop_at_poll = world.n_polls + 50;
    world.changed = JOB("x");
    assert_int_equal(run_mirror(), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "topic jobs was recreated"));
    assert_int_equal(world.n_polls, world.doubt_at_poll);
    assert_int_equal(world.n_stores, 0);
}

TEST_FIXTURE(fresh_world, NULL);
GROUP_FIXTURE(make_folder, remove_folder);

// Records of results and dead letters: keys, headers, sizes and what is left out of those that are too large;
// and the producer that sends them (consumer/queue/kafka/kafka_publish.c). Sending is this program's.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { START_MS = 1000000, SENT_MAX = 4, LONG_BYTES = 30000 };

struct sent_record {
    const char *topic;
    char key[512], value[512]; // their beginnings; "-": none
    size_t value_size, bytes;
    char headers[4096]; // "name=value;"
    void *opaque;
};

static struct {
    int64_t now_ms;
    struct sent_record sent[SENT_MAX];
    int n_sent;
    rd_kafka_resp_err_t code; // of the next n_codes records
    int n_codes, n_polls, n_flushes, flush_timeout_ms;
    rd_kafka_resp_err_t flush_code;
    bool refuses; // the flush brings a delivery report of INVALID_RECORD
    size_t results_bytes_max, dead_bytes_max;
    rd_kafka_resp_err_t init;
    bool is_retriable;
    int init_timeout_ms, n_topics, n_closed, n_opened, n_turns;
    char message_bytes[32];
    enum status opening;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct job *job;
static struct error error;
static char client, results_topic, dead_topic;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

// ---- sending ----

static void keep_text(char out[512], const void *data, size_t size)
{
    snprintf(out, 512, "%.*s", data ? (int)(size < 511 ? size : 511) : 1, data ? (const char *)data : "-");
}

static void keep_headers(struct sent_record *record, const rd_kafka_headers_t *headers)
{
    const char *name;
    const void *value;
    size_t size, at = 0;
    for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &size); i++) {
        record->bytes += strlen(name) + size + 10;
        if (at < sizeof record->headers - 300)
            at += (size_t)snprintf(record->headers + at, 256, "%s=%.*s;", name, (int)(size < 99 ? size : 99),
                                   value ? (const char *)value : "");
    }
}

rd_kafka_resp_err_t __wrap_rd_kafka_producev(rd_kafka_t *rk, ...)
{
    struct sent_record *record = &world.sent[world.n_sent];
    rd_kafka_headers_t *headers = NULL;
    va_list list;
    assert_ptr_equal(rk, &client);
    assert_true(world.n_sent < SENT_MAX);
    memset(record, 0, sizeof *record);
    va_start(list, rk);
    for (rd_kafka_vtype_t type; (type = va_arg(list, rd_kafka_vtype_t)) != RD_KAFKA_VTYPE_END;) {
        const void *data;
        size_t size;
        switch (type) {
        case RD_KAFKA_VTYPE_RKT:
            data = va_arg(list, void *);
            record->topic = data == &results_topic ? "results" : data == &dead_topic ? "dead" : "?";
            break;
        case RD_KAFKA_VTYPE_KEY:
        case RD_KAFKA_VTYPE_VALUE:
            data = va_arg(list, void *);
            size = va_arg(list, size_t);
            keep_text(type == RD_KAFKA_VTYPE_KEY ? record->key : record->value, data, size);
            record->value_size = type == RD_KAFKA_VTYPE_VALUE ? size : record->value_size;
            record->bytes += size;
            break;
        case RD_KAFKA_VTYPE_MSGFLAGS:
            assert_int_equal(va_arg(list, int), RD_KAFKA_MSG_F_COPY);
            break;
        case RD_KAFKA_VTYPE_HEADERS:
            headers = va_arg(list, rd_kafka_headers_t *);
            break;
        case RD_KAFKA_VTYPE_OPAQUE:
            record->opaque = va_arg(list, void *);
            break;
        default:
            fail_msg("type %d", (int)type);
        }
    }
    va_end(list);
    keep_headers(record, headers);
    if (world.n_codes > 0) {
        world.n_codes--;
        return world.code;
    }
    rd_kafka_headers_destroy(headers); // the library's now
    world.n_sent++;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

int __wrap_rd_kafka_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    world.now_ms += timeout_ms;
    world.n_polls++;
    return 0;
}

rd_kafka_resp_err_t __wrap_rd_kafka_flush(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    world.n_flushes++;
    world.flush_timeout_ms = timeout_ms;
    if (world.refuses)
        kafka_refusals_add(&kafka.publishing.refusals, world.sent[world.n_sent - 1].opaque,
                           RD_KAFKA_RESP_ERR_INVALID_RECORD, "results", 1);
    return world.flush_code;
}

// ---- the producer ----

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *conf, struct error *fault)
{
    size_t size = sizeof world.message_bytes;
    assert_ptr_equal(of, &config);
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_ptr_equal(handle->owner, &kafka);
    assert_int_equal(role, KAFKA_TRANSACTIONAL);
    assert_int_equal(rd_kafka_conf_get(conf, "message.max.bytes", world.message_bytes, &size),
                     RD_KAFKA_CONF_OK);
    rd_kafka_conf_destroy(conf);
    world.n_opened++;
    if (world.opening != STATUS_OK)
        return error_set(fault, world.opening, ERROR_BROKER, "no producer");
    handle->rk = (rd_kafka_t *)&client;
    return STATUS_OK;
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(deadline_ms, world.now_ms + 2000);
    assert_int_equal(world.n_topics, 0); // of the client
    handle->rk = NULL;
    world.n_closed++;
}

void __wrap_kafka_handle_serve(struct kafka_handle *handle)
{
    snprintf(handle->last_error, sizeof handle->last_error, "no route");
}

rd_kafka_error_t *__wrap_rd_kafka_init_transactions(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    world.init_timeout_ms = timeout_ms;
    return world.init ? rd_kafka_error_new(world.init, "as the test wants it") : NULL;
}

int __wrap_rd_kafka_error_is_retriable(const rd_kafka_error_t *fault)
{
    return fault && world.is_retriable;
}

rd_kafka_topic_t *__wrap_rd_kafka_topic_new(rd_kafka_t *rk, const char *topic, rd_kafka_topic_conf_t *conf)
{
    assert_ptr_equal(rk, &client);
    assert_null(conf);
    world.n_topics++;
    return (rd_kafka_topic_t *)(strcmp(topic, "results") == 0 ? &results_topic : &dead_topic);
}

void __wrap_rd_kafka_topic_destroy(rd_kafka_topic_t *topic)
{
    assert_non_null(topic);
    world.n_topics--;
}

void __wrap_kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                      struct kafka_topic_settings *settings)
{
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_int_equal(timeout_ms, 1000);
    *settings = (struct kafka_topic_settings){
        .bytes_max = strcmp(topic, "results") == 0 ? world.results_bytes_max : world.dead_bytes_max};
}

bool __wrap_kafka_metadata_turn(struct kafka_metadata *metadata)
{
    assert_ptr_equal(metadata, &kafka.hindrance.metadata);
    assert_true(metadata->is_urgent);
    world.n_turns++;
    return false;
}

// ---- the test ----

static int begin(void **state)
{
    static const char record[] = "{\"job_id\":\"a\",\"dataset\":\"d\",\"prompt\":\"p\"}";
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .group.name = "workers",
                                   .worker = "w",
                                   .topics = {.jobs = "jobs", .results = "results", .dead = "dead"}};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = kafka.clients.producer.config = &config;
    kafka.clients.producer.rk = (rd_kafka_t *)&client;
    snprintf(kafka.identity.id, sizeof kafka.identity.id, "workers-a");
    kafka.publishing.outputs = (struct kafka_outputs){.results = (rd_kafka_topic_t *)&results_topic,
                                                      .dead = (rd_kafka_topic_t *)&dead_topic,
                                                      .results_bytes_max = 20000,
                                                      .dead_bytes_max = 20000};
    kafka.hindrance.metadata.topics[KAFKA_TOPIC_RESULTS].name = "results";
    kafka.hindrance.metadata.topics[KAFKA_TOPIC_DEAD].name = "dead";
    error = (struct error){0};
    assert_ok(kafka_refusals_begin(&kafka.publishing.refusals, 8, &error), &error);
    job = job_create();
    assert_ok(job_decode(job, text_from_string(record), ENCODING_JSON, &error), &error);
    job->source.topic = TEXT("jobs");
    job->source.partition = 3;
    job->source.offset = 44;
    job->source.encoding = ENCODING_JSON;
    return 0;
}

static int end(void **state)
{
    job_destroy(job);
    kafka_refusals_end(&kafka.publishing.refusals);
    buffer_finish(&kafka.publishing.scratch.value);
    return 0;
}

static void answer_with(const char *text, size_t size)
{
    static struct choice choice;
    choice = (struct choice){.text = {text, size}, .finish_reason = FINISH_STOP, .n_tokens = 1};
    job->result.status = RESULT_DONE;
    job->result.choices = &choice;
    job->result.n_choices = 1;
}

static enum status publish(void)
{
    world.n_sent = 0;
    return kafka_publish_job(&kafka, job, 5, world.now_ms + 1000, &error);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("\"%s\" has \"%s\"", text, part);
}

// ---- results ----

TEST(a_result_has_its_job_s_key_and_place)
{
    answer_with("yes", 3);
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.n_sent, 1);
    assert_string_equal(world.sent[0].topic, "results");
    assert_string_equal(world.sent[0].key, "a"); // its id: a compacted topic refuses records without a key
    assert_has(world.sent[0].value, "\"job_id\":\"a\"");
    assert_has(world.sent[0].value, "yes");
    assert_has(world.sent[0].headers, "ce_id=3-44;");
    assert_has(world.sent[0].headers, "sheaf-worker=w;");
    assert_ptr_equal(world.sent[0].opaque, kafka_refusals_opaque(&kafka.publishing.refusals, 5));
    job->source.key = TEXT("key");
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "key");
}

TEST(a_result_as_large_as_the_topic_takes_is_sent_and_a_larger_one_is_an_error)
{
    static char text[LONG_BYTES];
    memset(text, 'x', sizeof text);
    answer_with(text, 1000);
    assert_int_equal(publish(), STATUS_OK);
    size_t bytes = world.sent[0].bytes + 128;
    kafka.publishing.outputs.results_bytes_max = bytes;
    assert_int_equal(publish(), STATUS_OK);
    assert_has(world.sent[0].value, "xxx");
    assert_int_equal(kafka.figures.records.n_oversize, 0);
    kafka.publishing.outputs.results_bytes_max = bytes - 1;
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(job->result.error.code, ERROR_RESULT_TOO_LARGE);
    assert_lacks(world.sent[0].value, "xxx");
    assert_has(world.sent[0].value, "\"status\":\"failed\"");
    assert_has(job->result.error.text, "bytes do not fit topic results, which takes");
    assert_int_equal(kafka.figures.records.n_oversize, 1);
    assert_string_equal(world.sent[0].key, "a");
}

TEST(an_error_that_is_too_large_is_sent_without_its_job_s_key_and_headers)
{
    static char key[LONG_BYTES];
    static struct header trace = {{"traceparent", 11}, {"trace", 5}};
    memset(key, 'k', sizeof key);
    job->source.key = (struct text){key, sizeof key};
    job->source.headers = &trace;
    job->source.n_headers = 1;
    assert_true(job_warn(job, "a warning"));
    answer_with("yes", 3);
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "a");
    assert_lacks(world.sent[0].value, "a warning");
    assert_lacks(world.sent[0].headers, "traceparent");
    assert_int_equal(job->result.error.code, ERROR_RESULT_TOO_LARGE);
    assert_true(world.sent[0].bytes < 20000);
}

TEST(a_result_repeats_the_headers_that_its_worker_passes)
{
    static struct header given[] = {{{"b3", 2}, {"0", 1}}, {{"order", 5}, {"9", 1}}, {{"x", 1}, {"y", 1}}};
    struct kafka_config passing = *kafka.config;
    answer_with("yes", 3);
    job->source.headers = given;
    job->source.n_headers = 3;
    assert_int_equal(publish(), STATUS_OK);
    assert_has(world.sent[0].headers, "b3=0;");
    assert_lacks(world.sent[0].headers, "order=");
    passing.pass_headers = "order";
    const struct kafka_config *before = kafka.config;
    kafka.config = &passing;
    assert_int_equal(publish(), STATUS_OK);
    kafka.config = before;
    assert_has(world.sent[0].headers, "b3=0;order=9;");
    assert_lacks(world.sent[0].headers, "x=y");
}

TEST(a_result_that_was_refused_often_goes_without_key_and_headers)
{
    static struct header trace = {{"traceparent", 11}, {"trace", 5}};
    answer_with("yes", 3);
    job->source.key = TEXT("key");
    job->source.headers = &trace;
    job->source.n_headers = 1;
    job->source.refusals = 2 * KAFKA_REFUSALS_MAX - 1;
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "key");
    assert_has(world.sent[0].headers, "traceparent=trace;");
    job->source.refusals++;
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "a");
    assert_lacks(world.sent[0].headers, "traceparent");
}

// ---- dead letters ----

static struct header own_headers[] = {{{"x", 1}, {"y", 1}}, {{"z", 1}, {"", 0}}};

static void be_dead(struct text record)
{
    struct error bad;
    (void)error_set(&bad, STATUS_REJECT, ERROR_INVALID_ENCODING, "no JSON");
    job_fail(job, &bad);
    job->source.record = record;
    job->source.key = TEXT("key");
    job->source.headers = own_headers;
    job->source.n_headers = 2;
}

TEST(a_record_that_can_t_be_decoded_is_a_dead_letter_and_has_a_result)
{
    be_dead(TEXT("what it was"));
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.n_sent, 2);
    assert_string_equal(world.sent[0].topic, "dead");
    assert_string_equal(world.sent[0].key, "key");
    assert_string_equal(world.sent[0].value, "what it was");
    assert_memory_equal(world.sent[0].headers, "x=y;z=;__sheaf", 14); // its own ones first
    assert_has(world.sent[0].headers, "__sheaf.errors.offset=44;");
    assert_has(world.sent[0].headers, "__sheaf.errors.message=no JSON;");
    assert_lacks(world.sent[0].headers, "omitted");
    assert_string_equal(world.sent[1].topic, "results");
    assert_ptr_equal(world.sent[0].opaque, world.sent[1].opaque);
    job->job_id = (struct text){0}; // nobody can ask for its result
    job->source.record = (struct text){0};
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.n_sent, 1);
    assert_string_equal(world.sent[0].topic, "dead");
    assert_string_equal(world.sent[0].value, "-");
}

TEST(a_dead_letter_on_a_compacted_topic_has_its_place_for_a_key)
{
    be_dead(TEXT("what it was"));
    job->source.has_more_headers = true;
    kafka.publishing.outputs.dead_is_compacted = true;
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "jobs-3-44");
    assert_string_equal(world.sent[0].value, "what it was");
    assert_has(world.sent[0].headers, "omitted=headers beyond the 1024th;");
}

TEST(a_dead_letter_leaves_out_what_the_topic_does_not_take)
{
    static char text[LONG_BYTES];
    memset(text, 'x', sizeof text);
    be_dead((struct text){text, 500});
    assert_int_equal(publish(), STATUS_OK);
    kafka.publishing.outputs.dead_bytes_max = world.sent[0].bytes + 128;
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.sent[0].value_size, 500);
    kafka.publishing.outputs.dead_bytes_max--;
    job->source.has_more_headers = true;
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.sent[0].value_size, 0);
    assert_string_equal(world.sent[0].key, "key");
    assert_has(world.sent[0].headers, "x=y;");
    assert_has(world.sent[0].headers, "omitted=value, headers beyond the 1024th;");
    assert_int_equal(kafka.figures.records.n_oversize, 1);
    job->source.has_more_headers = false;
    assert_int_equal(publish(), STATUS_OK);
    assert_has(world.sent[0].headers, "omitted=value;");
    job->source.key = (struct text){text, sizeof text};
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "jobs-3-44");
    assert_string_equal(world.sent[0].value, "-");
    assert_lacks(world.sent[0].headers, "x=y;");
    assert_has(world.sent[0].headers, "omitted=value, key, headers;");
}

TEST(a_dead_letter_that_was_refused_often_is_its_place_alone)
{
    be_dead(TEXT("what it was"));
    job->source.refusals = 2 * KAFKA_REFUSALS_MAX;
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].key, "jobs-3-44");
    assert_string_equal(world.sent[0].value, "-");
    assert_has(world.sent[0].headers, "omitted=value, key, headers;");
    assert_int_equal(kafka.figures.records.n_oversize, 0);
}

TEST(a_job_that_is_given_up_keeps_its_record)
{
    struct error refused;
    (void)error_set(&refused, STATUS_REJECT, ERROR_RESULT_REFUSED, "refused three times");
    answer_with("yes", 3);
    assert_ok(kafka_publish_give_up(&kafka, job, &refused, &error), &error);
    assert_int_equal(job->result.error.code, ERROR_RESULT_REFUSED);
    assert_int_equal(publish(), STATUS_OK);
    assert_string_equal(world.sent[0].topic, "dead");
    assert_has(world.sent[0].value, "\"prompt\":\"p\"");
    assert_ok(kafka_publish_give_up(&kafka, job, &refused, &error), &error); // it is one already
    assert_has(job->source.record.data, "\"prompt\":\"p\"");
}

// ---- sending ----

TEST(a_full_queue_is_waited_for_until_the_deadline)
{
    answer_with("yes", 3);
    world.code = RD_KAFKA_RESP_ERR__QUEUE_FULL;
    world.n_codes = 3;
    assert_int_equal(publish(), STATUS_OK);
    assert_int_equal(world.n_polls, 3);
    assert_int_equal(world.n_sent, 1);
    world.n_codes = 1000;
    assert_int_equal(publish(), STATUS_RETRY);
    assert_int_equal(world.n_polls, 3 + 100);
    assert_int_equal(kafka.publishing.refusals.n_records, 0);
}

TEST(a_record_that_the_client_refuses_is_the_job_s)
{
    answer_with("yes", 3);
    world.code = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    world.n_codes = 1;
    assert_int_equal(publish(), STATUS_RETRY);
    assert_has(error.text, "results: ");
    assert_int_equal(kafka.publishing.refusals.n_records, 1);
    assert_true(kafka.publishing.refusals.named[5]);
    assert_string_equal(kafka.publishing.refusals.topic, "results");
    assert_int_equal(kafka.publishing.refusals.partition, RD_KAFKA_PARTITION_UA);
    be_dead(TEXT("what it was"));
    world.n_codes = 1;
    assert_int_equal(publish(), STATUS_RETRY);
    assert_int_equal(world.n_sent, 0); // nor its result
    assert_string_equal(kafka.publishing.refusals.topic, "dead");
}

static enum status publish_alone(void)
{
    world.n_sent = 0;
    job->source.is_doubted = true;
    return kafka_publish_job_alone(&kafka, job, 5, world.now_ms + 1000, &error);
}

TEST(a_job_alone_is_waited_for)
{
    answer_with("yes", 3);
    assert_int_equal(publish_alone(), STATUS_OK);
    assert_int_equal(world.flush_timeout_ms, 1000);
    assert_false(job->source.is_doubted);
    assert_false(kafka.publishing.refusals.is_alone);
    kafka.publishing.refusals.code = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; // of the batch
    assert_int_equal(publish_alone(), STATUS_OK);
    assert_true(job->source.is_doubted);
    kafka.publishing.refusals.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.flush_code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_int_equal(publish_alone(), STATUS_RETRY);
    assert_has(error.text, "sending records one by one");
    assert_true(job->source.is_doubted);
    world.flush_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.refuses = true;
    assert_int_equal(publish_alone(), STATUS_RETRY);
    assert_int_equal(error.code, ERROR_RESULT_REFUSED);
    assert_string_equal(error.text, "topic results refused a record");
    assert_true(kafka.publishing.refusals.is_exact); // it was alone
    int n_flushes = world.n_flushes;
    world.code = RD_KAFKA_RESP_ERR__STATE;
    world.n_codes = 1;
    assert_int_equal(publish_alone(), STATUS_RETRY);
    assert_int_equal(world.n_flushes, n_flushes);
    assert_false(kafka.publishing.refusals.is_alone);
}

// ---- topics ----

TEST(missing_topics_hold_back_the_jobs_that_need_them)
{
    struct kafka_metadata_topic *topics = kafka.hindrance.metadata.topics;
    struct job *const jobs[] = {job};
    answer_with("yes", 3);
    topics[KAFKA_TOPIC_DEAD].n_missing = 100;
    assert_true(kafka_metadata_is_missing(&topics[KAFKA_TOPIC_DEAD]));
    assert_ok(kafka_publish_check_topics(&kafka, jobs, 1, &error), &error);
    job->source.record = TEXT("x");
    assert_int_equal(kafka_publish_check_topics(&kafka, jobs, 1, &error), STATUS_RETRY);
    assert_string_equal(error.text, "Kafka at broker:9092 has no topic dead any more");
    assert_ok(kafka_publish_check_topics(&kafka, jobs, 0, &error), &error);
    topics[KAFKA_TOPIC_DEAD].n_missing = 0;
    assert_ok(kafka_publish_check_topics(&kafka, jobs, 1, &error), &error);
    topics[KAFKA_TOPIC_RESULTS].n_missing = 100;
    assert_int_equal(kafka_publish_check_topics(&kafka, jobs, 1, &error), STATUS_RETRY);
    assert_has(error.text, "no topic results any more");
}

TEST(a_topic_with_other_partitions_than_at_the_begin_is_lost)
{
    struct kafka_metadata_topic *topics = kafka.hindrance.metadata.topics;
    topics[KAFKA_TOPIC_RESULTS].n_partitions = 4;
    kafka_publish_note_topics(&kafka);
    assert_null(kafka_publish_find_lost(&kafka));
    assert_int_equal(world.n_turns, 1);
    topics[KAFKA_TOPIC_DEAD].n_partitions = 7; // not known before
    assert_null(kafka_publish_find_lost(&kafka));
    topics[KAFKA_TOPIC_RESULTS].n_partitions = 5;
    assert_string_equal(kafka_publish_find_lost(&kafka), "results");
    kafka_publish_note_topics(&kafka);
    assert_null(kafka_publish_find_lost(&kafka));
    topics[KAFKA_TOPIC_DEAD].n_missing = 100;
    assert_string_equal(kafka_publish_find_lost(&kafka), "dead");
}

TEST(limits_that_were_lowered_are_taken)
{
    world.results_bytes_max = 19999;
    world.dead_bytes_max = 20001; // the producer's is lower
    assert_ok(kafka_publish_read_limits(&kafka, &error), &error);
    assert_int_equal(kafka.publishing.outputs.results_bytes_max, 19999);
    assert_int_equal(kafka.publishing.outputs.dead_bytes_max, 20000);
    world.dead_bytes_max = KAFKA_TOPIC_BYTES_MIN - 1;
    assert_int_equal(kafka_publish_read_limits(&kafka, &error), STATUS_REFUSE);
    assert_has(error.text, "dead");
    world.dead_bytes_max = KAFKA_TOPIC_BYTES_MIN;
    assert_ok(kafka_publish_read_limits(&kafka, &error), &error);
    assert_int_equal(kafka.publishing.outputs.dead_bytes_max, KAFKA_TOPIC_BYTES_MIN);
}

// ---- the producer ----

static void be_closed(void)
{
    kafka.clients.producer.rk = NULL;
    kafka.clients.producer.owner = NULL;
    kafka.publishing.outputs.results = kafka.publishing.outputs.dead = NULL;
}

TEST(a_batch_is_no_larger_than_any_topic_takes)
{
    static struct kafka_property least = {"message.max.bytes", "16384"};
    be_closed();
    kafka.publishing.outputs.dead_bytes_max = 18000;
    assert_ok(kafka_publish_open(&kafka, 700, &error), &error);
    assert_string_equal(world.message_bytes, "18000");
    assert_int_equal(kafka.publishing.outputs.results_bytes_max, 18000);
    assert_int_equal(kafka.publishing.outputs.dead_bytes_max, 18000);
    assert_int_equal(world.init_timeout_ms, 700);
    assert_true(kafka.publishing.transaction_timeout_ms > 0);
    assert_int_equal(world.n_topics, 2);
    be_closed();
    kafka.publishing.outputs.results_bytes_max = kafka.publishing.outputs.dead_bytes_max = 2000000000;
    assert_ok(kafka_publish_open(&kafka, 700, &error), &error);
    assert_string_equal(world.message_bytes, "1000000000"); // the client's limit
    be_closed();
    config.properties = &least;
    config.n_properties = 1;
    assert_ok(kafka_publish_open(&kafka, 700, &error), &error);
    assert_string_equal(world.message_bytes, "16384");
    assert_int_equal(kafka.publishing.outputs.results_bytes_max, 16384);
    be_closed();
    least.value = "16383";
    assert_int_equal(kafka_publish_open(&kafka, 700, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    assert_has(error.text, "-X message.max.bytes=16383: expected at least 16384");
    least = (struct kafka_property){"no.such.property", "1"};
    assert_int_equal(kafka_publish_open(&kafka, 700, &error), STATUS_REFUSE);
    config.n_properties = 0;
    world.opening = STATUS_REFUSE;
    assert_int_equal(kafka_publish_open(&kafka, 700, &error), STATUS_REFUSE);
    assert_null(kafka.publishing.outputs.results);
}

TEST(a_new_producer_replaces_the_old_one)
{
    static const struct kafka_property timeout = {"transaction.timeout.ms", "12345"};
    world.n_topics = 2;
    config.properties = &timeout;
    config.n_properties = 1;
    assert_ok(kafka_publish_open(&kafka, 700, &error), &error);
    assert_int_equal(world.n_closed, 1);
    assert_int_equal(world.n_opened, 1);
    assert_int_equal(world.n_topics, 2);
    assert_int_equal(kafka.publishing.transaction_timeout_ms, 12345);
    kafka_publish_close(&kafka, world.now_ms + 2000);
    assert_int_equal(world.n_topics, 0);
    kafka_publish_close(&kafka, world.now_ms + 2000);
}

TEST(without_a_coordinator_the_producer_stays_and_is_asked_again)
{
    be_closed();
    world.init = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.is_retriable = true;
    assert_int_equal(kafka_publish_open(&kafka, 700, &error), STATUS_RETRY);
    assert_string_equal(error.text,
                        "Kafka at broker:9092: no transactions as workers-a: as the test wants it:"
                        " no route");
    assert_null(kafka.publishing.outputs.results);
    world.init = RD_KAFKA_RESP_ERR__STATE;
    world.is_retriable = false;
    assert_int_equal(kafka_publish_open(&kafka, 700, &error), STATUS_REFUSE);
    assert_lacks(error.text, "no route"); // the error says enough
    world.init = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_ok(kafka_publish_open(&kafka, 700, &error), &error);
    assert_int_equal(world.n_opened, 1);
    assert_int_equal(world.n_closed, 0);
}

TEST_FIXTURE(begin, end);

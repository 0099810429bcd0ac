// Jobs whose records a broker refuses: which are doubted, when one is given up, and when the topic is
// (consumer/queue/kafka/kafka_isolation.c).
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

enum { N_JOBS = 4 };

static struct {
    int n_given_up, n_limits_read;
    struct job *given_up;
    struct error why;
    enum status limits;
    char warnings[512];
    int n_warnings;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct job *jobs[N_JOBS];
static bool named[N_JOBS];
static struct error error;

enum status __wrap_kafka_publish_give_up(struct kafka_transport *of, struct job *job,
                                         const struct error *refused, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    world.n_given_up++;
    world.given_up = job;
    world.why = *refused;
    return STATUS_OK;
}

enum status __wrap_kafka_publish_read_limits(struct kafka_transport *of, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    world.n_limits_read++;
    return world.limits == STATUS_OK ? STATUS_OK : error_set(fault, world.limits, ERROR_BROKER, "limits");
}

static void keep_warning(void *context, int level, const char *line)
{
    world.n_warnings++;
    snprintf(world.warnings, sizeof world.warnings, "%s", line);
}

static int end(void **state)
{
    for (int i = 0; i < N_JOBS; i++)
        job_destroy(jobs[i]);
    return 0;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    memset(named, 0, sizeof named);
    config = (struct kafka_config){.brokers = "broker:9092", .log = keep_warning};
    kafka = (struct kafka_transport){.config = &config};
    kafka.clients.producer.config = &config;
    kafka.publishing.refusals = (struct kafka_refusals){.named = named,
                                                        .n_jobs = N_JOBS,
                                                        .code = RD_KAFKA_RESP_ERR_INVALID_RECORD,
                                                        .partition = 5,
                                                        .topic = "results"};
    error = (struct error){.status = STATUS_RETRY, .text = "before"};
    for (int i = 0; i < N_JOBS; i++) {
        jobs[i] = job_create();
        jobs[i]->source.partition = 2;
        jobs[i]->source.offset = 70 + i;
    }
    return 0;
}

static enum status count(size_t n_records)
{
    kafka.publishing.refusals.n_records = n_records;
    return kafka_isolation_count(&kafka, jobs, N_JOBS, &error);
}

TEST(without_refused_records_the_error_stays)
{
    named[1] = true;
    assert_int_equal(count(0), STATUS_RETRY);
    assert_string_equal(error.text, "before");
    assert_false(jobs[1]->source.is_doubted);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_NONE);
}

TEST(a_batch_s_records_are_doubted_and_not_counted)
{
    named[1] = named[3] = true;
    assert_int_equal(count(2), STATUS_RETRY);
    for (int i = 0; i < N_JOBS; i++) {
        assert_int_equal(jobs[i]->source.is_doubted, i % 2);
        assert_int_equal(jobs[i]->source.refusals, 0);
    }
    assert_int_equal(error.code, ERROR_RESULT_REFUSED);
    assert_non_null(
        strstr(error.text, "Kafka at broker:9092: topic results partition 5 refused a batch of 2 records: "));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.records.n_refused, 2);
    assert_int_equal(world.n_limits_read, 0);
    assert_int_equal(kafka.stopped.status, STATUS_OK);
}

TEST(named_records_are_counted_each)
{
    named[0] = named[2] = true;
    kafka.publishing.refusals.is_exact = true;
    kafka.publishing.transaction.phase = TRANSACTION_ABORTING;
    assert_int_equal(count(2), STATUS_RETRY);
    for (int i = 0; i < N_JOBS; i++) {
        assert_int_equal(jobs[i]->source.is_doubted, i % 2 == 0);
        assert_int_equal(jobs[i]->source.refusals, i % 2 == 0);
    }
    assert_non_null(strstr(error.text, "refused each of 2 records: "));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_ABORTING); // it has its own end
}

// Alone three times: an error in its place; three times more: an error without its key; then the end.
TEST(a_job_is_given_up_after_three_refusals_and_the_topic_after_nine)
{
    named[1] = true;
    for (int i = 1; i <= 9; i++) {
        error = (struct error){.status = STATUS_RETRY};
        enum status status = count(1);
        assert_int_equal(jobs[1]->source.refusals, i);
        assert_int_equal(world.n_given_up, i >= 3);
        assert_int_equal(world.n_warnings, i >= 3);
        assert_int_equal(status, i < 9 ? STATUS_RETRY : STATUS_REFUSE);
        if (i < 9)
            assert_non_null(strstr(error.text, "refused each of 1 record: "));
        assert_int_equal(kafka.figures.records.n_refused, i < 9 ? i : 8);
    }
    assert_ptr_equal(world.given_up, jobs[1]);
    assert_int_equal(world.why.status, STATUS_REJECT);
    assert_int_equal(world.why.code, ERROR_RESULT_REFUSED);
    assert_non_null(strstr(world.why.text, "topic results refused the job's record 3 times: "));
    assert_non_null(strstr(world.warnings, "job at partition 2 offset 71 fails: topic results refused"));
    assert_non_null(
        strstr(error.text, "topic results refuses even an error without its job's key and headers: "));
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
}

TEST(eight_jobs_in_a_row_are_given_up_with_a_ninth_the_topic_is_at_fault)
{
    named[0] = true;
    for (int i = 1; i <= KAFKA_GIVEN_UP_MAX + 1; i++) {
        jobs[0]->source.refusals = KAFKA_REFUSALS_MAX - 1;
        error = (struct error){.status = STATUS_RETRY};
        assert_int_equal(count(1), i <= KAFKA_GIVEN_UP_MAX ? STATUS_RETRY : STATUS_REFUSE);
        assert_int_equal(world.n_given_up, i <= KAFKA_GIVEN_UP_MAX ? i : KAFKA_GIVEN_UP_MAX);
        assert_int_equal(kafka.publishing.refusals.n_given_up, i);
    }
    assert_non_null(
        strstr(error.text, "topic results refused the results of 9 jobs in a row, 3 times each: "));
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_string_equal(kafka.stopped.text, error.text);
}

TEST(after_a_job_that_ends_the_worker_none_is_counted)
{
    named[1] = named[2] = true;
    kafka.publishing.refusals.is_exact = true;
    jobs[1]->source.refusals = 8;
    assert_int_equal(count(2), STATUS_REFUSE);
    assert_int_equal(jobs[2]->source.refusals, 0);
    assert_int_equal(kafka.figures.records.n_refused, 0);
}

TEST(a_host_s_fault_counts_for_no_record)
{
    named[1] = true;
    kafka.publishing.refusals.host_fault = RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP;
    assert_int_equal(count(1), STATUS_RETRY);
    assert_false(jobs[1]->source.is_doubted);
    assert_int_equal(jobs[1]->source.refusals, 0);
    assert_non_null(strstr(error.text, "writing to topic results partition 5"));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.records.n_refused, 0);
}

TEST(a_record_that_is_too_large_has_the_limits_read_again)
{
    static const enum status answers[] = {STATUS_OK, STATUS_RETRY, STATUS_REFUSE};
    for (int i = 0; i < 3; i++) {
        if (i)
            end(state), begin(state);
        named[1] = true;
        kafka.publishing.refusals.code = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        world.limits = answers[i];
        assert_int_equal(count(1), i < 2 ? STATUS_RETRY : STATUS_REFUSE);
        assert_int_equal(world.n_limits_read, 1);
        assert_int_equal(kafka.stopped.status, i < 2 ? STATUS_OK : STATUS_REFUSE);
        assert_int_equal(kafka.publishing.transaction.phase, i < 2 ? TRANSACTION_BROKEN : TRANSACTION_NONE);
    }
}

TEST_FIXTURE(begin, end);

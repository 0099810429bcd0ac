// Delivery reports: which errors are a record's own fault. Others are the topic's, the producer's or the
// network's: no job may fail because of them.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

enum { N_JOBS = 4, INDEX = 2, PARTITION = 5 };

static struct kafka_refusals refusals;

static int begin_commit(void **state)
{
    struct error error;
    memset(&refusals, 0, sizeof refusals);
    return kafka_refusals_begin(&refusals, N_JOBS, &error) != STATUS_OK;
}

static int end_commit(void **state)
{
    kafka_refusals_end(&refusals);
    return 0;
}

static void report(rd_kafka_resp_err_t code)
{
    kafka_refusals_add(&refusals, kafka_refusals_opaque(&refusals, INDEX), code, "results", PARTITION);
}

TEST(a_record_at_fault_is_named_with_its_topic_and_code)
{
    static const rd_kafka_resp_err_t codes[] = {
        RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
        RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,
        RD_KAFKA_RESP_ERR_POLICY_VIOLATION,      RD_KAFKA_RESP_ERR_INVALID_RECORD,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        end_commit(state);
        begin_commit(state);
        report(codes[i]);
        if (refusals.n_records != 1 || refusals.code != codes[i])
            fail_msg("%s: expected a refusal", rd_kafka_err2name(codes[i]));
        for (size_t job = 0; job < N_JOBS; job++)
            assert_int_equal(refusals.named[job], job == INDEX);
        assert_string_equal(refusals.topic, "results");
        assert_int_equal(refusals.partition, PARTITION);
        assert_false(refusals.is_exact); // a batch, until the broker names one record
        assert_false(kafka_is_denial(codes[i]));
    }
}

static void assert_no_refusal(rd_kafka_resp_err_t code)
{
    report(code);
    if (refusals.n_records != 0 || refusals.named[INDEX] || refusals.is_exact)
        fail_msg("%s: expected no refusal", rd_kafka_err2name(code));
}

TEST(a_missing_right_is_no_record_s_fault)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
                                                RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                                                RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
                                                RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                                                RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_no_refusal(codes[i]);
        assert_true(kafka_is_denial(codes[i])); // it ends the worker
    }
}

TEST(a_fault_of_the_producer_or_the_network_is_no_record_s_fault)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_NO_ERROR,
                                                RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
                                                RD_KAFKA_RESP_ERR__PURGE_QUEUE,
                                                RD_KAFKA_RESP_ERR__PURGE_INFLIGHT,
                                                RD_KAFKA_RESP_ERR__TRANSPORT,
                                                RD_KAFKA_RESP_ERR__QUEUE_FULL,
                                                RD_KAFKA_RESP_ERR__FATAL,
                                                RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                                RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                                RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                                                RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                                RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
                                                RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
                                                RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_no_refusal(codes[i]);
}

TEST(a_fault_of_a_host_is_no_record_s_fault_and_is_kept_with_its_topic)
{
    static const rd_kafka_resp_err_t codes[] = {
        RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, // this host's clock
        RD_KAFKA_RESP_ERR_UNKNOWN,           // a broker's
        RD_KAFKA_RESP_ERR_INVALID_MSG,       // bytes changed on the way
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        end_commit(state);
        begin_commit(state);
        assert_int_equal(refusals.host_fault, RD_KAFKA_RESP_ERR_NO_ERROR);
        assert_no_refusal(codes[i]);
        assert_int_equal(refusals.host_fault, codes[i]);
        assert_string_equal(refusals.topic, "results");
        assert_int_equal(refusals.partition, PARTITION);
    }
}

// A record alone in its batch, and one beside others: neither is known to be at fault.
TEST(where_a_host_is_at_fault_no_record_is_doubted)
{
    refusals.is_alone = true;
    report(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP);
    assert_int_equal(refusals.n_records, 0);
    assert_false(refusals.is_exact);
}

// Since librdkafka 2.6 the others of its batch have this error.
TEST(a_record_beside_a_refused_one_is_not_refused_and_makes_the_report_exact)
{
    enum { INVALID_DIFFERENT_RECORD = -138 };
    report((rd_kafka_resp_err_t)INVALID_DIFFERENT_RECORD);
    assert_int_equal(refusals.n_records, 0);
    assert_false(refusals.named[INDEX]);
    assert_true(refusals.is_exact);
}

TEST(a_record_that_was_sent_alone_is_exactly_known)
{
    refusals.is_alone = true;
    report(RD_KAFKA_RESP_ERR_INVALID_RECORD);
    assert_true(refusals.is_exact);
    assert_true(refusals.named[INDEX]);
}

TEST(reports_of_another_commit_are_ignored)
{
    const void *late = kafka_refusals_opaque(&refusals, INDEX);
    uint32_t commit_id = refusals.commit_id;
    struct error error;
    kafka_refusals_end(&refusals);
    kafka_refusals_add(&refusals, late, RD_KAFKA_RESP_ERR_INVALID_RECORD, "results", 0);
    assert_int_equal(refusals.n_records, 0);
    assert_ok(kafka_refusals_begin(&refusals, N_JOBS, &error), &error);
    assert_true(refusals.commit_id != commit_id);
    kafka_refusals_add(&refusals, late, RD_KAFKA_RESP_ERR_INVALID_RECORD, "results", 0);
    kafka_refusals_add(&refusals, kafka_refusals_opaque(&refusals, N_JOBS), RD_KAFKA_RESP_ERR_INVALID_RECORD,
                       "results", 0);
    assert_int_equal(refusals.n_records, 0);
}

TEST_FIXTURE(begin_commit, end_commit);

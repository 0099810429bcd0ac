// Brokers in this process, which librdkafka has for its own tests: records, transactions and errors on
// demand, in milliseconds. They have no settings of topics, and delete nothing.
#pragma once

#include "consumer/queue/kafka/client/kafka_handle.h"

#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Requests, by their numbers in Kafka's protocol.
enum mock_request {
    MOCK_PRODUCE = 0,
    MOCK_LIST_OFFSETS = 2,
    MOCK_OFFSET_FETCH = 9,
    MOCK_INIT_PRODUCER_ID = 22,
    MOCK_END_TRANSACTION = 26
};

struct mock_brokers {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
    struct kafka_config config; // of "jobs", "results", "dead" and "control"
};

static inline void mock_cluster_start(struct mock_brokers *brokers, int n_brokers)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0); // a client without brokers
    brokers->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    assert_non_null(brokers->rk);
    brokers->cluster = rd_kafka_mock_cluster_new(brokers->rk, n_brokers);
    assert_non_null(brokers->cluster);
    brokers->config = (struct kafka_config){
        .brokers = rd_kafka_mock_cluster_bootstraps(brokers->cluster),
        .topics = {.jobs = "jobs", .results = "results", .dead = "dead", .control = "control"},
        .group.name = "workers"};
}

static inline void mock_brokers_start(struct mock_brokers *brokers)
{
    mock_cluster_start(brokers, 1);
}

static inline void mock_brokers_stop(struct mock_brokers *brokers)
{
    rd_kafka_mock_cluster_destroy(brokers->cluster);
    rd_kafka_destroy(brokers->rk);
}

static inline void mock_topic(struct mock_brokers *brokers, const char *name, int n_partitions)
{
    assert_int_equal(rd_kafka_mock_topic_create(brokers->cluster, name, n_partitions, 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
}

// Response to each query about the topic; unknown topics are created otherwise.
static inline void mock_missing(struct mock_brokers *brokers, const char *name)
{
    mock_topic(brokers, name, 1);
    rd_kafka_mock_topic_set_error(brokers->cluster, name, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}

// The next request of the kind is answered with the code.
static inline void mock_answer(struct mock_brokers *brokers, enum mock_request request,
                               rd_kafka_resp_err_t code)
{
    rd_kafka_mock_push_request_errors(brokers->cluster, (int16_t)request, 1, code);
}

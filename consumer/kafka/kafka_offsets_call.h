// rd_kafka_send_offsets_to_transaction with a time limit of ours: librdkafka does not check the call's own one
// while it waits for the group's coordinator (2.0 to 2.14, its issue 5456), and an outage that ended at the wrong
// instant left a worker waiting until the broker closed the connection. Internal to consumer/kafka/.
#pragma once

#include <librdkafka/rdkafka.h>

#include <stdbool.h>

struct kafka_offsets_call; // one that did not return

// NULL: the call has returned, and *fault is its result (NULL: sent). Else it still runs `patience_ms` after its
// `timeout_ms`; *fault says so (RD_KAFKA_RESP_ERR__TIMED_OUT). Then `rk` must not be destroyed: kafka_offsets_leave. Its other
// functions may be called. Offsets and group are copied.
struct kafka_offsets_call *kafka_offsets_send(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
                                              const rd_kafka_consumer_group_metadata_t *group, int timeout_ms,
                                              int patience_ms, rd_kafka_error_t **fault);

// Ends the caller's use of the call, and of its `rk` if it still runs (true): then `rk` is destroyed when the call
// returns. Topics of `rk` must be destroyed before.
bool kafka_offsets_leave(struct kafka_offsets_call *call);

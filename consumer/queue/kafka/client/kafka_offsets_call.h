// rd_kafka_send_offsets_to_transaction with a timeout of our own: librdkafka ignores the call's timeout while
// it waits for the group's coordinator (2.0 to 2.14, its issue 5456). An outage that ended at the wrong
// instant left a worker waiting until the broker closed the connection. Internal to consumer/queue/kafka/.
#pragma once

#include <librdkafka/rdkafka.h>

#include <stdbool.h>

struct kafka_offsets_call; // a call that has not returned

// Returns NULL if the call has returned: *fault is its result (NULL: sent). Otherwise the call still runs
// `patience_ms` after its `timeout_ms`, and *fault says so (RD_KAFKA_RESP_ERR__TIMED_OUT). Then `rk` must not
// be destroyed, except by kafka_offsets_leave; its other functions may be called. Offsets and group are
// copied.
struct kafka_offsets_call *kafka_offsets_send(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
                                              const rd_kafka_consumer_group_metadata_t *group, int timeout_ms,
                                              int patience_ms, rd_kafka_error_t **fault);

// Gives up the call. True: it still runs, and `rk` is destroyed when it returns; the caller must not use `rk`
// any more. Topics of `rk` must be destroyed before.
bool kafka_offsets_leave(struct kafka_offsets_call *call);

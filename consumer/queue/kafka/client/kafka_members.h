// The members of a group, from its coordinator. Internal to consumer/queue/kafka/.
//
// A request that times out while its coordinator is not connected aborts the process when the coordinator is
// connected: librdkafka's coordinator request outlives the admin request and returns its freed reference
// (rdkafka_admin.c: rd_kafka_admin_coord_request, from 2.0.2 to 2.15). So a request gets librdkafka's longest
// time, on a client of its own. If a request is not answered in the caller's time, the next call waits for
// its answer. After GIVE_UP_MS the client is destroyed, which is safe; also if the request went to a broker
// that is no longer the coordinator.
#pragma once

#include "consumer/queue/kafka/client/kafka_handle.h"

// A zeroed struct is valid and closed.
struct kafka_asking {
    struct kafka_handle handle; // opened by the first request; last_error: also why it can't be opened
    rd_kafka_queue_t *answers;
    int64_t asked_ms; // when the unanswered request was sent; 0: none
};

// Calls `receive` for each member. *is_stable becomes true if no rebalance is in progress, so that the
// assignments belong to the group's current generation. The answer belongs to a request sent by this call.
// RD_KAFKA_RESP_ERR__TIMED_OUT: no answer in time. RD_KAFKA_RESP_ERR__FAIL: no client can be opened;
// last_error of the handle has the reason.
rd_kafka_resp_err_t kafka_members(struct kafka_asking *asking, const struct kafka_config *config,
                                  int timeout_ms,
                                  void (*receive)(void *context, const rd_kafka_MemberDescription_t *member),
                                  void *context, bool *is_stable);
void kafka_asking_close(struct kafka_asking *asking, int64_t deadline_ms);

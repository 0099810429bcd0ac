// The members of a group, from its coordinator. Internal to consumer/kafka/.
#pragma once

#include "consumer/kafka/kafka_handle.h"

// Calls `tell` for each member. *is_stable: no rebalance is in progress, so the assignments are those of the
// group's generation. RD_KAFKA_RESP_ERR__TIMED_OUT: no answer in time.
rd_kafka_resp_err_t kafka_members(const struct kafka_handle *handle, const char *group, int timeout_ms,
                                  void (*tell)(void *context, const rd_kafka_MemberDescription_t *member),
                                  void *context, bool *is_stable);

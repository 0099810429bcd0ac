// What a group's coordinator says of its members. Internal to consumer/kafka/.
#pragma once

#include "consumer/kafka/kafka_handle.h"

// Calls `tell` for each member. *is_stable: no rebalance is under way, so the assignments are those of the group's
// generation. An answer that does not come in time is RD_KAFKA_RESP_ERR__TIMED_OUT.
rd_kafka_resp_err_t kafka_members(const struct kafka_handle *handle, const char *group, int timeout_ms,
                                  void (*tell)(void *context, const rd_kafka_MemberDescription_t *member), void *context,
                                  bool *is_stable);

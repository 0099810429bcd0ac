#include "consumer/kafka/kafka_members.h"

static rd_kafka_resp_err_t tell_group(rd_kafka_event_t *event,
                                      void (*tell)(void *context, const rd_kafka_MemberDescription_t *member),
                                      void *context, bool *is_stable)
{
    size_t n_groups = 0;
    const rd_kafka_ConsumerGroupDescription_t **groups =
        rd_kafka_DescribeConsumerGroups_result_groups(rd_kafka_event_DescribeConsumerGroups_result(event),
                                                      &n_groups);
    if (n_groups != 1)
        return RD_KAFKA_RESP_ERR__BAD_MSG;
    const rd_kafka_error_t *fault = rd_kafka_ConsumerGroupDescription_error(groups[0]);
    if (fault)
        return rd_kafka_error_code(fault);
    *is_stable = rd_kafka_ConsumerGroupDescription_state(groups[0]) == RD_KAFKA_CONSUMER_GROUP_STATE_STABLE;
    for (size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(groups[0]); i++)
        tell(context, rd_kafka_ConsumerGroupDescription_member(groups[0], i));
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t kafka_members(const struct kafka_handle *handle, const char *group, int timeout_ms,
                                  void (*tell)(void *context, const rd_kafka_MemberDescription_t *member),
                                  void *context, bool *is_stable)
{
    *is_stable = false;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(handle->rk);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(handle->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, NULL, 0);
    rd_kafka_DescribeConsumerGroups(handle->rk, &group, 1, options, queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, timeout_ms);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (event) {
        code = rd_kafka_event_error(event);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            code = tell_group(event, tell, context, is_stable);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    return code;
}

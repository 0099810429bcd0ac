#include "consumer/queue/kafka/client/kafka_members.h"

#include "schemas/base/clock.h"

#include <string.h>

#define CLIENT_ID "sheaf-members"

enum {
    REQUEST_TIMEOUT_MS = 3600000, // librdkafka's maximum
    GIVE_UP_MS = 20000,           // without an answer, until a new client replaces this one
};

static rd_kafka_resp_err_t read_group(rd_kafka_event_t *event,
                                      void (*receive)(void *context,
                                                      const rd_kafka_MemberDescription_t *member),
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
        receive(context, rd_kafka_ConsumerGroupDescription_member(groups[0], i));
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void kafka_asking_close(struct kafka_asking *asking, int64_t deadline_ms)
{
    if (asking->answers)
        rd_kafka_queue_destroy(asking->answers);
    asking->answers = NULL;
    asking->asked_ms = 0;
    kafka_handle_close(&asking->handle, deadline_ms);
}

static bool open_client(struct kafka_asking *asking, const struct kafka_config *config)
{
    struct error error;
    asking->handle.config = config;
    asking->handle.last_error[0] = '\0';
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_ADMIN, CLIENT_ID, &error);
    if (!conf || kafka_handle_open(&asking->handle, config, KAFKA_ADMIN, conf, &error) != STATUS_OK) {
        memcpy(asking->handle.last_error, error.text, sizeof asking->handle.last_error);
        return false;
    }
    asking->answers = rd_kafka_queue_new(asking->handle.rk);
    return true;
}

static void send_request(struct kafka_asking *asking, const char *group)
{
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(asking->handle.rk, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_AdminOptions_set_request_timeout(options, REQUEST_TIMEOUT_MS, NULL, 0);
    rd_kafka_DescribeConsumerGroups(asking->handle.rk, &group, 1, options, asking->answers);
    rd_kafka_AdminOptions_destroy(options);
    asking->asked_ms = clock_ms();
}

static rd_kafka_event_t *await_answer(struct kafka_asking *asking, int64_t deadline_ms)
{
    kafka_handle_serve(&asking->handle);
    rd_kafka_event_t *event = rd_kafka_queue_poll(asking->answers, kafka_remaining_ms(deadline_ms));
    if (event)
        asking->asked_ms = 0;
    else if (clock_ms() - asking->asked_ms > GIVE_UP_MS)
        kafka_asking_close(asking, clock_ms());
    return event;
}

rd_kafka_resp_err_t kafka_members(struct kafka_asking *asking, const struct kafka_config *config,
                                  int timeout_ms,
                                  void (*receive)(void *context, const rd_kafka_MemberDescription_t *member),
                                  void *context, bool *is_stable)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    *is_stable = false;
    if (asking->asked_ms) { // an earlier call's request, so its answer is too old
        rd_kafka_event_t *event = await_answer(asking, deadline_ms);
        if (!event)
            return RD_KAFKA_RESP_ERR__TIMED_OUT;
        rd_kafka_event_destroy(event);
    }
    if (!asking->handle.rk && !open_client(asking, config))
        return RD_KAFKA_RESP_ERR__FAIL;
    send_request(asking, config->group.name);
    rd_kafka_event_t *event = await_answer(asking, deadline_ms);
    if (!event)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = read_group(event, receive, context, is_stable);
    rd_kafka_event_destroy(event);
    // The client keeps its coordinator as long as it sends requests (librdkafka 2.0.2): a new client looks it
    // up again.
    if (code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR)
        kafka_asking_close(asking, clock_ms());
    return code;
}

// Our place in the group: as which member of which generation we commit, whether the coordinator says the
// same, and for how long there is none. A worker that is no confirmed member of its group says why
// (`waiting`), and ends with an error once that lasted for the membership timeout while the coordinator
// answered. A member without partitions is a member.
#include "consumer/kafka/kafka_members.h"
#include "consumer/kafka/kafka_transport.h"
#include "schemas/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    ASK_TIMEOUT_MS = 1000,
    // counted between two looks: a process that stood still for an hour was not refused for one
    STEP_MS_MAX = 5000,
    CURRENT_INTERVAL_MS = 1000,
};

// ---- who we are in the group ----

void kafka_drop_metadata(rd_kafka_consumer_group_metadata_t **metadata)
{
    if (*metadata)
        rd_kafka_consumer_group_metadata_destroy(*metadata);
    *metadata = NULL;
}

static bool metadata_equal(const rd_kafka_consumer_group_metadata_t *a,
                           const rd_kafka_consumer_group_metadata_t *b)
{
    void *bytes[2] = {NULL, NULL};
    size_t sizes[2];
    rd_kafka_error_t *faults[2] = {rd_kafka_consumer_group_metadata_write(a, &bytes[0], &sizes[0]),
                                   rd_kafka_consumer_group_metadata_write(b, &bytes[1], &sizes[1])};
    bool equal =
        !faults[0] && !faults[1] && sizes[0] == sizes[1] && memcmp(bytes[0], bytes[1], sizes[0]) == 0;
    for (int i = 0; i < 2; i++) {
        if (faults[i])
            rd_kafka_error_destroy(faults[i]);
        else
            rd_kafka_mem_free(NULL, bytes[i]);
    }
    return equal;
}

// The epoch of a member that the coordinator knows is above 0.
static bool has_epoch(const struct kafka_transport *kafka, const rd_kafka_consumer_group_metadata_t *metadata)
{
    char *member = rd_kafka_memberid(kafka->consumer.rk);
    bool found = member && *member;
    for (int32_t epoch = -1; epoch <= 0 && found; epoch++) {
        rd_kafka_consumer_group_metadata_t *outside =
            rd_kafka_consumer_group_metadata_new_with_genid(kafka->config->group, epoch, member, NULL);
        found = !metadata_equal(metadata, outside);
        rd_kafka_consumer_group_metadata_destroy(outside);
    }
    if (member)
        rd_kafka_mem_free(kafka->consumer.rk, member);
    return found;
}

// With KIP-848 the member's epoch grows whenever the coordinator moves partitions, also others', and no event
// says so; nor that a member has no partitions.
void kafka_refresh_membership(struct kafka_transport *kafka)
{
    if (kafka->config->protocol != GROUP_PROTOCOL_CONSUMER || kafka->assigned ||
        rd_kafka_assignment_lost(kafka->consumer.rk))
        return;
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(kafka->consumer.rk);
    if (now && has_epoch(kafka, now)) {
        kafka_drop_metadata(&kafka->membership);
        kafka->membership = now;
        now = NULL;
    }
    kafka_drop_metadata(&now);
}

static bool membership_is_current(struct kafka_transport *kafka)
{
    kafka_refresh_membership(kafka);
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(kafka->consumer.rk);
    bool is_current = now && kafka->membership && metadata_equal(now, kafka->membership);
    kafka_drop_metadata(&now);
    return is_current;
}

// What the coordinator checks is member and generation, so both must be of the assignment they are used for.
// They were taken when it came (`coming`). If they are others now, librdkafka joined the group anew while the
// assignment waited for its offsets, as it does without a word when partitions are added (2.0.2): the next
// assignment is on its way, and until it is here nothing is committed. A member that lost its place has an
// empty id, which the coordinator would not check at all.
void kafka_take_membership(struct kafka_transport *kafka)
{
    rd_kafka_t *rk = kafka->consumer.rk;
    kafka_drop_metadata(&kafka->membership);
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(rk);
    char *member = rd_kafka_memberid(rk);
    bool is_current =
        now && kafka->coming &&
        (kafka->config->protocol == GROUP_PROTOCOL_CONSUMER || metadata_equal(now, kafka->coming));
    if (is_current && member && *member && !rd_kafka_assignment_lost(rk)) {
        kafka->membership = now;
        now = NULL;
    }
    kafka_drop_metadata(&kafka->coming);
    kafka_drop_metadata(&now);
    if (member)
        rd_kafka_mem_free(rk, member);
}

// ---- is the assignment the newest? ----

struct confirmation {
    const struct kafka_transport *kafka;
    char *member;  // our id
    bool in_parts; // a cooperative member is assigned more than what it is given now
    bool agrees;
};

static void compare_assignment(void *context, const rd_kafka_MemberDescription_t *member)
{
    struct confirmation *confirmation = context;
    const rd_kafka_topic_partition_list_t *list = confirmation->kafka->assigned;
    const char *id = rd_kafka_MemberDescription_consumer_id(member);
    if (!id || strcmp(id, confirmation->member) != 0)
        return;
    const rd_kafka_topic_partition_list_t *ours =
        rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(member));
    int n_ours = ours ? ours->cnt : 0;
    confirmation->agrees = confirmation->in_parts ? n_ours >= list->cnt : n_ours == list->cnt;
    for (int i = 0; i < list->cnt && confirmation->agrees; i++)
        confirmation->agrees =
            rd_kafka_topic_partition_list_find(ours, list->elems[i].topic, list->elems[i].partition);
}

// An assignment may wait for long, behind a commit say, and librdkafka 2.0.2 joins the group again meanwhile
// when partitions are added: `coming` is then of the new generation and the assignment of the old. The
// coordinator would let us publish for partitions that are another's by now. So it is asked for our
// assignment, after `coming` was taken: if it is the same, the assignment is of that generation, or of a
// later one, in which nothing that is sent with `coming` counts. Else the next assignment, or a revocation,
// is on its way. With KIP-848 the coordinator gives a partition to nobody else before we said that it was
// revoked, so nothing is to be asked.
enum status kafka_confirm_assigned(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    struct confirmation confirmation = {.kafka = kafka,
                                        .member = rd_kafka_memberid(kafka->consumer.rk),
                                        .in_parts = kafka_is_cooperative(kafka)};
    bool is_confirmed = kafka->config->protocol == GROUP_PROTOCOL_CONSUMER;
    if (!confirmation.member || is_confirmed) {
        if (confirmation.member)
            rd_kafka_mem_free(kafka->consumer.rk, confirmation.member);
        return STATUS_OK;
    }
    bool is_stable;
    rd_kafka_resp_err_t code = kafka_members(&kafka->consumer, kafka->config->group, timeout_ms,
                                             compare_assignment, &confirmation, &is_stable);
    rd_kafka_mem_free(kafka->consumer.rk, confirmation.member);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY, &kafka->consumer,
                               "asking for the group's members", code);
    if (is_stable && confirmation.agrees)
        return STATUS_OK;
    return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: the group is being rebalanced",
                     kafka->config->brokers);
}

struct revocation {
    const rd_kafka_topic_partition_list_t *list;
    char *member; // our id
    bool is_anothers;
};

static void look_for_others(void *context, const rd_kafka_MemberDescription_t *member)
{
    struct revocation *revocation = context;
    const char *id = rd_kafka_MemberDescription_consumer_id(member);
    const rd_kafka_topic_partition_list_t *theirs =
        rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(member));
    if (!id || !theirs || strcmp(id, revocation->member) == 0)
        return;
    for (int i = 0; i < revocation->list->cnt; i++) {
        const rd_kafka_topic_partition_t *partition = &revocation->list->elems[i];
        bool is_theirs =
            rd_kafka_topic_partition_list_find(theirs, partition->topic, partition->partition) != NULL;
        revocation->is_anothers = revocation->is_anothers || is_theirs;
    }
}

// A cooperative group revokes partitions in the next generation, in which nobody has them: what is finished
// can be committed as its member only. But librdkafka may have joined the group again meanwhile, and another
// member have them by now: so the coordinator is asked, after the metadata was taken. Else the membership
// stays as it is, and the commit is refused.
void kafka_confirm_revoked(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                           int timeout_ms)
{
    rd_kafka_t *rk = kafka->consumer.rk;
    if (kafka->config->protocol == GROUP_PROTOCOL_CONSUMER || !kafka->membership)
        return;
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(rk);
    struct revocation revocation = {.list = list, .member = rd_kafka_memberid(rk)};
    bool is_stable = false;
    if (now && revocation.member && *revocation.member &&
        kafka_members(&kafka->consumer, kafka->config->group, timeout_ms, look_for_others, &revocation,
                      &is_stable) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        is_stable && !revocation.is_anothers) {
        kafka_drop_metadata(&kafka->membership);
        kafka->membership = now;
        now = NULL;
    }
    kafka_drop_metadata(&now);
    if (revocation.member)
        rd_kafka_mem_free(rk, revocation.member);
}

// ---- liveness ----

static bool is_member(struct kafka_transport *kafka, int64_t now_ms)
{
    if (!kafka->membership)
        kafka_refresh_membership(kafka);
    if (!kafka->membership || kafka->assigned)
        return false;
    if (now_ms - kafka->current_ms < CURRENT_INTERVAL_MS)
        return kafka->figures.is_member;
    kafka->current_ms = now_ms;
    return membership_is_current(kafka);
}

struct group_view {
    char *member; // our id
    int n_members;
    bool has_us;
};

static void count_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    struct group_view *view = context;
    const char *id = rd_kafka_MemberDescription_consumer_id(member);
    view->n_members++;
    view->has_us = view->has_us || (id && view->member && strcmp(id, view->member) == 0);
}

static bool is_unreachable(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE ||
           code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE || code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
}

// A coordinator that does not answer is a broker that is away: the time begins again.
static enum status end_outside(struct kafka_transport *kafka, struct error *error)
{
    struct group_view view = {.member = rd_kafka_memberid(kafka->consumer.rk)};
    bool is_stable;
    rd_kafka_resp_err_t code = kafka_members(&kafka->consumer, kafka->config->group, ASK_TIMEOUT_MS,
                                             count_member, &view, &is_stable);
    if (view.member)
        rd_kafka_mem_free(kafka->consumer.rk, view.member);
    if (is_unreachable(code)) {
        (void)kafka_error_set(error, STATUS_RETRY, &kafka->consumer, "asking for the group's members", code);
        memcpy(kafka->waiting, error->text, sizeof kafka->waiting);
        kafka->outside_ms = 0;
        return STATUS_OK;
    }
    (void)error_set(
        error, STATUS_RESTART, ERROR_BROKER,
        "no confirmed member of group %s for %lld s (--membership-timeout): %s. The group is %s and has %d members, "
        "this worker is %s of them",
        kafka->config->group, (long long)kafka->outside_ms / 1000, kafka->waiting,
        is_stable ? "stable" : "being rebalanced", view.n_members, view.has_us ? "one" : "none");
    return kafka_stop(kafka, error);
}

enum status kafka_watch_membership(struct kafka_transport *kafka, const struct error *why,
                                   struct error *error)
{
    int64_t now = clock_ms(), step = now - kafka->looked_ms;
    kafka->looked_ms = now;
    kafka->figures.is_member = is_member(kafka, now);
    if (kafka->figures.is_member || kafka_is_down(kafka)) { // poll says that no broker is up
        kafka->waiting[0] = '\0';
        kafka->outside_ms = 0;
        return STATUS_OK;
    }
    if (why->text[0])
        memcpy(kafka->waiting, why->text, sizeof kafka->waiting);
    else if (!kafka->waiting[0])
        snprintf(kafka->waiting, sizeof kafka->waiting, "Kafka at %.150s: %s %.250s", kafka->config->brokers,
                 kafka->subscribed ? "not yet a member of group" : "reading topic",
                 kafka->subscribed ? kafka->config->group : kafka->config->control);
    kafka->outside_ms += step < STEP_MS_MAX ? step : STEP_MS_MAX;
    return kafka->outside_ms < kafka->membership_timeout_ms ? STATUS_OK : end_outside(kafka, error);
}

const char *kafka_waiting(struct transport *transport)
{
    return ((struct kafka_transport *)transport)->waiting;
}

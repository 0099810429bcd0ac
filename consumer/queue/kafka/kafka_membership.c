// Membership of the group: the member id and generation of our commits, whether the coordinator confirms
// them, and the time without membership. A worker that is not a confirmed member reports the reason
// (`waiting`), and ends with an error after the membership timeout if the coordinator answered. A member
// without partitions is a member.
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    ASK_TIMEOUT_MS = 1000,
    // limit of the time counted per check: a process that was stopped for an hour was not refused for an hour
    STEP_MS_MAX = 5000,
    CURRENT_INTERVAL_MS = 1000,
};

// ---- our membership ----

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
    char *member = rd_kafka_memberid(kafka->clients.consumer.rk);
    bool found = member && *member;
    for (int32_t epoch = -1; epoch <= 0 && found; epoch++) {
        rd_kafka_consumer_group_metadata_t *outside =
            rd_kafka_consumer_group_metadata_new_with_genid(kafka->config->group.name, epoch, member, NULL);
        found = !metadata_equal(metadata, outside);
        rd_kafka_consumer_group_metadata_destroy(outside);
    }
    if (member)
        rd_kafka_mem_free(kafka->clients.consumer.rk, member);
    return found;
}

// With KIP-848 the member's epoch grows without an event whenever the coordinator moves partitions, even
// other members' partitions. A member without partitions gets no event either.
void kafka_refresh_membership(struct kafka_transport *kafka)
{
    if (kafka->config->group.protocol != GROUP_PROTOCOL_CONSUMER || kafka->group.assigned ||
        rd_kafka_assignment_lost(kafka->clients.consumer.rk))
        return;
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(kafka->clients.consumer.rk);
    if (now && has_epoch(kafka, now)) {
        kafka_drop_metadata(&kafka->group.membership);
        kafka->group.membership = now;
        now = NULL;
    }
    kafka_drop_metadata(&now);
}

static bool membership_is_current(struct kafka_transport *kafka)
{
    kafka_refresh_membership(kafka);
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(kafka->clients.consumer.rk);
    bool is_current = now && kafka->group.membership && metadata_equal(now, kafka->group.membership);
    kafka_drop_metadata(&now);
    return is_current;
}

// The coordinator checks member id and generation, so both must belong to the assignment they are used for.
// They were read with the assignment (`coming`). If they differ now, librdkafka has rejoined the group while
// the assignment waited for its offsets, as it does without an event when partitions are added (2.0.2): the
// next assignment follows, and until then nothing is committed. A member that was removed has an empty id,
// which the coordinator would not check.
void kafka_take_membership(struct kafka_transport *kafka)
{
    rd_kafka_t *rk = kafka->clients.consumer.rk;
    kafka_drop_metadata(&kafka->group.membership);
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(rk);
    char *member = rd_kafka_memberid(rk);
    bool is_current = now && kafka->group.coming &&
                      (kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER ||
                       metadata_equal(now, kafka->group.coming));
    if (is_current && member && *member && !rd_kafka_assignment_lost(rk)) {
        kafka->group.membership = now;
        now = NULL;
        slot_note_member(&kafka->identity.slot,
                         strlen(member) <= SLOT_MEMBER_BYTES_MAX ? member : SLOT_MEMBER_JOINING);
    }
    kafka_drop_metadata(&kafka->group.coming);
    kafka_drop_metadata(&now);
    if (member)
        rd_kafka_mem_free(rk, member);
}

// ---- confirming an assignment ----

struct confirmation {
    const struct kafka_transport *kafka;
    char *member;  // our id
    bool in_parts; // a cooperative member's assignment includes partitions that it kept
    bool agrees;
};

static void compare_assignment(void *context, const rd_kafka_MemberDescription_t *member)
{
    struct confirmation *confirmation = context;
    const rd_kafka_topic_partition_list_t *list = confirmation->kafka->group.assigned;
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

// An assignment may wait for long, for a commit say, and meanwhile librdkafka 2.0.2 rejoins the group if
// partitions are added: then `coming` has the new generation, but the assignment is from the old one. The
// coordinator would accept commits for partitions that another member owns by now. So our assignment is
// queried after `coming` was read: if it is the same, the assignment is of that generation, or of a later
// one, in which commits with `coming` are refused. Else the next assignment, or a revocation, follows. With
// KIP-848 the coordinator assigns a partition to others only after we have confirmed its revocation, so no
// query is needed.
enum status kafka_confirm_assigned(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    struct confirmation confirmation = {.kafka = kafka,
                                        .member = rd_kafka_memberid(kafka->clients.consumer.rk),
                                        .in_parts = kafka_is_cooperative(kafka)};
    bool is_confirmed = kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER;
    if (!confirmation.member || is_confirmed) {
        if (confirmation.member)
            rd_kafka_mem_free(kafka->clients.consumer.rk, confirmation.member);
        return STATUS_OK;
    }
    bool is_stable;
    rd_kafka_resp_err_t code = kafka_members(&kafka->clients.asking, kafka->config, timeout_ms,
                                             compare_assignment, &confirmation, &is_stable);
    rd_kafka_mem_free(kafka->clients.consumer.rk, confirmation.member);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        bool is_open = code != RD_KAFKA_RESP_ERR__FAIL;
        return kafka_error_set(error, kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY,
                               is_open ? &kafka->clients.consumer : &kafka->clients.asking.handle,
                               "asking for the group's members", code);
    }
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

// A cooperative group revokes partitions in the next generation, in which they have no owner: finished jobs
// can be committed only as a member of that generation. But librdkafka may have rejoined the group meanwhile,
// and another member may own them by now: so the coordinator is queried after the metadata was read. If the
// query fails or shows another owner, the membership stays unchanged, and the coordinator refuses the commit.
void kafka_confirm_revoked(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                           int timeout_ms)
{
    rd_kafka_t *rk = kafka->clients.consumer.rk;
    if (kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER || !kafka->group.membership)
        return;
    rd_kafka_consumer_group_metadata_t *now = rd_kafka_consumer_group_metadata(rk);
    struct revocation revocation = {.list = list, .member = rd_kafka_memberid(rk)};
    bool is_stable;
    if (now && revocation.member && *revocation.member &&
        kafka_members(&kafka->clients.asking, kafka->config, timeout_ms, look_for_others, &revocation,
                      &is_stable) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        is_stable && !revocation.is_anothers) {
        kafka_drop_metadata(&kafka->group.membership);
        kafka->group.membership = now;
        now = NULL;
    }
    kafka_drop_metadata(&now);
    if (revocation.member)
        rd_kafka_mem_free(rk, revocation.member);
}

// ---- liveness ----

static bool is_member(struct kafka_transport *kafka, int64_t now_ms)
{
    if (!kafka->group.membership)
        kafka_refresh_membership(kafka);
    if (!kafka->group.membership || kafka->group.assigned)
        return false;
    if (now_ms - kafka->outside.queried_ms < CURRENT_INTERVAL_MS)
        return kafka->figures.is_member;
    kafka->outside.queried_ms = now_ms;
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

// A coordinator that does not answer is an unavailable broker: the time starts again.
static enum status end_outside(struct kafka_transport *kafka, struct error *error)
{
    struct group_view view = {.member = rd_kafka_memberid(kafka->clients.consumer.rk)};
    bool is_stable;
    rd_kafka_resp_err_t code =
        kafka_members(&kafka->clients.asking, kafka->config, ASK_TIMEOUT_MS, count_member, &view, &is_stable);
    if (view.member)
        rd_kafka_mem_free(kafka->clients.consumer.rk, view.member);
    if (kafka_is_unreachable(code)) {
        (void)kafka_error_set(error, STATUS_RETRY, &kafka->clients.consumer, "asking for the group's members",
                              code);
        memcpy(kafka->outside.waiting, error->text, sizeof kafka->outside.waiting);
        kafka->outside.time_ms = 0;
        return STATUS_OK;
    }
    (void)error_set(
        error, STATUS_RESTART, ERROR_BROKER,
        "no confirmed member of group %s for %lld s (--membership-timeout): %s. The group is %s and has %d"
        " members, this worker is %s of them",
        kafka->config->group.name, (long long)kafka->outside.time_ms / 1000, kafka->outside.waiting,
        is_stable ? "stable" : "being rebalanced", view.n_members, view.has_us ? "one" : "none");
    return kafka_stop(kafka, error);
}

enum status kafka_watch_membership(struct kafka_transport *kafka, const struct error *why,
                                   struct error *error)
{
    int64_t now_ms = clock_ms(), step_ms = now_ms - kafka->outside.looked_ms;
    kafka->outside.looked_ms = now_ms;
    kafka->figures.is_member = is_member(kafka, now_ms);
    if (kafka->figures.is_member || kafka_is_down(kafka)) { // poll reports that no broker is up
        kafka->outside.waiting[0] = '\0';
        kafka->outside.time_ms = 0;
        return STATUS_OK;
    }
    if (why->text[0])
        memcpy(kafka->outside.waiting, why->text, sizeof kafka->outside.waiting);
    else if (!kafka->outside.waiting[0])
        snprintf(kafka->outside.waiting, sizeof kafka->outside.waiting, "Kafka at %.150s: %s %.250s",
                 kafka->config->brokers,
                 kafka->group.subscribed ? "not yet a member of group" : "reading topic",
                 kafka->group.subscribed ? kafka->config->group.name : kafka->config->topics.control);
    if (!kafka->watch.lacks_read)
        kafka->outside.time_ms += step_ms < STEP_MS_MAX ? step_ms : STEP_MS_MAX;
    return kafka->outside.time_ms < kafka->outside.timeout_ms ? STATUS_OK : end_outside(kafka, error);
}

// Another worker with this worker's name: a store folder was copied, or two workers have one --member-name.
//
// A worker that joins the group and begins transactions under a name fences the previous worker of that name,
// and the fenced worker's running jobs would count as jobs of a crash. Therefore a worker first searches the
// group for a member of its name:
//
//   no such member                              starts
//   the last process of our slot, or that       starts: the slot's lock proves that the process is dead
//   process was joining when it ended
//   the slot has no record of a member, and     starts: a takeover counts no crash. The next pod of a name
//   the member's partitions are not computed    takes over at once from a pod that ended cleanly
//   any other member                            waits for the end of its session. A dead member's session
//                                               ends; a member that remains is alive, and this process ends
//
// A slot whose last process was fenced has a word in place of its member (SLOT_MEMBER_FENCED), so its next
// process waits.
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ASK_TIMEOUT_MS = 1000,
    ASK_WAIT_NS = 250000000,    // between two queries
    UNANSWERED_MS = 5000,       // without an answer: starts, as without such a member
    SESSION_DEFAULT_MS = 45000, // if the broker sets it (KIP-848)
    SESSION_MARGIN_MS = 3000,   // for the coordinator to notice the end of a session
    COMMITTED_TIMEOUT_MS = 1000,
};

struct namesake {
    const struct kafka_transport *kafka;
    char instance[256];                     // our static member's name; "": a dynamic member
    char member[SLOT_MEMBER_BYTES_MAX + 1]; // "": none
    char host[64];
    rd_kafka_topic_partition_list_t *assigned; // NULL: none
};

static void look_at_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    struct namesake *namesake = context;
    const char *instance = rd_kafka_MemberDescription_group_instance_id(member);
    const char *client = rd_kafka_MemberDescription_client_id(member);
    const char *id = rd_kafka_MemberDescription_consumer_id(member);
    const char *host = rd_kafka_MemberDescription_host(member); // "/127.0.0.1"
    bool has_our_name = namesake->instance[0] ? instance && strcmp(instance, namesake->instance) == 0
                                              : client && strcmp(client, namesake->kafka->identity.id) == 0;
    if (!id || !has_our_name)
        return;
    snprintf(namesake->member, sizeof namesake->member, "%s", id);
    snprintf(namesake->host, sizeof namesake->host, "%s", host ? host + (*host == '/') : "");
    const rd_kafka_topic_partition_list_t *list =
        rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(member));
    if (namesake->assigned)
        rd_kafka_topic_partition_list_destroy(namesake->assigned);
    namesake->assigned = list ? rd_kafka_topic_partition_list_copy(list) : NULL;
}

static void forget_member(struct namesake *namesake)
{
    if (namesake->assigned)
        rd_kafka_topic_partition_list_destroy(namesake->assigned);
    namesake->assigned = NULL;
    namesake->member[0] = '\0';
}

// Whether the committed metadata of the member's partitions says that jobs are computed there; true if it
// cannot be read.
static bool is_computing(struct kafka_transport *kafka, const struct namesake *namesake)
{
    rd_kafka_topic_partition_list_t *list = namesake->assigned;
    struct error error;
    if (!list || list->cnt == 0)
        return false;
    if (kafka_read_committed(kafka, list, COMMITTED_TIMEOUT_MS, &error) != STATUS_OK)
        return true;
    for (int i = 0; i < list->cnt; i++) {
        const struct text metadata = {list->elems[i].metadata, list->elems[i].metadata_size};
        if (list->elems[i].offset >= 0 && suspects_are_computed(list->elems[i].offset, metadata))
            return true;
    }
    return false;
}

static bool may_begin(struct kafka_transport *kafka, const struct namesake *namesake, bool is_stable)
{
    const char *last = kafka->identity.slot.member;
    if (!namesake->member[0] || strcmp(namesake->member, last) == 0 || strcmp(last, SLOT_MEMBER_JOINING) == 0)
        return true;
    return !last[0] && is_stable && !is_computing(kafka, namesake);
}

static void read_names(struct namesake *namesake, int64_t *session_ms)
{
    const rd_kafka_conf_t *conf = rd_kafka_conf(namesake->kafka->clients.consumer.rk);
    char value[32] = "";
    size_t size = sizeof value;
    if (rd_kafka_conf_get(conf, "session.timeout.ms", value, &size) == RD_KAFKA_CONF_OK)
        *session_ms = strtoll(value, NULL, 10);
    if (*session_ms <= 0 || namesake->kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER)
        *session_ms = SESSION_DEFAULT_MS;
    size = sizeof namesake->instance;
    if (rd_kafka_conf_get(conf, "group.instance.id", namesake->instance, &size) != RD_KAFKA_CONF_OK)
        namesake->instance[0] = '\0';
}

static void warn_of_wait(const struct kafka_transport *kafka, const struct namesake *namesake,
                         int64_t session_ms)
{
    char line[ERROR_TEXT_BYTES + 256];
    snprintf(
        line, sizeof line,
        "a worker of the name %.200s is in group %.150s, from %s: waiting for the end of its session, up to"
        " %lld s, in case it lives",
        kafka->identity.id, kafka->config->group.name, namesake->host, (long long)session_ms / 1000);
    kafka_warn(kafka->config, line);
}

static enum status refuse_namesake(const struct kafka_transport *kafka, const struct namesake *namesake,
                                   struct error *error)
{
    return error_set(
        error, STATUS_RESTART, ERROR_BROKER,
        "Kafka at %.100s: another worker has our id, %.200s, in group %.150s, from %s, and lives: this"
        " one takes no job. Give each worker a --member-name, or a store folder, of its own",
        kafka->config->brokers, kafka->identity.id, kafka->config->group.name, namesake->host);
}

enum status kafka_namesake_await(struct kafka_transport *kafka, struct error *error)
{
    struct namesake namesake = {.kafka = kafka};
    char awaited[sizeof namesake.member] = "";
    int64_t session_ms = 0, began_ms = clock_ms(), since_ms = 0;
    enum status status = STATUS_OK;
    read_names(&namesake, &session_ms);
    while (!kafka_is_stopping(kafka->config, NULL)) {
        bool is_stable;
        forget_member(&namesake);
        rd_kafka_resp_err_t code = kafka_members(&kafka->clients.asking, kafka->config, ASK_TIMEOUT_MS,
                                                 look_at_member, &namesake, &is_stable);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR && may_begin(kafka, &namesake, is_stable))
            break;
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR && !awaited[0] &&
            (!kafka_is_unreachable(code) || clock_ms() - began_ms > UNANSWERED_MS))
            break;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR && strcmp(awaited, namesake.member) != 0) {
            if (!awaited[0])
                warn_of_wait(kafka, &namesake, session_ms);
            memcpy(awaited, namesake.member, sizeof awaited);
            since_ms = clock_ms();
        } else if (code == RD_KAFKA_RESP_ERR_NO_ERROR &&
                   clock_ms() - since_ms > session_ms + SESSION_MARGIN_MS) {
            status = refuse_namesake(kafka, &namesake, error);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = ASK_WAIT_NS}, NULL);
    }
    forget_member(&namesake);
    return status;
}

// Crash accounting in commits (suspects.h). Before a job is computed, its offset is committed: it is below
// `promised`, or it is listed as a suspect that runs among few others or alone. Ordinary commits raise
// `promised` ahead of the records read, so only the first jobs of a partition, and suspects, need a
// transaction of their own.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

enum { HURRY_MS = 5000 };

static struct partition *owner_of(const struct kafka_transport *kafka, const struct job *job)
{
    struct partition *partition = partition_find(&kafka->partitions, job->source.partition);
    bool ours = partition && partition->owned && offset_map_is_running(&partition->map, job->source.offset);
    return ours ? partition : NULL; // not ours: it may be computed, but its result is dropped
}

// No job is computed alone any longer.
static void rest_suspects(struct kafka_transport *kafka)
{
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (!partition || !partition->owned || partition->suspects.n_items == 0)
            continue;
        suspects_rest(&partition->suspects);
        partition->unsaved = partition->changed = true;
    }
    kafka->alone = false;
}

static bool is_unsaved(const struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs)
{
    for (size_t i = 0; i < n_jobs; i++) {
        const struct partition *partition = owner_of(kafka, jobs[i]);
        if (partition && partition->unsaved)
            return true;
    }
    return false;
}

enum status kafka_start(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                        enum suspect_state how, struct error *error)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    if (how == SUSPECT_ALONE || kafka->alone)
        rest_suspects(kafka);
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = owner_of(kafka, jobs[i]);
        if (!partition)
            continue;
        if (how != SUSPECT_AMONG_MANY)
            suspects_compute(&partition->suspects, jobs[i]->source.offset, how);
        if (how != SUSPECT_AMONG_MANY || jobs[i]->source.offset >= partition->suspects.promised)
            partition->unsaved = partition->changed = true;
    }
    kafka->alone = how == SUSPECT_ALONE;
    if (!is_unsaved(kafka, jobs, n_jobs))
        return STATUS_OK;
    enum status status = kafka_commit(transport, NULL, 0, NULL, error);
    if (status == STATUS_OK && is_unsaved(kafka, jobs, n_jobs))
        status = error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: the group is being rebalanced",
                           kafka->config->brokers);
    return status;
}

static void mark_leaving(struct partition *partition)
{
    if (!partition || !partition->owned || partition->map.watermark == OFFSET_UNKNOWN)
        return;
    partition->leaving = true;
    // Partitions without computed jobs need no commit.
    partition->unsaved = partition->changed = partition->suspects.promised > 0;
}

void kafka_mark_leaving(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; list && i < list->cnt; i++)
        mark_leaving(partition_find(&kafka->partitions, list->elems[i].partition));
    for (int32_t i = 0; !list && i < kafka->partitions.n_items; i++)
        mark_leaving(kafka->partitions.items[i]);
}

bool kafka_has_to_say_leaving(const struct kafka_transport *kafka)
{
    bool unsaid = false;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        unsaid = unsaid || (partition && partition->owned && partition->leaving && partition->unsaved);
    }
    return unsaid && kafka->stopped.status == STATUS_OK;
}

// If this fails, the next owner counts a crash: the jobs are computed as suspects, with the same results.
void kafka_say_leaving(struct kafka_transport *kafka)
{
    struct error error;
    struct kafka_throttle *throttle = &kafka->clients.producer.throttle;
    int64_t until_ms = throttle->until_ms;
    if (kafka_has_to_say_leaving(kafka) &&
        (!kafka_is_throttled(kafka) ||
         kafka_transaction_hurry(kafka, clock_ms() + HURRY_MS, &error) == STATUS_OK))
        (void)!kafka_commit(&kafka->base, NULL, 0, NULL, &error);
    if (throttle->until_ms < until_ms) // for the records of later transactions
        throttle->until_ms = until_ms;
}

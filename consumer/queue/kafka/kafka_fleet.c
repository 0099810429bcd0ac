// Two fleets with one --group by mistake: each answers a part of the jobs, into its own results topic, and its
// users wait for the other part. The id of a process (suspects.h), which is committed with the offsets, has a
// hash of its results topic, so that the next owner of a partition, and each worker at its start, can compare:
//
//   bits 32 to 63   random
//   bits 16 to 31   MARK: ids of versions without the hash are random throughout
//   bits 0 to 15    hash of the results topic's name
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK UINT64_C(0x5ea7)

static uint64_t hash_of_results(const struct kafka_config *config)
{
    return hash_bytes(config->topics.results, strlen(config->topics.results), 0) & 0xffff;
}

uint64_t kafka_fleet_owner(const struct kafka_config *config, uint64_t random)
{
    return random << 32 | MARK << 16 | hash_of_results(config);
}

void kafka_fleet_compare(struct kafka_transport *kafka, const rd_kafka_topic_partition_t *committed)
{
    uint64_t owner =
        suspects_owner(committed->offset, (struct text){committed->metadata, committed->metadata_size});
    bool is_marked = (owner >> 16 & 0xffff) == MARK;
    char line[ERROR_TEXT_BYTES];
    if (kafka->identity.is_fleet_reported || !is_marked || (owner & 0xffff) == hash_of_results(kafka->config))
        return;
    kafka->identity.is_fleet_reported = true;
    snprintf(
        line, sizeof line,
        "group %.128s: the last worker of partition %" PRId32
        " of topic %.200s wrote its results to another topic than %.200s: if two fleets share this --group,"
        " each gets a part of the answers",
        kafka->config->group.name, committed->partition, kafka->config->topics.jobs,
        kafka->config->topics.results);
    kafka_warn(kafka->config, line);
}

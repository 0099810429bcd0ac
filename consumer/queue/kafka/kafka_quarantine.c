// Records that the worker leaves unfinished (the transport's `quarantine`). In the offset map they stay
// running, so the committed offset stays at the first of them, and the finished offsets above it are in the
// map:
//
//   offset     200  201  202  203  204  ...  16584      f finished, q quarantined
//   state       f    q    f    f    q   ...    f        committed: offset 201, bitmap 0 1 1 0 ...
//
// The partition continues until the map's window is full, and is paused then: here at 16585 = 201 +
// OFFSET_MAP_WINDOW. When the partition leaves the worker, its quarantined records are released, and its next
// owner judges them anew.
#include "consumer/queue/kafka/kafka_transport.h"

#include <inttypes.h>
#include <stdio.h>

void kafka_quarantine(struct transport *transport, int32_t id, int64_t offset)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    struct partition *partition = partition_find(&kafka->partitions, id);
    if (!partition || !offset_map_is_running(&partition->map, offset))
        return;
    struct quarantine *quarantine = &partition->quarantine;
    uint64_t bit = (uint64_t)offset % OFFSET_MAP_WINDOW;
    if (quarantine->n_records == 0 || offset < quarantine->first)
        quarantine->first = offset;
    if (offset > quarantine->last || quarantine->n_records == 0)
        quarantine->last = offset;
    quarantine->offsets[bit / 64] |= UINT64_C(1) << bit % 64;
    quarantine->n_records++;
}

void kafka_quarantine_release(struct partition *partition)
{
    struct quarantine *quarantine = &partition->quarantine;
    for (int64_t offset = quarantine->first; quarantine->n_records > 0 && offset <= quarantine->last;
         offset++) {
        uint64_t bit = (uint64_t)offset % OFFSET_MAP_WINDOW;
        if ((quarantine->offsets[bit / 64] >> bit % 64 & 1) && offset_map_is_running(&partition->map, offset))
            offset_map_release(&partition->map, offset);
    }
    *quarantine = (struct quarantine){0};
}

void kafka_quarantine_describe(const struct kafka_transport *kafka, char *text, size_t size)
{
    const struct partition *first = NULL;
    int64_t n_records = 0;
    int32_t n_partitions = 0;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (!partition || partition->quarantine.n_records == 0)
            continue;
        first = first ? first : partition;
        n_records += partition->quarantine.n_records;
        n_partitions++;
    }
    char more[64] = "";
    if (n_partitions > 1)
        snprintf(more, sizeof more, " and %" PRId32 " more partitions", n_partitions - 1);
    if (first)
        snprintf(text, size,
                 "topic %.250s partition %" PRId32 " from offset %" PRId64 " on%s: %" PRId64
                 " records that are no jobs stay in quarantine, more of their producer's than --dead-share"
                 " allows (ops/RUNBOOK.md: \"Quarantine\")%s",
                 kafka->config->topics.jobs, first->id, first->quarantine.first, more, n_records,
                 offset_map_is_full(&first->map) ? "; the partition is paused, since its window is full"
                                                 : "");
}

// The records of the control topic about one dataset: the progress marker of its submission, and its cancellation.
// Thread: main.
#pragma once

#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/marker.h"
#include "schemas/base/hash.h"
#include "schemas/base/occurrences.h"

struct control {
    bool has_marker;
    struct marker marker;      // its texts are in the arena
    int64_t created_s;         // latest creation time of its submissions' jobs, on any topic; -1: none
    bool is_withdrawn;         // its marker was withdrawn by a tombstone
    bool is_cancelled;         // the whole dataset is cancelled
    struct occurrences marked; // hash_dataset of each dataset of the jobs topic that has or had a marker
    // A search of the jobs topic for datasets without a marker (marker.h).
    struct {
        bool is_done;
        bool has_dataset; // the search found the dataset
        int64_t start;    // kafka_topic_start of the control topic at the search
    } search;
    struct arena arena;
};

// Reads the topic to its end. Markers after an open transaction cannot be read until it ends: `end` says how
// long to wait. A control topic that does not exist counts as empty.
enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         enum kafka_end end, struct error *error) WARN_UNUSED;
// Checks that the jobs topic has the jobs that the marker counts, or had them until retention deleted them.
// It reads the place of one of the last jobs. False: the topic was recreated.
enum status control_check_marker(const struct control *control, const struct kafka_config *config,
                                 bool *counts, struct error *error) WARN_UNUSED;
void control_finish(struct control *control);
// Identifies a dataset. About one in 300,000 sets of 10 million names has a collision.
static inline uint64_t hash_dataset(struct text dataset)
{
    return hash_bytes(dataset.data, dataset.size, 0);
}

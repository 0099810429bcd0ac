// The state of one dataset in the control topic: progress marker of its submission, cancellation. Thread:
// main.
#pragma once

#include "consumer/kafka/kafka_client.h"
#include "consumer/kafka/marker.h"
#include "schemas/hash.h"
#include "schemas/occurrences.h"

struct control {
    bool has_marker;
    struct marker marker; // its texts are in the arena
    int64_t created_s;    // of the jobs of its submissions, to whichever topic, the latest; -1: there is none
    bool is_withdrawn;    // its marker, by a tombstone
    bool is_cancelled;    // the whole dataset
    struct occurrences
        marked; // of datasets of the jobs topic that have a marker, or had one, by hash_dataset
    // A search of the jobs topic for datasets without a marker (marker.h).
    struct {
        bool is_done;
        bool has_dataset; // it is one of them
        int64_t start;    // of the control topic then
    } search;
    struct arena arena;
};

// Reads the topic to its end. A marker behind a transaction that is open there cannot be read before it ends:
// `end` says how long to wait. A control topic that does not exist counts as empty.
enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         enum kafka_end end, struct error *error) WARN_UNUSED;
// Whether the jobs that the marker counts are on the topic, or were until retention deleted them: the last of
// them is at its place. False: the topic was deleted and made again.
enum status control_check_marker(const struct control *control, const struct kafka_config *config,
                                 bool *counts, struct error *error) WARN_UNUSED;
void control_finish(struct control *control);
// For a set of names of all submissions of a topic; of 10 million names, one set in 300,000 has two of one hash.
static inline uint64_t hash_dataset(struct text dataset)
{
    return hash_bytes(dataset.data, dataset.size, 0);
}

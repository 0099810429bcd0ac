// The state of one dataset in the control topic: progress marker of its submission, cancellation. Thread:
// main.
#pragma once

#include "consumer/kafka/kafka_client.h"
#include "consumer/kafka/marker.h"

struct control {
    bool has_marker;
    struct marker marker; // its texts are in the arena
    int64_t created_s;    // of the jobs of its submissions, to whichever topic, the latest; -1: there is none
    bool is_cancelled;    // the whole dataset
    int64_t n_markers;    // of all datasets of the jobs topic, including superseded ones
    struct arena arena;
};

// Reads the topic to its end. A marker behind a transaction that is open there cannot be read before it ends:
// `end` says how long to wait. A control topic that does not exist counts as empty.
enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         enum kafka_end end, struct error *error) WARN_UNUSED;
void control_finish(struct control *control);

// The state of one dataset in the control topic: progress marker of its submission, cancellation. Thread:
// main.
#pragma once

#include "consumer/kafka/kafka.h"
#include "consumer/kafka/marker.h"

struct control {
    bool has_marker;
    struct marker marker; // its texts are in the arena
    bool is_cancelled;    // the whole dataset
    int64_t n_markers;    // of all datasets of the jobs topic, including superseded ones
    struct arena arena;
};

// Reads the topic to its end. Waits for a transaction that is open there, because a marker behind it cannot
// be read before. A control topic that does not exist counts as empty.
enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         struct error *error) WARN_UNUSED;
void control_finish(struct control *control);

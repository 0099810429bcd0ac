// One dataset as the control topic has it: its submission's progress marker and whether it is cancelled. Thread: main.
#pragma once

#include "consumer/kafka/kafka.h"
#include "consumer/kafka/marker.h"

struct control {
    bool has_marker;
    struct marker marker; // its texts are in the arena
    bool is_cancelled;    // as a whole
    int64_t n_markers;    // of all datasets of the jobs topic, old ones too
    struct arena arena;
};

// Reads the topic to its end; a transaction that is open there is waited for, because a marker behind it is not readable
// before. A control topic that does not exist holds nothing.
enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         struct error *error) WARN_UNUSED;
void control_finish(struct control *control);

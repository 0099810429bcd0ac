// Times of a step's phases, measured with events in the device's stream. In a graph the events are nodes,
// recorded by each replay. Without --trace-steps nothing is recorded.
#pragma once

#include "engine/backend.h"
#include "gpu/device.h"

enum { PHASES_MAX = 4096 }; // changes of phase in a step: at most two per layer and a few

struct phases {
    struct device_event **events; // created on first use, then reused
    enum step_phase *kinds;
    int n, n_made, room;
};

// Marks the beginning of `phase`. Beyond PHASES_MAX, or when memory runs out, the last phase is extended.
void phases_mark(struct phases *phases, struct device *device, enum step_phase phase);
// Marks the end of the last phase.
void phases_end(struct phases *phases, struct device *device);
// Adds the time of each phase. The caller has waited for the stream.
void phases_add(const struct phases *phases, struct step_times *times);
void phases_finish(struct phases *phases, struct device *device);

// When a step's phases begin on the device, by events in its stream; in a graph they are part of it and
// recorded anew by each replay. Nothing is recorded while nobody traces.
#pragma once

#include "engine/backend.h"
#include "gpu/device.h"

enum { PHASES_MAX = 4096 }; // changes of phase in a step: two a layer and a few, at most

struct phases {
    struct device_event **events; // made as they are needed, kept
    enum step_phase *kinds;
    int n, n_made, room;
};

// From here on `phase` runs. Beyond PHASES_MAX, or without memory, the last phase goes on.
void phases_mark(struct phases *phases, struct device *device, enum step_phase phase);
// The end of the last one.
void phases_end(struct phases *phases, struct device *device);
// After the stream was waited for: adds each phase's time.
void phases_add(const struct phases *phases, struct step_times *times);
void phases_finish(struct phases *phases, struct device *device);

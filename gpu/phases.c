#include "gpu/phases.h"

#include <stdlib.h>

static bool reserve_events(struct phases *phases, struct device *device)
{
    if (phases->n < phases->n_made)
        return true;
    if (phases->n_made == PHASES_MAX)
        return false;
    if (phases->n_made == phases->room) {
        int room = phases->room ? 2 * phases->room : 64;
        struct device_event **events = realloc(phases->events, (size_t)room * sizeof(struct device_event *));
        if (!events)
            return false;
        phases->events = events;
        enum step_phase *kinds = realloc(phases->kinds, (size_t)room * sizeof *kinds);
        if (!kinds)
            return false;
        phases->kinds = kinds;
        phases->room = room;
    }
    phases->events[phases->n_made] = device_event_create(device);
    return phases->events[phases->n_made] && ++phases->n_made;
}

void phases_mark(struct phases *phases, struct device *device, enum step_phase phase)
{
    if ((phases->n > 0 && phases->kinds[phases->n - 1] == phase) || !reserve_events(phases, device))
        return;
    device_event_record(device, phases->events[phases->n]);
    phases->kinds[phases->n++] = phase;
}

void phases_end(struct phases *phases, struct device *device)
{
    if (reserve_events(phases, device)) {
        device_event_record(device, phases->events[phases->n]);
        phases->kinds[phases->n++] = PHASE_COUNT;
    }
}

void phases_add(const struct phases *phases, struct step_times *times)
{
    for (int i = 0; i + 1 < phases->n; i++)
        if (phases->kinds[i] < PHASE_COUNT)
            times->us[phases->kinds[i]] += device_event_between_us(phases->events[i], phases->events[i + 1]);
}

void phases_finish(struct phases *phases, struct device *device)
{
    for (int i = 0; i < phases->n_made; i++)
        device_event_destroy(device, phases->events[i]);
    free(phases->events);
    free(phases->kinds);
    *phases = (struct phases){0};
}

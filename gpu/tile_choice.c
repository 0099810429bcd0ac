#include "gpu/tile_choice.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { LAUNCHES_FEW_ROWS = 8, LAUNCHES_MANY_ROWS = 2, ROWS_MANY = 1024 }; // in a graph that is timed

int32_t tile_rows(int32_t n_rows)
{
    int32_t step = n_rows <= 96 ? (n_rows + 31) / 32 * 32 : 128;
    while (step < n_rows)
        step *= 2;
    return step;
}

static struct tile_choice describe(const struct product_launch *call)
{
    struct tile_choice choice = {.type = call->type,
                                 .gated = call->gated,
                                 .n_inputs = call->x.n_inputs,
                                 .n_rows = tile_rows(call->x.n_rows)};
    for (int32_t i = 0; i < call->n_parts; i++)
        choice.n_outputs += call->parts[i].n_outputs;
    return choice;
}

static struct tile_choice *find_like(const struct tile_choices *choices, const struct tile_choice *wanted)
{
    for (int32_t i = 0; i < choices->n; i++) {
        struct tile_choice *choice = &choices->items[i];
        if (choice->type == wanted->type && choice->gated == wanted->gated &&
            choice->n_outputs == wanted->n_outputs && choice->n_inputs == wanted->n_inputs &&
            choice->n_rows == wanted->n_rows)
            return choice;
    }
    return NULL;
}

static bool can_tile(const struct product_launch *call, const struct product_tiling *tiling)
{
    struct product_tiling tilings[PRODUCT_TILINGS_MAX];
    int32_t n = product_tilings(call, tilings), i = 0;
    while (i < n && (tilings[i].tile != tiling->tile || tilings[i].divided != tiling->divided))
        i++;
    return i < n;
}

const struct tile_choice *tile_choices_find(const struct tile_choices *choices,
                                            const struct product_launch *call)
{
    struct tile_choice wanted = describe(call);
    const struct tile_choice *choice = find_like(choices, &wanted);
    return choice && can_tile(call, &choice->tiling) ? choice : NULL;
}

// Events around a graph's launch. False: out of memory.
struct stopwatch {
    struct device_event *begin, *end;
};

static bool stopwatch_init(struct stopwatch *watch, struct device *device)
{
    *watch = (struct stopwatch){device_event_create(device), device_event_create(device)};
    return watch->begin && watch->end;
}

static void stopwatch_finish(struct stopwatch *watch, struct device *device)
{
    device_event_destroy(device, watch->begin);
    device_event_destroy(device, watch->end);
}

// Returns the time of a launch; INFINITY: there is no graph. The first launch of the graph warms up.
static double time_launch(struct device *device, const struct stopwatch *watch,
                          const struct product_launch *call)
{
    int n = call->x.n_rows < ROWS_MANY ? LAUNCHES_FEW_ROWS : LAUNCHES_MANY_ROWS;
    device_graph_begin(device);
    for (int i = 0; i < n; i++)
        launch_product(device_stream(device), call);
    struct device_graph *graph = device_graph_end(device);
    if (!graph)
        return INFINITY;
    for (int i = 0; i < 2; i++) {
        device_event_record(device, watch->begin);
        device_graph_launch(device, graph);
        device_event_record(device, watch->end);
    }
    device_event_wait(device, watch->end);
    double us = device_event_between_us(watch->begin, watch->end) / n;
    device_graph_destroy(device, graph);
    return us;
}

bool tile_choices_set(struct tile_choices *choices, const struct tile_choice *choice)
{
    struct tile_choice *old = find_like(choices, choice);
    if (old) {
        *old = *choice;
        return true;
    }
    if (choices->n == choices->n_max) {
        int32_t n_max = choices->n_max ? 2 * choices->n_max : 32;
        struct tile_choice *items = realloc(choices->items, (size_t)n_max * sizeof *items);
        if (!items)
            return false;
        choices->items = items;
        choices->n_max = n_max;
    }
    choices->items[choices->n++] = *choice;
    return true;
}

bool tile_choices_measure(struct tile_choices *choices, struct device *device,
                          const struct product_launch *call)
{
    struct product_tiling tilings[PRODUCT_TILINGS_MAX];
    int32_t n = product_tilings(call, tilings);
    struct tile_choice choice = describe(call);
    struct stopwatch watch;
    struct error failed;
    if (n == 0)
        return false;
    if (!stopwatch_init(&watch, device)) {
        stopwatch_finish(&watch, device);
        return false;
    }
    choice.us = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        struct product_launch tiled = *call;
        tiled.tiling = tilings[i];
        double us = time_launch(device, &watch, &tiled);
        if (us < choice.us) {
            choice.us = us;
            choice.tiling = tilings[i];
        }
    }
    stopwatch_finish(&watch, device);
    return device_status(device, &failed) == STATUS_OK && choice.us < INFINITY &&
           tile_choices_set(choices, &choice);
}

void tile_choices_finish(struct tile_choices *choices)
{
    free(choices->items);
    *choices = (struct tile_choices){0};
}

// Launches GEMMs with the tiles that were measured for them (gpu/tile_choice.h).
#include "gpu/state.h"

#include <stdio.h>

static const char *tile_name(enum wgmma_tile tile)
{
    static const char *const names[WGMMA_TILE_COUNT] = {"by rows",  "64 x 32",   "256 x 32",
                                                        "64 x 64",  "256 x 64",  "256 x 96",
                                                        "64 x 128", "128 x 128", "192 x 128"};
    return names[tile];
}

// Measures tiles only in an eager step, which precedes the capture of a step of the same size.
static void choose_tiles(struct gpu_backend *backend, struct product_launch *call)
{
    const struct tile_choice *choice = tile_choices_find(&backend->tile_choices, call);
    bool measures = !choice && backend->measures_tiles && backend->submitted.slot->part->way == STEP_EAGER &&
                    !backend->current.times && gpu_has_graph_memory(backend);
    if (measures && tile_choices_measure(&backend->tile_choices, backend->device, call)) {
        choice = tile_choices_find(&backend->tile_choices, call);
        backend->figures.n_tilings++;
        char text[160];
        snprintf(text, sizeof text, "tiles: %s %d x %d%s, up to %d rows: %s%s, %.1f us",
                 tensor_traits(choice->type)->name, choice->n_inputs, choice->n_outputs,
                 choice->gated ? " gated" : "", choice->n_rows, tile_name(choice->tiling.tile),
                 choice->tiling.divided ? " divided" : "", choice->us);
        if (backend->options.say)
            backend->options.say(text);
    }
    if (choice)
        call->tiling = choice->tiling;
}

// Two calls may become one launch of a pair of types, which has no choice of tiles.
void gpu_launch_products(struct gpu_backend *backend, struct product_launch *calls, int32_t n)
{
    if (n == 1 && calls[0].x.swizzled)
        choose_tiles(backend, &calls[0]);
    launch_products(backend->stream, calls, n);
}

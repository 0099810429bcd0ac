// Launches GEMMs with the tiles that were measured for them (gpu/tile_choice.h) or are in the file of tiles.
#include "gpu/state.h"
#include "gpu/tile_file.h"

#include <stdarg.h>
#include <stdio.h>

// ---- the file ----

PRINTF_LIKE(2, 3) static void say(const struct gpu_backend *backend, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (!backend->options.say)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    backend->options.say(text);
}

enum status gpu_tiles_read(struct gpu_backend *backend, struct error *error)
{
    const char *path = backend->options.tiles_path;
    const struct device_facts *facts = device_facts(backend->device);
    enum tile_file_state state;
    char device[TILE_FILE_DEVICE_BYTES];
    if (!path)
        return STATUS_OK;
    enum status status = tile_file_read(&backend->tile_choices, path, facts, &state, error);
    if (status != STATUS_OK)
        return status;
    backend->keeps_tiles = true;
    tile_file_device(device, facts);
    if (state == TILE_FILE_READ)
        say(backend, "tiles: %d choices from %s", (int)backend->tile_choices.n, path);
    else if (state == TILE_FILE_OTHER_VERSION)
        say(backend, "tiles: %s is of another version of sheaf: tiles are measured again", path);
    else if (state == TILE_FILE_OTHER_DEVICE)
        say(backend, "tiles: %s is of another device or driver, this is %s: tiles are measured again", path,
            device);
    return STATUS_OK;
}

// A file that cannot be written is no reason to end: the worker measures again after a restart.
static void keep_tiles(struct gpu_backend *backend)
{
    struct error error;
    if (!backend->keeps_tiles)
        return;
    if (tile_file_write(&backend->tile_choices, backend->options.tiles_path, device_facts(backend->device),
                        &error) == STATUS_OK)
        return;
    say(backend, "tiles: choices are not kept: %s", error.text);
    backend->keeps_tiles = false;
}

// ---- launches ----

static void say_choice(const struct gpu_backend *backend, const struct tile_choice *choice)
{
    struct buffer text = {0};
    tile_choice_print(&text, choice);
    if (!text.failed)
        say(backend, "tiles: %s", text.data);
    buffer_finish(&text);
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
        say_choice(backend, choice);
        keep_tiles(backend);
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

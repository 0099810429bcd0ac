// Launches GEMMs with the tiles that were measured for them (gpu/tile_choice.h) or are in the file of tiles.
#include "gpu/state.h"
#include "gpu/tile_file.h"
#include "schemas/base/clock.h"

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
    if (!backend->keeps_tiles || backend->tunes)
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

// Measures tiles only in an eager step: of autotuning, or, in a hybrid, the first one of its size, which precedes a capture.
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

// ---- autotuning ----

// Computes one step for each number of rows at which tiles are measured (tile_rows).
static enum status run_sizes(int32_t n_rows_max,
                             enum status (*run)(void *context, int32_t n_rows, struct error *error),
                             void *context, struct error *error)
{
    enum status status = STATUS_OK;
    for (int32_t n = tile_rows(WGMMA_ROWS_LEAST); status == STATUS_OK; n = tile_rows(n + 1)) {
        status = run(context, n < n_rows_max ? n : n_rows_max, error);
        if (n >= n_rows_max)
            break;
    }
    return status;
}

enum status gpu_tune(struct backend *base, int32_t n_rows_max,
                     enum status (*run)(void *context, int32_t n_rows, struct error *error), void *context,
                     struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    const struct device_facts *facts = device_facts(backend->device);
    if (!backend->measures_tiles ||
        !product_is_wgmma(facts->has_wgmma, facts->shared_bytes_max, n_rows_max, 0))
        return STATUS_OK;
    int64_t n_before = backend->figures.n_tilings;
    double began_s = clock_s();
    backend->tunes = true;
    enum status status = run_sizes(n_rows_max, run, context, error);
    backend->tunes = false;
    int64_t n = backend->figures.n_tilings - n_before;
    if (n > 0)
        keep_tiles(backend);
    say(backend, "tiles: measured %d matrix products of up to %d rows in %.2f s", (int)n, (int)n_rows_max,
        clock_s() - began_s);
    return status;
}

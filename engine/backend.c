#include "engine/backend.h"

#include <stdlib.h>

static void ignore_layer(struct backend *backend, int32_t layer, bool experts)
{
    (void)backend, (void)layer, (void)experts;
}

static enum status be_ready(struct backend *backend, struct error *error)
{
    (void)backend, (void)error;
    return STATUS_OK;
}

static uint64_t no_scratch_bytes(struct backend *backend, const struct model_shape *shape, int32_t n_rows_max,
                                 int32_t n_outputs_max, int64_t n_positions)
{
    (void)backend, (void)shape, (void)n_rows_max, (void)n_outputs_max, (void)n_positions;
    return 0;
}

static void *allocate_anywhere(struct backend *backend, size_t size_bytes)
{
    (void)backend;
    return malloc(size_bytes);
}

static void free_anywhere(struct backend *backend, void *memory)
{
    (void)backend;
    free(memory);
}

void backend_init(struct backend *backend, const struct backend_device *device,
                  const struct backend_operations *operations)
{
    *backend = (struct backend){*device, *operations};
    if (!backend->device.layer)
        backend->device.layer = ignore_layer;
    if (!backend->device.ready)
        backend->device.ready = be_ready;
    if (!backend->device.scratch_bytes)
        backend->device.scratch_bytes = no_scratch_bytes;
    if (!backend->device.host_allocate) {
        backend->device.host_allocate = allocate_anywhere;
        backend->device.host_free = free_anywhere;
    }
    if (!backend->operations.wait)
        backend->operations.wait = be_ready;
}

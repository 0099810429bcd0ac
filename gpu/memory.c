// Device memory of the CUDA backend, within the limit of its options.
#include "gpu/state.h"

// Reserve for the runtime, graphs and the rounding of matrices and scratch: at most 2 MiB for each of about
// fifty blocks. Weights are not included; gpu_weight_bytes counts their rounding.
static const uint64_t memory_unused_bytes = 256ull << 20;

// Reduces `bytes` to the unused part of the limit.
static uint64_t within_limit(const struct gpu_backend *backend, uint64_t bytes)
{
    uint64_t limit_bytes = backend->options.memory_bytes;
    uint64_t left_bytes = limit_bytes > backend->used_bytes ? limit_bytes - backend->used_bytes : 0;
    return limit_bytes && left_bytes < bytes ? left_bytes : bytes;
}

uint64_t gpu_available_bytes(struct backend *base)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    uint64_t bytes = device_memory_free(backend->device);
    return within_limit(backend, bytes > memory_unused_bytes ? bytes - memory_unused_bytes : 0);
}

void *gpu_allocate(struct gpu_backend *backend, size_t size_bytes)
{
    uint64_t limit_bytes = backend->options.memory_bytes;
    if (limit_bytes && (size_bytes > limit_bytes || backend->used_bytes > limit_bytes - size_bytes))
        return NULL;
    void *memory = device_allocate(backend->device, size_bytes);
    if (memory)
        backend->used_bytes += size_bytes;
    return memory;
}

enum status gpu_no_memory(struct gpu_backend *backend, uint64_t size_bytes, const char *what,
                          struct error *error)
{
    uint64_t left_bytes = within_limit(backend, device_memory_free(backend->device));
    if (device_status(backend->device, error) != STATUS_OK)
        return error->status; // the error of device_open
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                     "no device memory for %s: %.1f MB wanted, %.1f MB left", what, (double)size_bytes / 1e6,
                     (double)left_bytes / 1e6);
}

void gpu_free(struct gpu_backend *backend, void *memory, size_t size_bytes)
{
    if (memory)
        backend->used_bytes -= size_bytes;
    device_free(backend->device, memory);
}

enum status gpu_scratch_reserve(struct gpu_backend *backend, struct device_scratch *scratch,
                                uint64_t size_bytes, const char *what, struct error *error)
{
    if (size_bytes <= scratch->size_bytes)
        return STATUS_OK;
    gpu_free(backend, scratch->memory, scratch->size_bytes);
    *scratch = (struct device_scratch){.memory = gpu_allocate(backend, size_bytes)};
    if (!scratch->memory)
        return gpu_no_memory(backend, size_bytes, what, error);
    scratch->size_bytes = size_bytes;
    return STATUS_OK;
}

void gpu_scratch_finish(struct gpu_backend *backend, struct device_scratch *scratch)
{
    gpu_free(backend, scratch->memory, scratch->size_bytes);
    *scratch = (struct device_scratch){0};
}

bool gpu_has_graph_memory(const struct gpu_backend *backend)
{
    static const uint64_t least_bytes = 64ull << 20;
    return device_memory_free(backend->device) >= least_bytes;
}

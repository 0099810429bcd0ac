// The CUDA backend: engine/backend.h on one device. A step is one upload of everything the host prepared, the operations,
// and one download of tokens and logprobs. A step in which every sequence has its newest token alone (decoding) is captured
// into a graph, one for each size, and replayed; both ways launch the same kernels over the same memory.
//
// A program is linked with one of the libraries of gpu/meson.build: the real one, the emulated one (tests: the same sources
// over gpu/device_emulated.c), or the absent one, whose gpu_backend_create refuses.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "engine/pool.h"

struct gpu_options {
    int index;              // of the device
    uint64_t memory_bytes;  // that weights, pages and all else may take; 0: what is free
    struct pool *pool;      // packs weights while loading; NULL: the caller's thread does
    bool eager;             // never use graphs: for comparisons
    // The emulated device's, see gpu/device.h:
    uint64_t emulated_memory_bytes;
    int64_t failing_work;
};

// Errors: STATUS_REFUSE, ERROR_DEVICE: not built in, no driver, no device.
enum status gpu_backend_create(struct backend **backend, const struct gpu_options *options, struct error *error)
    WARN_UNUSED;

// "NVIDIA H200, 132 multiprocessors": for the log; "" without a device.
void gpu_backend_describe(const struct backend *backend, char *text, size_t size);

// 90 for compute capability 9.0.
int gpu_backend_capability(const struct backend *backend);

// For tests and the log: steps that replayed a graph, graphs that were captured, and bytes of keys and values that attention did
// not ask for because it read shared prefixes once for several sequences (sliding windows counted as if they saw all).
struct gpu_counts {
    int64_t n_steps, n_replayed, n_graphs, shared_bytes_saved;
};

struct gpu_counts gpu_backend_counts(const struct backend *backend);

// The CUDA backend: implements engine/backend.h on one device. A step is one upload of all host inputs, the
// kernels, and one download of tokens and logprobs. Pure decode steps are captured into CUDA graphs, one per
// padded size, and replayed; eager and replayed steps launch the same kernels on the same memory. The upload of
// a step runs in a second stream while the step before it is computed.
//
// A program links one of the libraries of gpu/meson.build: CUDA, the emulated device (for tests: the same
// sources over gpu/device_emulated.c), or gpu/absent.c, in which gpu_backend_create refuses.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"
#include "gpu/device.h"
#include "schemas/base/pool.h"

enum gpu_tiles {
    GPU_TILES_AUTO,     // measured on a device, by rows in the emulation
    GPU_TILES_MEASURED, // measured when the model is loaded; in a hybrid, by the first step of each size
    GPU_TILES_BY_ROWS,  // for comparisons: the same bytes
};

struct gpu_options {
    int index; // among the devices visible to this process; the backend's name is "cuda:INDEX NAME"
    uint64_t memory_bytes;         // limit for weights, pages and scratch; 0: the free memory
    struct pool *pool;             // packs weights while loading; NULL: the calling thread packs
    bool eager;                    // never use graphs, for comparisons
    bool sync;                     // waits after every launch, so that an error names its kernel
    bool no_overlap;               // no programmatic dependent launch, for comparisons
    bool no_carveout;              // the driver chooses each kernel's carveout, for comparisons
    bool no_wgmma;                 // GEMMs of many rows use mma.sync, even if the device has wgmma
    enum gpu_tiles tiles;          // of GEMMs by wgmma
    const char *tiles_path;        // file of measured tiles (gpu/tile_file.h), kept by the caller; NULL: none
    void (*say)(const char *text); // is told each choice of tiles and what the file has; NULL: nobody
    uint64_t shared_bytes_max;     // limit of shared memory per block, for tests; 0: the device's own
    // Emulated device only, see gpu/device.h:
    uint64_t emulated_memory_bytes;
    int64_t failing_work, failing_graph;
    enum device_upload_order upload_order;
};

// Errors: STATUS_REFUSE, ERROR_DEVICE: not built in, no driver, no device.
enum status gpu_backend_create(struct backend **backend, const struct gpu_options *options,
                               struct error *error) WARN_UNUSED;

// Writes a text such as "NVIDIA H200, compute capability 9.0, 132 multiprocessors" for the log; "" without a device.
void gpu_backend_describe(const struct backend *backend, char *text, size_t size);

// Compute capability without the point: 90 for 9.0.
int gpu_backend_capability(const struct backend *backend);

// For tests and the log.
//
//   n_steps              steps
//   n_replayed           steps that replayed a graph
//   n_apart              steps whose sampling was submitted apart
//   n_apart_replayed     steps whose separate sampling replayed a graph
//   n_graphs             captured graphs
//   n_tilings            GEMMs whose tiles were measured
//   shared_bytes_saved   bytes of keys and values that attention did not read again because sequences share a
//                        prefix (sliding windows are counted as unlimited)
struct gpu_counts {
    int64_t n_steps, n_replayed, n_apart, n_apart_replayed, n_graphs, n_tilings, shared_bytes_saved;
};

struct gpu_counts gpu_backend_counts(const struct backend *backend);

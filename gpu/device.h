// One device with one stream, and a second one for uploads: memory, copies, synchronization, events, graphs. Implemented over the CUDA
// runtime (device_cuda.c) and over host memory (device_emulated.c). The emulation runs launches only when the
// caller waits for the stream, fills new memory with NaNs and injects faults on request, so the whole backend
// is tested without a GPU.
//
// Enqueued work runs in order. The first failure, of a call or of the work itself, is latched and returned by
// device_wait as STATUS_RESTART; later results are invalid.
//
// Thread: the thread that called device_open or device_use last. The CUDA runtime has a current device per
// thread.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_event;
struct device_graph;

// When the emulated device runs an upload of the second stream.
enum device_upload_order {
    UPLOADS_MIXED,   // one or the other, by the number of the upload
    UPLOADS_LATE,    // when the stream that waits for it, or the host, cannot continue without it
    UPLOADS_AT_ONCE, // before the work that is waiting in the stream
};

struct device_options {
    int index;                 // among the devices visible to this process
    bool sync;                 // waits after every launch, so that an error names its kernel; slow
    bool no_overlap;           // no programmatic dependent launch, for comparisons
    bool no_carveout;          // the driver chooses each kernel's carveout of shared memory, for comparisons
    bool no_wgmma;             // device_facts.has_wgmma is false: the same bytes by mma.sync
    uint64_t shared_bytes_max; // limit of shared memory per block; 0: the device's own; emulated: 9.0's
    // Emulated device only:
    uint64_t memory_bytes; // device memory; 0: 4 GiB
    int64_t failing_work;  // the n-th enqueued operation fails and the device is lost; 0: none
    int64_t failing_graph; // no graph can be made of the n-th capture; the device stays usable; 0: none
    enum device_upload_order upload_order;
};

struct device_facts {
    char name[64];
    int capability_major, capability_minor;
    int n_multiprocessors;
    int driver_version;        // newest CUDA version that the driver supports: 13000 for 13.0
    uint64_t shared_bytes_max; // shared memory per block
    bool has_wgmma;            // and mbarriers, bulk copies: compute capability 9.0
    bool emulated;
};

// ERROR_DEVICE: no driver, no device, or its compute capability is too old.
enum status device_open(struct device **device, const struct device_options *options,
                        struct error *error) WARN_UNUSED;
// waits for both streams; the caller has freed its memory, events and graphs
void device_close(struct device *device);
void device_use(struct device *device); // makes the calling thread the one that uses the device
const struct device_facts *device_facts(const struct device *device);
uint64_t device_memory_free(struct device *device);

// Device memory used by an allocation, for the memory plan. The driver maps pages of 2 MiB: a large block
// uses whole pages, small blocks share a page.
static inline uint64_t device_block_bytes(uint64_t size_bytes)
{
    uint64_t unit = size_bytes > 1 << 20 ? 2 << 20 : 512;
    return size_bytes > UINT64_MAX - unit ? UINT64_MAX : (size_bytes + unit - 1) / unit * unit;
}

// Loads all kernels and sets their limit of shared memory. Called once, before the first launch: CUDA loads a
// kernel at its first launch, and cannot do so during a graph capture. All kernels get the same carveout, the
// largest one. To change it, a multiprocessor must be idle, so kernels with different carveouts could not
// overlap.
enum status device_load_kernels(struct device *device, struct error *error) WARN_UNUSED;

// The contents are undefined. Returns NULL if device memory runs out or the device has failed (latched).
// Graph capture forbids this call and all others that allocate, free or wait.
void *device_allocate(struct device *device, size_t size_bytes);
void device_free(struct device *device, void *memory);
// Allocates pinned host memory for asynchronous copies. NULL: out of memory, or the device has failed
// (latched).
void *device_pin(struct device *device, size_t size_bytes);
void device_unpin(struct device *device, void *memory);

void *device_stream(struct device *device); // for the launches of gpu/kernels*.h

// Copies asynchronously. The host memory must be pinned and must not change until the copy has run.
void device_upload(struct device *device, void *to, const void *from, size_t size_bytes);
void device_download(struct device *device, void *to, const void *from, size_t size_bytes);
// Like device_upload, in the second stream: the copy may run before and during all work that is enqueued in the stream,
// until device_join_uploads. So the caller has waited for earlier work that reads or writes `to`.
void device_upload_ahead(struct device *device, void *to, const void *from, size_t size_bytes);
// Work enqueued in the stream after this call runs after all uploads ahead enqueued before it.
void device_join_uploads(struct device *device);
// Copies within device memory. The areas do not overlap.
void device_copy(struct device *device, void *to, const void *from, size_t size_bytes);
// Copies rows that are `stride_bytes` apart on the device to contiguous host memory, which need not be
// pinned.
void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes);
void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes);
// Copies rows that are `stride_bytes` apart from device memory to device memory.
void device_copy_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                      size_t stride_bytes);
void device_zero(struct device *device, void *memory, size_t size_bytes);
// Waits for both streams.
enum status device_wait(struct device *device, struct error *error) WARN_UNUSED;
// Returns the latched error, without waiting.
enum status device_status(struct device *device, struct error *error) WARN_UNUSED;

struct device_event *device_event_create(struct device *device); // NULL: out of memory, or failed (latched)
void device_event_destroy(struct device *device, struct device_event *event);
void device_event_record(struct device *device, struct device_event *event); // can be captured into a graph
// Blocks until the event has been recorded; a failure stays latched.
void device_event_wait(struct device *device, struct device_event *event);
// Time between two events that have run; 0 if unknown.
double device_event_between_us(const struct device_event *begin, const struct device_event *end);

// Captures launches and event records into a graph, without running them, until device_graph_end.
void device_graph_begin(struct device *device);
// Ends the capture. Returns NULL if no graph could be made. The work has then been enqueued instead, so the
// step continues. A failure of the device is latched as always.
struct device_graph *device_graph_end(struct device *device);
void device_graph_launch(struct device *device, struct device_graph *graph);
void device_graph_destroy(struct device *device, struct device_graph *graph);

// One device with one stream: memory, copies, waiting, events, graphs. Implemented over the CUDA runtime
// (device_cuda.c) and over host memory (device_emulated.c), where launches wait in the stream until somebody waits for
// them, memory begins as NaNs and faults can be ordered: the whole backend runs so without a GPU.
//
// What is enqueued runs in order. The first failure, of an enqueueing call or of the work itself, is latched and returned
// by device_wait as STATUS_RESTART; nothing after it counts.
//
// Thread: one at a time, whoever called device_open or device_use last: CUDA's runtime keeps for each thread which device its
// allocations, events and launches are for.
#pragma once

#include "schemas/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_event;
struct device_graph;

struct device_options {
    int index; // of the devices this process may see
    // The emulated device alone:
    uint64_t memory_bytes; // it has this much; 0: 4 GiB
    uint64_t shared_bytes_max; // a block has this much shared memory; 0: that of compute capability 9.0
    int64_t failing_work;  // the so-manieth piece of work enqueued fails and the device is lost; 0: none
};

struct device_facts {
    char name[64];
    int capability_major, capability_minor;
    int n_multiprocessors;
    uint64_t shared_bytes_max; // shared memory that a block may have
    bool emulated;
};

// Whether there is a device; else why not, in `error` (ERROR_DEVICE): no driver, no device, too old a one.
enum status device_open(struct device **device, const struct device_options *options, struct error *error) WARN_UNUSED;
void device_close(struct device *device); // waits for the stream; everything of it is freed by its owners before
void device_use(struct device *device);   // the calling thread goes on with it
const struct device_facts *device_facts(const struct device *device);
uint64_t device_memory_free(struct device *device);

// What an allocation takes of the free memory, for plans: the driver maps 2 MiB at a time; larger blocks are whole pages, smaller
// ones share them.
static inline uint64_t device_block_bytes(uint64_t size_bytes)
{
    uint64_t unit = size_bytes > 1 << 20 ? 2 << 20 : 512;
    return size_bytes > UINT64_MAX - unit ? UINT64_MAX : (size_bytes + unit - 1) / unit * unit;
}

// Contents undefined. NULL: there is not so much left, or the device has failed (latched). Not in a graph's capture, nor any other
// call that takes or frees memory or waits.
void *device_allocate(struct device *device, size_t size_bytes);
void device_free(struct device *device, void *memory);
// Host memory that copies may go on using after the call. NULL: out of memory, or the device has failed (latched).
void *device_pin(struct device *device, size_t size_bytes);
void device_unpin(struct device *device, void *memory);

void *device_stream(struct device *device); // what gpu/kernels*.h want

// Enqueued; host memory is pinned and left alone until the copy has run.
void device_upload(struct device *device, void *to, const void *from, size_t size_bytes);
void device_download(struct device *device, void *to, const void *from, size_t size_bytes);
// Rows that stand `stride_bytes` apart on the device, one after the other on the host, whose memory need not be pinned.
void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes);
void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes);
void device_zero(struct device *device, void *memory, size_t size_bytes);
enum status device_wait(struct device *device, struct error *error) WARN_UNUSED;
enum status device_status(struct device *device, struct error *error) WARN_UNUSED; // what is latched, without waiting

struct device_event *device_event_create(struct device *device); // NULL: out of memory, or failed (latched)
void device_event_destroy(struct device *device, struct device_event *event);
void device_event_record(struct device *device, struct device_event *event); // also into a graph that is captured
void device_event_wait(struct device *device, struct device_event *event);   // the host waits; failures stay latched
// Between two that have run. 0 when it can't be told.
double device_event_between_us(const struct device_event *begin, const struct device_event *end);

// Until device_graph_end, work goes into a graph and does not run. False: capturing is not possible (latched).
bool device_graph_begin(struct device *device);
struct device_graph *device_graph_end(struct device *device); // NULL: failed (latched)
void device_graph_launch(struct device *device, struct device_graph *graph);
void device_graph_destroy(struct device *device, struct device_graph *graph);

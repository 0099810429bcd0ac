// gpu/device.h without a device. Enqueued work runs only when the caller waits for it, as on a device slower
// than the host: memory that the host changes too early gives wrong results here too. An upload ahead runs as
// late as the waits between the two streams allow, or at once: without a wait one of the two gives wrong
// results (device_options.upload_order). New memory is filled
// with one bits, which are NaNs as floats, to show reads of unwritten memory. What CUDA prohibits is an
// assert here:
//
//   calls from a thread without a device_open or device_use
//   allocating or freeing memory, and waiting, during a graph capture
//   copies during a graph capture (a replay would read the host memory again)
//   asynchronous copies to or from memory that is not pinned
//
// A capture that contains a kernel which was not loaded before fails.
#include "gpu/device.h"
#include "gpu/emulation/emulate.h"
#include "gpu/emulation/stream.h"
#include "gpu/kernels/launch.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t memory_bytes_default = 4ull << 30;
// A graph has some hundred launches of about 10 KB each; users report this size for CUDA.
static const uint64_t graph_bytes = 4 << 20;

struct work_list {
    struct emulated_work *first, *last;
};

// Header of each block of pinned memory.
struct pinned {
    struct pinned *next;
    size_t size_bytes;
    max_align_t bytes[];
};

// Faults that tests inject, and the first fault that occurred.
struct device_faults {
    int64_t failing_work, failing_graph; // device_options: counted from 1; 0: none
    const struct emulated_work *failing; // fails when it runs
    bool capture_failed, failed;
    char text[160];
};

struct device {
    pthread_t thread;                  // the thread that uses the device
    struct work_list waiting, uploads; // of the two streams
    enum device_upload_order upload_order;
    int64_t n_uploads, n_uploads_run;
    struct pinned *pinned;
    struct device_graph *capturing; // NULL: work is added to `waiting`
    uint64_t memory_bytes, used_bytes;
    int64_t n_submitted, n_captures;
    bool sync, loaded;
    struct device_faults faults;
    struct device_facts facts;
};

struct device_event {
    int64_t time_ns;
    bool ran;
};

struct device_graph {
    struct work_list work;
};

// Header of each block of device memory.
struct device_block {
    uint64_t size_bytes;
    uint64_t padding[7]; // pads the header to 64 bytes, so that the memory after it is aligned
};

static void append_work(struct work_list *list, struct emulated_work *work)
{
    work->next = NULL;
    if (list->last)
        list->last->next = work;
    else
        list->first = work;
    list->last = work;
}

static void drop_work(struct work_list *list)
{
    for (struct emulated_work *work = list->first, *next; work; work = next) {
        next = work->next;
        free(work);
    }
    *list = (struct work_list){0};
}

// Latches a failure. `kernel` is NULL if unknown: as on a device, it is known only if the launch is rejected,
// or with options.sync.
static void fail_device(struct device *device, const char *what, const char *kernel)
{
    if (!device->faults.failed)
        snprintf(device->faults.text, sizeof device->faults.text, "%s%s%s", kernel ? kernel : "",
                 kernel ? ": " : "", what);
    device->faults.failed = true;
}

// Called by functions that use the thread's current device. Functions that free or wait do not call it,
// because their argument determines the device.
static void check_thread(const struct device *device)
{
    assert(pthread_equal(device->thread, pthread_self()));
    (void)device;
}

static void check_no_capture(const struct device *device)
{
    assert(!device->capturing);
    (void)device;
}

// Runs waiting work until the event has been recorded. NULL: runs all work.
static void run_until(struct device *device, const struct device_event *event);
static void run_uploads(struct device *device, int64_t n);

static void submit_work(struct device *device, struct work_list *list, struct emulated_work *work)
{
    check_thread(device);
    if (!work) {
        fail_device(device, "out of memory for a launch", NULL);
        return;
    }
    if (work->fault)
        fail_device(device, work->fault, work->kernel);
    else if (work->shared_bytes > device->facts.shared_bytes_max)
        fail_device(device, "a launch of too much shared memory", work->kernel);
    if (++device->n_submitted == device->faults.failing_work && device->capturing)
        fail_device(device, "an ordered fault", work->kernel);
    else if (device->n_submitted == device->faults.failing_work)
        device->faults.failing = work;
    device->faults.capture_failed |= device->capturing && work->kernel && !device->loaded;
    append_work(list, work);
    if (device->sync && !device->capturing)
        run_until(device, NULL);
}

void emulated_stream_submit(void *stream, struct emulated_work *work)
{
    struct device *device = stream;
    submit_work(device, device->capturing ? &device->capturing->work : &device->waiting, work);
}

static void run_first(struct device *device, struct work_list *list)
{
    struct emulated_work *work = list->first;
    list->first = work->next;
    if (!list->first)
        list->last = NULL;
    if (work == device->faults.failing)
        fail_device(device, "an ordered fault", device->sync ? work->kernel : NULL);
    if (!device->faults.failed)
        work->run(work);
    free(work);
}

static void run_until(struct device *device, const struct device_event *event)
{
    check_no_capture(device);
    while (device->waiting.first && !(event && event->ran))
        run_first(device, &device->waiting);
}

// Runs uploads ahead until n have run in all.
static void run_uploads(struct device *device, int64_t n)
{
    for (; device->n_uploads_run < n && device->uploads.first; device->n_uploads_run++)
        run_first(device, &device->uploads);
}

static void run_waiting(struct device *device)
{
    run_until(device, NULL);
    run_uploads(device, device->n_uploads);
    emulate_launches_end();
}

// --- Life ---

enum { N_DEVICES = 2 };

enum status device_open(struct device **out, const struct device_options *options, struct error *error)
{
    *out = NULL;
    if (options->index < 0 || options->index >= N_DEVICES)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE, "no CUDA device number %d, there are %d",
                         options->index, (int)N_DEVICES);
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_memory(error, STATUS_REFUSE, "a device");
    device->memory_bytes = options->memory_bytes ? options->memory_bytes : memory_bytes_default;
    device->faults.failing_work = options->failing_work;
    device->faults.failing_graph = options->failing_graph;
    device->sync = options->sync;
    device->upload_order = options->upload_order;
    device->facts =
        (struct device_facts){.name = "emulated",
                              .capability_major = 9,
                              .has_wgmma = !options->no_wgmma,
                              .n_multiprocessors = 4,
                              .emulated = true,
                              .shared_bytes_max = options->shared_bytes_max ? options->shared_bytes_max
                                                                            : EMULATE_SHARED_BYTES_MAX};
    device_use(device);
    *out = device;
    return STATUS_OK;
}

void device_use(struct device *device)
{
    device->thread = pthread_self();
}

void device_close(struct device *device)
{
    if (!device)
        return;
    run_waiting(device);
    assert(device->used_bytes == 0 && !device->pinned);
    free(device);
}

const struct device_facts *device_facts(const struct device *device)
{
    return &device->facts;
}

uint64_t device_memory_free(struct device *device)
{
    return device->memory_bytes - device->used_bytes;
}

void *device_allocate(struct device *device, size_t size_bytes)
{
    check_thread(device);
    check_no_capture(device);
    if (device_block_bytes(size_bytes) > device_memory_free(device))
        return NULL;
    size_t whole = (size_bytes + 2 * sizeof(struct device_block) - 1) / sizeof(struct device_block) *
                   sizeof(struct device_block);
    struct device_block *block = aligned_alloc(sizeof *block, whole);
    if (!block)
        return NULL;
    block->size_bytes = size_bytes;
    device->used_bytes += device_block_bytes(size_bytes);
    return memset(block + 1, 0xFF, size_bytes);
}

void device_free(struct device *device, void *memory)
{
    if (!memory)
        return;
    check_no_capture(device);
    run_waiting(device); // cudaFree waits too
    struct device_block *block = (struct device_block *)memory - 1;
    device->used_bytes -= device_block_bytes(block->size_bytes);
    free(block);
}

void *device_pin(struct device *device, size_t size_bytes)
{
    check_thread(device);
    check_no_capture(device);
    struct pinned *pinned = malloc(sizeof *pinned + size_bytes);
    if (!pinned)
        return NULL;
    *pinned = (struct pinned){.next = device->pinned, .size_bytes = size_bytes};
    device->pinned = pinned;
    return pinned->bytes;
}

void device_unpin(struct device *device, void *memory)
{
    if (!memory)
        return;
    check_no_capture(device);
    run_waiting(device);
    struct pinned **at = &device->pinned;
    while ((*at)->bytes != memory)
        at = &(*at)->next;
    struct pinned *pinned = *at;
    *at = pinned->next;
    free(pinned);
}

static void check_pinned(const struct device *device, const void *memory, size_t size_bytes)
{
    bool found = size_bytes == 0;
    for (const struct pinned *pinned = device->pinned; pinned && !found; pinned = pinned->next) {
        size_t at = (uintptr_t)memory - (uintptr_t)pinned->bytes;
        found = at <= pinned->size_bytes && size_bytes <= pinned->size_bytes - at;
    }
    assert(found);
    (void)found;
}

enum status device_load_kernels(struct device *device, struct error *error)
{
    check_thread(device);
    check_no_capture(device);
    (void)error;
    device->loaded = true;
    return STATUS_OK;
}

void *device_stream(struct device *device)
{
    return device;
}

// --- Work ---

struct device_copy {
    struct emulated_work work;
    void *to;
    const void *from; // source; NULL: the copy writes zeros
    size_t size_bytes;
};

static void run_copy(struct emulated_work *work)
{
    struct device_copy *copy = (struct device_copy *)(void *)work;
    emulate_launches_end();
    if (copy->from)
        memcpy(copy->to, copy->from, copy->size_bytes);
    else
        memset(copy->to, 0, copy->size_bytes);
}

static void submit_copy(struct device *device, void *to, const void *from, size_t size_bytes)
{
    if (!size_bytes)
        return;
    check_no_capture(device);
    struct device_copy *copy = malloc(sizeof *copy);
    if (copy)
        *copy = (struct device_copy){{.run = run_copy}, to, from, size_bytes};
    emulated_stream_submit(device, copy ? &copy->work : NULL);
}

void device_upload(struct device *device, void *to, const void *from, size_t size_bytes)
{
    check_pinned(device, from, size_bytes);
    submit_copy(device, to, from, size_bytes);
}

void device_download(struct device *device, void *to, const void *from, size_t size_bytes)
{
    check_pinned(device, to, size_bytes);
    submit_copy(device, to, from, size_bytes);
}

// The second stream does not end launches of the first one.
static void run_upload(struct emulated_work *work)
{
    struct device_copy *copy = (struct device_copy *)(void *)work;
    memcpy(copy->to, copy->from, copy->size_bytes);
}

enum { UPLOADS_ALIKE = 4 }; // a late upload runs before one at once, so several late ones follow each other

static bool runs_at_once(const struct device *device)
{
    uint32_t mixed = (uint32_t)(device->n_uploads / UPLOADS_ALIKE) * 2654435761u;
    return device->upload_order == UPLOADS_AT_ONCE || (device->upload_order == UPLOADS_MIXED && mixed >> 31);
}

void device_upload_ahead(struct device *device, void *to, const void *from, size_t size_bytes)
{
    check_no_capture(device);
    check_pinned(device, from, size_bytes);
    if (!size_bytes)
        return;
    struct device_copy *copy = malloc(sizeof *copy);
    if (copy)
        *copy = (struct device_copy){{.run = run_upload}, to, from, size_bytes};
    submit_work(device, &device->uploads, copy ? &copy->work : NULL);
    device->n_uploads += copy != NULL;
    if (runs_at_once(device))
        run_uploads(device, device->n_uploads);
}

struct joining {
    struct emulated_work work;
    struct device *device;
    int64_t n_uploads;
};

static void run_joining(struct emulated_work *work)
{
    struct joining *joining = (struct joining *)(void *)work;
    run_uploads(joining->device, joining->n_uploads);
}

void device_join_uploads(struct device *device)
{
    check_no_capture(device);
    struct joining *joining = malloc(sizeof *joining);
    if (joining)
        *joining = (struct joining){{.run = run_joining}, device, device->n_uploads};
    emulated_stream_submit(device, joining ? &joining->work : NULL);
}

void device_copy(struct device *device, void *to, const void *from, size_t size_bytes)
{
    submit_copy(device, to, from, size_bytes);
}

void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes)
{
    for (size_t row = 0; row < n_rows; row++)
        submit_copy(device, (unsigned char *)to + row * row_bytes,
                    (const unsigned char *)from + row * stride_bytes, row_bytes);
}

void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes)
{
    for (size_t row = 0; row < n_rows; row++)
        submit_copy(device, (unsigned char *)to + row * stride_bytes,
                    (const unsigned char *)from + row * row_bytes, row_bytes);
}

void device_copy_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                      size_t stride_bytes)
{
    for (size_t row = 0; row < n_rows; row++)
        submit_copy(device, (unsigned char *)to + row * stride_bytes,
                    (const unsigned char *)from + row * stride_bytes, row_bytes);
}

void device_zero(struct device *device, void *memory, size_t size_bytes)
{
    submit_copy(device, memory, NULL, size_bytes);
}

enum status device_status(struct device *device, struct error *error)
{
    if (!device->faults.failed)
        return STATUS_OK;
    return error_set(error, STATUS_RESTART, ERROR_DEVICE, "%s: %s", device->facts.name, device->faults.text);
}

enum status device_wait(struct device *device, struct error *error)
{
    run_waiting(device);
    return device_status(device, error);
}

// --- Events ---

struct recording {
    struct emulated_work work;
    struct device_event *event;
};

static void run_recording(struct emulated_work *work)
{
    struct device_event *event = ((struct recording *)(void *)work)->event;
    emulate_launches_end();
    event->time_ns = clock_ns();
    event->ran = true;
}

struct device_event *device_event_create(struct device *device)
{
    check_thread(device);
    return calloc(1, sizeof(struct device_event));
}

void device_event_destroy(struct device *device, struct device_event *event)
{
    if (event)
        run_waiting(device);
    free(event);
}

void device_event_record(struct device *device, struct device_event *event)
{
    struct recording *recording = malloc(sizeof *recording);
    if (recording)
        *recording = (struct recording){{.run = run_recording}, event};
    event->ran = false;
    emulated_stream_submit(device, recording ? &recording->work : NULL);
}

void device_event_wait(struct device *device, struct device_event *event)
{
    run_until(device, event);
}

double device_event_between_us(const struct device_event *begin, const struct device_event *end)
{
    if (!begin->ran || !end->ran)
        return 0.0;
    return (double)(end->time_ns - begin->time_ns) / 1e3;
}

// --- Graphs: a list of work, run by each replay ---

struct replay {
    struct emulated_work work;
    struct device_graph *graph;
};

static void run_replay(struct emulated_work *work)
{
    struct device_graph *graph = ((struct replay *)(void *)work)->graph;
    emulate_launches_end();
    for (struct emulated_work *captured = graph->work.first; captured; captured = captured->next)
        captured->run(captured);
    emulate_launches_end();
}

void device_graph_begin(struct device *device)
{
    check_thread(device);
    check_no_capture(device);
    device->faults.capture_failed = ++device->n_captures == device->faults.failing_graph;
    device->capturing = calloc(1, sizeof *device->capturing);
    if (!device->capturing)
        fail_device(device, "out of memory for a graph", NULL);
}

// Enqueues captured work of which no graph was made.
static void enqueue_captured(struct device *device, struct device_graph *graph)
{
    for (struct emulated_work *work = graph->work.first, *next; work; work = next) {
        next = work->next;
        append_work(&device->waiting, work);
    }
    free(graph);
}

struct device_graph *device_graph_end(struct device *device)
{
    struct device_graph *graph = device->capturing;
    device->capturing = NULL;
    if (!graph)
        return NULL;
    if (!device->faults.capture_failed && device_memory_free(device) >= graph_bytes) {
        device->used_bytes += graph_bytes;
        return graph;
    }
    enqueue_captured(device, graph);
    return NULL;
}

void device_graph_launch(struct device *device, struct device_graph *graph)
{
    struct replay *replay = malloc(sizeof *replay);
    if (replay)
        *replay = (struct replay){{.run = run_replay}, graph};
    emulated_stream_submit(device, replay ? &replay->work : NULL);
}

void device_graph_destroy(struct device *device, struct device_graph *graph)
{
    if (!graph)
        return;
    run_waiting(device);
    device->used_bytes -= graph_bytes;
    drop_work(&graph->work);
    free(graph);
}

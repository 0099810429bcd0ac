// gpu/device.h over the CUDA runtime. The runtime is linked statically and loads the driver when it is first
// called, so the program starts on machines without one. Reference: CUDA Runtime API
// (docs.nvidia.com/cuda/cuda-runtime-api).
#include "gpu/device.h"
#include "gpu/kernels/launch.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPABILITY_LEAST = 80, OVERLAP_CAPABILITY_LEAST = 9, RECENT_MAX = 24 };

// A captured launch or event record. It is kept, so that it can be enqueued if no graph can be made.
struct captured {
    struct captured *next;
    const struct kernel_entry *kernel; // NULL: an event record
    struct launch_shape shape;
    struct device_event *event;
    struct launch_arguments arguments; // values point to `bytes`
    _Alignas(16) unsigned char bytes[];
};

// The kernels enqueued since the last wait for the device, each once. An error of enqueued work is reported
// only at the wait, so any of them may have caused it.
struct recent_kernels {
    const struct kernel_entry *entries[RECENT_MAX];
    int n;
    bool more;
};

struct device {
    int index;
    bool sync, overlaps, has_carveout;
    cudaStream_t stream, uploads;
    cudaEvent_t uploaded; // the uploads enqueued before the last device_join_uploads
    cudaError_t failure;  // the first one
    const char *failed_call, *failed_kernel;
    struct recent_kernels recent, captured_kernels; // since the last wait; in the current capture
    struct device_facts facts;
    bool capturing, capture_failed;
    struct captured *first_captured, **last_captured;
};

struct device_event {
    cudaEvent_t event;
};

struct device_graph {
    cudaGraphExec_t executable;
    struct recent_kernels kernels; // kernels that the graph launches
};

static bool check_call(struct device *device, cudaError_t code, const char *call)
{
    if (code != cudaSuccess && device->failure == cudaSuccess) {
        device->failure = code;
        device->failed_call = call;
    }
    return code == cudaSuccess;
}

static bool check_kernel(struct device *device, cudaError_t code, const struct kernel_entry *kernel)
{
    if (code != cudaSuccess && device->failure == cudaSuccess)
        device->failed_kernel = kernel->name;
    return check_call(device, code, "kernel");
}

static void note_kernel(struct recent_kernels *recent, const struct kernel_entry *kernel)
{
    for (int i = 0; i < recent->n; i++)
        if (recent->entries[i] == kernel)
            return;
    if (recent->n < RECENT_MAX)
        recent->entries[recent->n++] = kernel;
    else
        recent->more = true;
}

// Prints "; enqueued since the last wait: NAME, NAME".
static void print_recent(const struct recent_kernels *recent, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < recent->n && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s",
                                   i ? ", " : "; enqueued since the last wait: ", recent->entries[i]->name);
    if (recent->more && length < size)
        snprintf(text + length, size - length, " and others");
}

static enum status refuse_device(struct error *error, const char *what, cudaError_t code)
{
    return error_set(error, STATUS_REFUSE, ERROR_DEVICE, "%s: %s", what, cudaGetErrorString(code));
}

static enum status read_facts(struct device_facts *facts, int index, struct error *error)
{
    struct cudaDeviceProp properties;
    cudaError_t code = cudaGetDeviceProperties(&properties, index);
    if (code != cudaSuccess)
        return refuse_device(error, "reading the device's properties", code);
    snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
    facts->capability_major = properties.major;
    facts->capability_minor = properties.minor;
    facts->n_multiprocessors = properties.multiProcessorCount;
    if ((code = cudaDriverGetVersion(&facts->driver_version)) != cudaSuccess)
        return refuse_device(error, "reading the driver's version", code);
    facts->shared_bytes_max = properties.sharedMemPerBlockOptin;
    facts->has_wgmma = properties.major == 9 && properties.minor == 0;
    if (properties.major * 10 + properties.minor < CAPABILITY_LEAST)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                         "%s: compute capability: expected 8.0 or more, got %d.%d", facts->name,
                         properties.major, properties.minor);
    return STATUS_OK;
}

// Writes the error text for a machine without a usable device, with a hint what to do.
static enum status refuse_driver(cudaError_t code, struct error *error)
{
    int driver = 0, wanted = 0;
    (void)cudaGetLastError();
    if (code != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess ||
        cudaRuntimeGetVersion(&wanted) != cudaSuccess)
        return refuse_device(error, "looking for devices", code);
    if (driver == 0)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                         "looking for devices: there is no NVIDIA driver");
    return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                     "looking for devices: the NVIDIA driver is for CUDA %d.%d, expected %d.%d or newer",
                     driver / 1000, driver % 1000 / 10, wanted / 1000, wanted % 1000 / 10);
}

static cudaError_t make_streams(struct device *device)
{
    cudaError_t code = cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
    if (code == cudaSuccess)
        code = cudaStreamCreateWithFlags(&device->uploads, cudaStreamNonBlocking);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&device->uploaded, cudaEventDisableTiming);
    return code;
}

static void destroy_streams(struct device *device)
{
    if (device->uploaded)
        cudaEventDestroy(device->uploaded);
    if (device->uploads)
        cudaStreamDestroy(device->uploads);
    if (device->stream)
        cudaStreamDestroy(device->stream);
}

enum status device_open(struct device **out, const struct device_options *options, struct error *error)
{
    *out = NULL;
    int n_devices = 0;
    cudaError_t code = cudaGetDeviceCount(&n_devices);
    if (code != cudaSuccess)
        return refuse_driver(code, error);
    if (options->index < 0 || options->index >= n_devices)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE, "no CUDA device number %d, there are %d",
                         options->index, n_devices);
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_memory(error, STATUS_REFUSE, "a device");
    device->index = options->index;
    device->sync = options->sync;
    device->has_carveout = !options->no_carveout;
    enum status status = read_facts(&device->facts, device->index, error);
    device->facts.has_wgmma = device->facts.has_wgmma && !options->no_wgmma;
    if (options->shared_bytes_max && options->shared_bytes_max < device->facts.shared_bytes_max)
        device->facts.shared_bytes_max = options->shared_bytes_max;
    device->overlaps =
        !options->no_overlap && !options->sync && device->facts.capability_major >= OVERLAP_CAPABILITY_LEAST;
    if (status == STATUS_OK && (code = cudaSetDevice(device->index)) != cudaSuccess)
        status = refuse_device(error, "taking the device", code);
    if (status == STATUS_OK && (code = make_streams(device)) != cudaSuccess)
        status = refuse_device(error, "making a stream", code);
    if (status != STATUS_OK) {
        destroy_streams(device);
        free(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

void device_close(struct device *device)
{
    if (!device)
        return;
    cudaStreamSynchronize(device->stream);
    cudaStreamSynchronize(device->uploads);
    destroy_streams(device);
    free(device);
}

void device_use(struct device *device)
{
    check_call(device, cudaSetDevice(device->index), "taking the device");
}

const struct device_facts *device_facts(const struct device *device)
{
    return &device->facts;
}

uint64_t device_memory_free(struct device *device)
{
    size_t free_bytes = 0, total_bytes = 0;
    return check_call(device, cudaMemGetInfo(&free_bytes, &total_bytes), "reading the free memory")
               ? free_bytes
               : 0;
}

void *device_allocate(struct device *device, size_t size_bytes)
{
    void *memory = NULL;
    cudaError_t code = cudaMalloc(&memory, size_bytes ? size_bytes : 1);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); // clears the error: the caller reports it, the device has not failed
        return NULL;
    }
    return check_call(device, code, "allocating memory") ? memory : NULL;
}

void device_free(struct device *device, void *memory)
{
    if (memory)
        check_call(device, cudaFree(memory), "freeing memory");
}

void *device_pin(struct device *device, size_t size_bytes)
{
    void *memory = NULL;
    cudaError_t code = cudaHostAlloc(&memory, size_bytes ? size_bytes : 1, cudaHostAllocDefault);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return NULL;
    }
    return check_call(device, code, "pinning memory") ? memory : NULL;
}

void device_unpin(struct device *device, void *memory)
{
    if (memory)
        check_call(device, cudaFreeHost(memory), "freeing pinned memory");
}

// --- Kernels ---

// A compute capability without machine code in the program needs PTX and a driver that is not older than the nvcc which made it
// (CUDA C++ programming guide, application compatibility; PTX is no part of minor version compatibility).
static enum status refuse_code(const struct device_facts *facts, cudaError_t code, struct error *error)
{
    int major = facts->capability_major, minor = facts->capability_minor, driver = facts->driver_version;
    if (code == cudaErrorNoKernelImageForDevice)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                         "%s: this program has no code for compute capability %d.%d", facts->name, major,
                         minor);
    return error_set(
        error, STATUS_REFUSE, ERROR_DEVICE,
        "%s: for compute capability %d.%d the driver has to compile the kernels: expected a driver "
        "for CUDA %d.%d or newer, got one for CUDA %d.%d",
        facts->name, major, minor, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
        driver % 1000 / 10);
}

enum status device_load_kernels(struct device *device, struct error *error)
{
    for (const struct kernel_entry *kernel = kernel_list(); kernel; kernel = kernel->next) {
        struct cudaFuncAttributes attributes;
        cudaError_t code = cudaFuncGetAttributes(&attributes, kernel->function);
        if (code == cudaErrorUnsupportedPtxVersion || code == cudaErrorNoKernelImageForDevice)
            return refuse_code(&device->facts, code, error);
        if (code == cudaSuccess)
            code = cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)(device->facts.shared_bytes_max - attributes.sharedSizeBytes));
        if (code == cudaSuccess && device->has_carveout)
            code = cudaFuncSetAttribute(kernel->function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                        cudaSharedmemCarveoutMaxShared);
        if (!check_kernel(device, code, kernel))
            return device_status(device, error);
    }
    return STATUS_OK;
}

void *device_stream(struct device *device)
{
    return device;
}

static cudaError_t enqueue_kernel(struct device *device, const struct kernel_entry *kernel,
                                  const struct launch_shape *shape, const struct launch_arguments *arguments)
{
    struct dim3 blocks = {shape->blocks_x, shape->blocks_y, shape->blocks_z},
                threads = {shape->n_threads, 1, 1};
    void *values[LAUNCH_ARGUMENTS_MAX];
    memcpy(values, arguments->values, sizeof values);
    if (shape->shared_bytes > device->facts.shared_bytes_max)
        return cudaErrorInvalidConfiguration; // the device was opened with a lower limit
    // Programmatic dependent launch (gpu/kernels/kernel.h); captured as a programmatic edge of the graph.
    cudaLaunchAttribute overlap = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                   .val.programmaticStreamSerializationAllowed = 1};
    cudaLaunchConfig_t config = {.gridDim = blocks,
                                 .blockDim = threads,
                                 .dynamicSmemBytes = shape->shared_bytes,
                                 .stream = device->stream,
                                 .attrs = &overlap,
                                 .numAttrs = device->overlaps && kernel->overlaps ? 1 : 0};
    return cudaLaunchKernelExC(&config, kernel->function, values);
}

static void launch_now(struct device *device, const struct kernel_entry *kernel,
                       const struct launch_shape *shape, const struct launch_arguments *arguments)
{
    note_kernel(&device->recent, kernel);
    if (check_kernel(device, enqueue_kernel(device, kernel, shape, arguments), kernel) && device->sync)
        check_kernel(device, cudaStreamSynchronize(device->stream), kernel);
}

// Appends a copy of a launch, or of an event record, to the capture's list.
static void keep_captured(struct device *device, const struct captured *work)
{
    size_t size = 0, at = 0;
    for (int i = 0; i < work->arguments.n; i++)
        size += (work->arguments.sizes[i] + 15) / 16 * 16;
    struct captured *copy = malloc(sizeof *copy + size);
    if (!copy) {
        check_call(device, cudaErrorMemoryAllocation, "making a graph");
        return;
    }
    memcpy(copy, work, sizeof *copy);
    for (int i = 0; i < copy->arguments.n; i++) {
        copy->arguments.values[i] =
            memcpy(copy->bytes + at, work->arguments.values[i], work->arguments.sizes[i]);
        at += (work->arguments.sizes[i] + 15) / 16 * 16;
    }
    *device->last_captured = copy;
    device->last_captured = &copy->next;
}

void device_launch(void *stream, const struct kernel_entry *kernel, const struct launch_shape *shape,
                   const struct launch_arguments *arguments)
{
    struct device *device = stream;
    if (!device->capturing) {
        launch_now(device, kernel, shape, arguments);
        return;
    }
    device->capture_failed |= enqueue_kernel(device, kernel, shape, arguments) != cudaSuccess;
    note_kernel(&device->captured_kernels, kernel);
    keep_captured(device, &(struct captured){.kernel = kernel, .shape = *shape, .arguments = *arguments});
}

void device_upload(struct device *device, void *to, const void *from, size_t size_bytes)
{
    if (size_bytes)
        check_call(device, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, device->stream),
                   "an upload");
}

void device_download(struct device *device, void *to, const void *from, size_t size_bytes)
{
    if (size_bytes)
        check_call(device, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToHost, device->stream),
                   "a download");
}

void device_upload_ahead(struct device *device, void *to, const void *from, size_t size_bytes)
{
    assert(!device->capturing);
    if (size_bytes)
        check_call(device, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, device->uploads),
                   "an upload");
}

void device_join_uploads(struct device *device)
{
    assert(!device->capturing);
    check_call(device, cudaEventRecord(device->uploaded, device->uploads), "recording an event");
    check_call(device, cudaStreamWaitEvent(device->stream, device->uploaded, 0), "waiting for an upload");
}

void device_copy(struct device *device, void *to, const void *from, size_t size_bytes)
{
    if (size_bytes)
        check_call(device, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, device->stream),
                   "a copy");
}

void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes)
{
    if (n_rows)
        check_call(device,
                   cudaMemcpy2DAsync(to, row_bytes, from, stride_bytes, row_bytes, n_rows,
                                     cudaMemcpyDeviceToHost, device->stream),
                   "a download");
}

void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes)
{
    if (n_rows)
        check_call(device,
                   cudaMemcpy2DAsync(to, stride_bytes, from, row_bytes, row_bytes, n_rows,
                                     cudaMemcpyHostToDevice, device->stream),
                   "an upload");
}

void device_copy_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                      size_t stride_bytes)
{
    if (n_rows)
        check_call(device,
                   cudaMemcpy2DAsync(to, stride_bytes, from, stride_bytes, row_bytes, n_rows,
                                     cudaMemcpyDeviceToDevice, device->stream),
                   "a copy");
}

void device_zero(struct device *device, void *memory, size_t size_bytes)
{
    if (size_bytes)
        check_call(device, cudaMemsetAsync(memory, 0, size_bytes, device->stream), "clearing memory");
}

enum status device_status(struct device *device, struct error *error)
{
    check_call(device, cudaGetLastError(), "launching a kernel");
    if (device->failure == cudaSuccess)
        return STATUS_OK;
    const char *kernel = device->failed_kernel;
    char recent[sizeof error->text / 2] = "";
    if (!kernel)
        print_recent(&device->recent, recent, sizeof recent);
    return error_set(error, STATUS_RESTART, ERROR_DEVICE, "%s: %s%s%s: %s%s%s", device->facts.name,
                     device->failed_call, kernel ? " " : "", kernel ? kernel : "",
                     cudaGetErrorString(device->failure),
                     kernel || device->sync ? "" : " (--gpu-sync names the kernel)", recent);
}

enum status device_wait(struct device *device, struct error *error)
{
    bool uploaded = check_call(device, cudaStreamSynchronize(device->uploads), "an upload");
    if (check_call(device, cudaStreamSynchronize(device->stream), "a step") && uploaded &&
        device->failure == cudaSuccess)
        device->recent = (struct recent_kernels){0};
    return device_status(device, error);
}

struct device_event *device_event_create(struct device *device)
{
    struct device_event *event = calloc(1, sizeof *event);
    if (event && !check_call(device, cudaEventCreate(&event->event), "making an event")) {
        free(event);
        return NULL;
    }
    return event;
}

void device_event_destroy(struct device *device, struct device_event *event)
{
    if (!event)
        return;
    check_call(device, cudaEventDestroy(event->event), "freeing an event");
    free(event);
}

void device_event_record(struct device *device, struct device_event *event)
{
    if (!device->capturing) {
        check_call(device, cudaEventRecord(event->event, device->stream), "recording an event");
        return;
    }
    // During a capture a plain event record only adds a dependency. An external record becomes a node of the
    // graph, which records at each replay.
    device->capture_failed |=
        cudaEventRecordWithFlags(event->event, device->stream, cudaEventRecordExternal) != cudaSuccess;
    keep_captured(device, &(struct captured){.event = event});
}

void device_event_wait(struct device *device, struct device_event *event)
{
    check_call(device, cudaEventSynchronize(event->event), "waiting for an event");
}

double device_event_between_us(const struct device_event *begin, const struct device_event *end)
{
    float ms = 0.0f;
    if (cudaEventElapsedTime(&ms, begin->event, end->event) == cudaSuccess)
        return (double)ms * 1000.0;
    (void)cudaGetLastError(); // clears the error: an event that was not recorded is no failure of the device
    return 0.0;
}

void device_graph_begin(struct device *device)
{
    device->capture_failed =
        cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess;
    device->capturing = true;
    device->captured_kernels = (struct recent_kernels){0};
    device->last_captured = &device->first_captured;
}

// Frees the list of captured work. If no graph was made of the work, enqueues it first.
static void finish_captured(struct device *device, bool enqueues)
{
    for (struct captured *work = device->first_captured, *next; work; work = next) {
        next = work->next;
        if (enqueues && work->event)
            device_event_record(device, work->event);
        else if (enqueues)
            launch_now(device, work->kernel, &work->shape, &work->arguments);
        free(work);
    }
    device->first_captured = NULL;
}

struct device_graph *device_graph_end(struct device *device)
{
    cudaGraph_t captured = NULL;
    struct device_graph *graph = calloc(1, sizeof *graph);
    bool good = cudaStreamEndCapture(device->stream, &captured) == cudaSuccess && !device->capture_failed &&
                graph && cudaGraphInstantiate(&graph->executable, captured, 0) == cudaSuccess;
    if (captured)
        good &= cudaGraphDestroy(captured) == cudaSuccess;
    device->capturing = false;
    // Clears the error of a failed capture. A permanent error will be returned again by the work that is
    // enqueued now.
    if (!good)
        (void)cudaGetLastError();
    finish_captured(device, !good);
    if (good) {
        graph->kernels = device->captured_kernels;
        return graph;
    }
    free(graph);
    return NULL;
}

void device_graph_launch(struct device *device, struct device_graph *graph)
{
    for (int i = 0; i < graph->kernels.n; i++)
        note_kernel(&device->recent, graph->kernels.entries[i]);
    device->recent.more |= graph->kernels.more;
    check_call(device, cudaGraphLaunch(graph->executable, device->stream), "launching a graph");
}

void device_graph_destroy(struct device *device, struct device_graph *graph)
{
    if (!graph)
        return;
    check_call(device, cudaGraphExecDestroy(graph->executable), "freeing a graph");
    free(graph);
}

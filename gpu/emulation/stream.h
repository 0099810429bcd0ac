// Work items of the emulated device's stream, which run when the caller waits for the stream or replays a
// graph. For C and C++ (launches are templates).
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_work {
    void (*run)(struct emulated_work *work);
    struct emulated_work *next; // in the stream
    size_t shared_bytes;        // per block
    const char *fault;          // why CUDA would reject the launch; NULL: it is valid
    const char *kernel;         // its name; NULL: a copy, an event or a replay
};

// Takes ownership of malloc'd work. NULL (out of memory) or an invalid launch fails the device.
// `stream` is device_stream's.
void emulated_stream_submit(void *stream, struct emulated_work *work);

#ifdef __cplusplus
}
#endif

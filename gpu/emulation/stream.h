// Work items of the emulated device's stream. They run when the caller waits for the stream or replays a
// graph. Included by C and C++, because launches are templates.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_work {
    void (*run)(struct emulated_work *work);
    struct emulated_work *next; // next item in the stream
    size_t shared_bytes;        // shared memory per block
    const char *fault;          // reason for which CUDA would reject the launch; NULL: it is valid
    const char *kernel;         // kernel's name; NULL for a copy, an event or a replay
};

// Takes ownership of malloc'd work. If it is NULL (out of memory) or an invalid launch, the device fails.
// `stream` is the value of device_stream.
void emulated_stream_submit(void *stream, struct emulated_work *work);

#ifdef __cplusplus
}
#endif

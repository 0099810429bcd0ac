// What an emulated launch hands to the emulated device's stream: work that runs when somebody waits, or again
// and again from a graph. C and C++ (launches are templates).
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_work {
    void (*run)(struct emulated_work *work);
    struct emulated_work *next; // the stream's
    size_t shared_bytes;        // that a launch's blocks have
    const char *fault;          // why no device runs this launch; NULL: it may
};

// Takes over malloc'd work; NULL (no memory) fails the device, and so does a launch that it can't run.
// `stream` is device_stream's.
void emulated_stream_submit(void *stream, struct emulated_work *work);

#ifdef __cplusplus
}
#endif

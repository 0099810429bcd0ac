// Loading: weights go to the device in pieces through two pinned buffers, one being filled while the other is
// copied, so that no tensor is on the host a second time.
#pragma once

#include "gpu/device.h"

enum { STAGING_BYTES = 8 << 20 }; // of a buffer at first; 8 MiB keep a PCIe 5 link busy

struct staging {
    struct device *device;
    size_t size_bytes; // of a buffer
    unsigned char *buffers[2];
    struct device_event *events[2]; // the buffer's last copy has run
    bool used[2];
    int next;
};

enum status staging_init(struct staging *staging, struct device *device, struct error *error) WARN_UNUSED;
void staging_finish(struct staging *staging); // zeroed is fine
// Makes the buffers at least so large.
enum status staging_reserve(struct staging *staging, size_t size_bytes, struct error *error) WARN_UNUSED;
// A buffer to fill; waits until its last copy has run.
unsigned char *staging_take(struct staging *staging);
// Copies the first bytes of the buffer taken last.
void staging_send(struct staging *staging, void *to, size_t size_bytes);
// Copies as they are `size_bytes` of host memory.
void staging_copy(struct staging *staging, void *to, const void *from, size_t size_bytes);

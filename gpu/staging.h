// Loading: weights are copied to the device in pieces through two pinned buffers; one is filled while the
// other is copied, so no second copy of a tensor is made on the host.
#pragma once

#include "gpu/device.h"

enum { STAGING_BYTES = 8 << 20 }; // initial size of a buffer; 8 MiB saturate a PCIe 5 link

struct staging {
    struct device *device;
    size_t size_bytes; // per buffer
    unsigned char *buffers[2];
    struct device_event *events[2]; // recorded after the buffer's last copy
    bool used[2];
    int next;
};

enum status staging_init(struct staging *staging, struct device *device, struct error *error) WARN_UNUSED;
void staging_finish(struct staging *staging); // a zeroed struct is valid
// Grows the buffers to at least this size.
enum status staging_reserve(struct staging *staging, size_t size_bytes, struct error *error) WARN_UNUSED;
// Returns a buffer to fill, after its last copy has run.
unsigned char *staging_take(struct staging *staging);
// Copies the first bytes of the last buffer to the device.
void staging_send(struct staging *staging, void *to, size_t size_bytes);
// Copies `size_bytes` of host memory, unchanged.
void staging_copy(struct staging *staging, void *to, const void *from, size_t size_bytes);

// Copies between host and device for tests of single kernels. Each call waits for the device.
#pragma once

#include "gpu/device.h"
#include "tests/support/cases.h"

static inline void wait_for_device(struct device *device)
{
    struct error error;
    assert_ok(device_wait(device, &error), &error);
}

// Freed by device_free.
static inline void *to_device(struct device *device, const void *items, size_t size_bytes)
{
    void *memory = device_allocate(device, size_bytes);
    assert_non_null(memory);
    device_upload_rows(device, memory, items, 1, size_bytes, size_bytes);
    wait_for_device(device);
    return memory;
}

static inline void from_device(struct device *device, void *items, const void *memory, size_t size_bytes)
{
    device_download_rows(device, items, memory, 1, size_bytes, size_bytes);
    wait_for_device(device);
}

#include "gpu/staging.h"

#include <string.h>

enum status staging_init(struct staging *staging, struct device *device, struct error *error)
{
    *staging = (struct staging){.device = device};
    return staging_reserve(staging, STAGING_BYTES, error);
}

void staging_finish(struct staging *staging)
{
    if (!staging->device)
        return;
    for (int i = 0; i < 2; i++) {
        if (staging->used[i])
            device_event_wait(staging->device, staging->events[i]);
        device_unpin(staging->device, staging->buffers[i]);
        device_event_destroy(staging->device, staging->events[i]);
    }
    *staging = (struct staging){0};
}

enum status staging_reserve(struct staging *staging, size_t size_bytes, struct error *error)
{
    if (size_bytes <= staging->size_bytes)
        return STATUS_OK;
    struct device *device = staging->device;
    staging_finish(staging);
    *staging = (struct staging){.device = device, .size_bytes = size_bytes};
    for (int i = 0; i < 2; i++) {
        staging->buffers[i] = device_pin(device, size_bytes);
        staging->events[i] = device_event_create(device);
        if (staging->buffers[i] && staging->events[i])
            continue;
        staging_finish(staging);
        if (device_status(device, error) != STATUS_OK)
            return error->status;
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "no pinned memory: two buffers of %zu bytes wanted", size_bytes);
    }
    return STATUS_OK;
}

unsigned char *staging_take(struct staging *staging)
{
    int i = staging->next;
    if (staging->used[i])
        device_event_wait(staging->device, staging->events[i]);
    return staging->buffers[i];
}

void staging_send(struct staging *staging, void *to, size_t size_bytes)
{
    int i = staging->next;
    device_upload(staging->device, to, staging->buffers[i], size_bytes);
    device_event_record(staging->device, staging->events[i]);
    staging->used[i] = true;
    staging->next = 1 - i;
}

void staging_copy(struct staging *staging, void *to, const void *from, size_t size_bytes)
{
    for (size_t done = 0; done < size_bytes;) {
        size_t n = size_bytes - done < staging->size_bytes ? size_bytes - done : staging->size_bytes;
        memcpy(staging_take(staging), (const unsigned char *)from + done, n);
        staging_send(staging, (unsigned char *)to + done, n);
        done += n;
    }
}

// Any bytes as a group's committed offset and metadata: eight bytes of offset, then the metadata. Metadata
// accepted as a map, up to a ".", must be exactly the encoding of the map, and the map must then work. The
// suspects behind it are read or refused.
#include "consumer/queue/kafka/client/offset_map.h"
#include "consumer/queue/kafka/suspects.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

// Delivers and finishes a full window from the watermark on.
static void work_through(struct offset_map *map)
{
    int64_t first = map->watermark;
    int32_t n_new = 0, n_finished = map->n_finished;
    for (int64_t i = 0; i < OFFSET_MAP_WINDOW; i++) {
        if (offset_map_deliver(map, first + i) == DELIVERY_NEW)
            n_new++;
    }
    fuzz_check(n_new + n_finished == OFFSET_MAP_WINDOW && map->n_running == n_new && offset_map_is_full(map));
    for (int64_t i = OFFSET_MAP_WINDOW - 1; i >= 0; i--) {
        if (offset_map_is_running(map, first + i))
            offset_map_finish(map, first + i);
    }
    fuzz_check(map->watermark == first + OFFSET_MAP_WINDOW && map->n_finished == 0 && map->n_running == 0);
}

static struct text map_of(struct text metadata)
{
    const char *dot = metadata.size ? memchr(metadata.data, '.', metadata.size) : NULL;
    return dot ? (struct text){metadata.data, (size_t)(dot - metadata.data)} : metadata;
}

static void read_suspects(int64_t offset, struct text metadata)
{
    struct suspects suspects = {0};
    struct error error;
    enum status status = suspects_take_over(&suspects, offset, metadata, 1, &error);
    fuzz_check(status == STATUS_OK || status == STATUS_REFUSE);
    fuzz_check(suspects.n_items >= 0 && suspects.n_items <= SUSPECTS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t offset;
    if (size < sizeof offset)
        return 0;
    memcpy(&offset, data, sizeof offset);
    struct text metadata = {(const char *)data + sizeof offset, size - sizeof offset};
    struct offset_map map;
    struct error error;
    offset_map_init(&map);
    if (offset_map_restart(&map, offset, metadata, &error) != STATUS_OK) {
        fuzz_check(error.status == STATUS_REFUSE && map.watermark == OFFSET_UNKNOWN);
        return 0;
    }
    struct buffer again = {0};
    offset_map_encode(&map, &again);
    fuzz_check(map.watermark == offset);
    if (metadata.size > 0)
        fuzz_check(text_equal(map_of(metadata), (struct text){again.data, again.size}));
    buffer_finish(&again);
    if (offset < INT64_MAX - 2 * OFFSET_MAP_WINDOW)
        work_through(&map);
    read_suspects(offset, metadata);
    return 0;
}

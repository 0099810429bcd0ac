// Any bytes as what a group committed: eight bytes of offset, then the metadata. What is accepted must be
// exactly what encoding the map gives back, and the map must then work.
#include "consumer/kafka/offset_map.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

// Delivers and finishes a full window from the watermark on.
static void work_through(struct offset_map *map)
{
    int64_t first = map->watermark;
    int32_t n_new = 0, n_finished = map->n_finished;
    for (int64_t i = 0; i < OFFSET_MAP_WINDOW; i++) {
        if (offset_map_deliver(map, first + i) == DELIVERY_NEW)
            n_new++;
    }
    require(n_new + n_finished == OFFSET_MAP_WINDOW && map->n_running == n_new && offset_map_is_full(map));
    for (int64_t i = OFFSET_MAP_WINDOW - 1; i >= 0; i--) {
        if (offset_map_is_running(map, first + i))
            offset_map_finish(map, first + i);
    }
    require(map->watermark == first + OFFSET_MAP_WINDOW && map->n_finished == 0 && map->n_running == 0);
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
        require(error.status == STATUS_REFUSE && map.watermark == OFFSET_UNKNOWN);
        return 0;
    }
    struct buffer again = {0};
    offset_map_encode(&map, &again);
    require(map.watermark == offset);
    if (metadata.size > 0)
        require(text_equal(metadata, (struct text){again.data, again.size}));
    buffer_finish(&again);
    if (offset < INT64_MAX - 2 * OFFSET_MAP_WINDOW)
        work_through(&map);
    return 0;
}

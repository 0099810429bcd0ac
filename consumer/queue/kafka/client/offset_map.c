#include "consumer/queue/kafka/client/offset_map.h"

#include "schemas/base/base64.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define TAG "sheaf1:"
// Above any offset a broker gives; keeps offset + 1 from overflowing.
#define OFFSET_MAX (INT64_MAX - 1)

enum { CRC_BYTES = 4, BITMAP_BYTES_MAX = OFFSET_MAP_WINDOW / 8 };

_Static_assert(sizeof TAG - 1 + (CRC_BYTES + BITMAP_BYTES_MAX + 2) / 3 * 4 == OFFSET_MAP_TEXT_BYTES_MAX,
               "the longest metadata");

static size_t bit_word(int64_t offset)
{
    return (size_t)((uint64_t)offset % OFFSET_MAP_WINDOW / 64);
}

static uint64_t bit_mask(int64_t offset)
{
    return UINT64_C(1) << ((uint64_t)offset % 64);
}

static bool bit_get(const uint64_t *bits, int64_t offset)
{
    return bits[bit_word(offset)] & bit_mask(offset);
}

static void bit_set(uint64_t *bits, int64_t offset)
{
    bits[bit_word(offset)] |= bit_mask(offset);
}

static void bit_clear(uint64_t *bits, int64_t offset)
{
    bits[bit_word(offset)] &= ~bit_mask(offset);
}

static bool in_window(const struct offset_map *map, int64_t offset)
{
    return map->watermark != OFFSET_UNKNOWN && offset >= map->watermark &&
           offset - map->watermark < OFFSET_MAP_WINDOW;
}

// Moves the watermark over finished offsets and over gaps. Each offset of the window is passed once; a gap of
// any length is skipped in one step.
static void advance_watermark(struct offset_map *map)
{
    while (map->n_running > 0 || map->n_finished > 0) {
        if (bit_get(map->finished, map->watermark)) {
            bit_clear(map->finished, map->watermark);
            map->n_finished--;
        } else if (map->watermark >= map->position || bit_get(map->running, map->watermark)) {
            return;
        }
        map->watermark++;
        if (map->position < map->watermark)
            map->position = map->watermark;
    }
    map->watermark = map->position;
}

void offset_map_init(struct offset_map *map)
{
    *map = (struct offset_map){.watermark = OFFSET_UNKNOWN, .position = OFFSET_UNKNOWN};
}

enum delivery offset_map_deliver(struct offset_map *map, int64_t offset)
{
    if (offset < 0 || offset > OFFSET_MAX)
        return DELIVERY_FULL;
    if (map->watermark == OFFSET_UNKNOWN)
        map->watermark = map->position = offset;
    if (offset < map->watermark)
        return DELIVERY_DONE;
    offset_map_reach(map, offset);
    if (!in_window(map, offset))
        return offset < map->watermark ? DELIVERY_DONE : DELIVERY_FULL;
    bool known = bit_get(map->finished, offset) || bit_get(map->running, offset);
    if (!known) {
        bit_set(map->running, offset);
        map->n_running++;
    }
    if (map->position <= offset)
        map->position = offset + 1;
    advance_watermark(map);
    return known ? DELIVERY_DONE : DELIVERY_NEW;
}

bool offset_map_is_running(const struct offset_map *map, int64_t offset)
{
    return in_window(map, offset) && bit_get(map->running, offset);
}

bool offset_map_is_finished(const struct offset_map *map, int64_t offset)
{
    return offset < map->watermark || (in_window(map, offset) && bit_get(map->finished, offset));
}

static void stop_running(struct offset_map *map, int64_t offset)
{
    assert(offset_map_is_running(map, offset));
    bit_clear(map->running, offset);
    map->n_running--;
}

void offset_map_finish(struct offset_map *map, int64_t offset)
{
    stop_running(map, offset);
    bit_set(map->finished, offset);
    map->n_finished++;
    advance_watermark(map);
}

void offset_map_forget(struct offset_map *map, int64_t offset)
{
    stop_running(map, offset);
}

void offset_map_release(struct offset_map *map, int64_t offset)
{
    stop_running(map, offset);
    if (map->position > offset)
        map->position = offset;
}

void offset_map_reach(struct offset_map *map, int64_t offset)
{
    if (offset < 0 || offset > OFFSET_MAX)
        return;
    if (map->watermark == OFFSET_UNKNOWN)
        map->watermark = map->position = offset;
    if (map->position < offset)
        map->position = offset;
    advance_watermark(map);
}

bool offset_map_skip(struct offset_map *map, int64_t from, int64_t to)
{
    int32_t n_finished = map->n_finished;
    for (int64_t offset = from > map->watermark ? from : map->watermark;
         offset < to && in_window(map, offset); offset++) {
        if (bit_get(map->running, offset) || bit_get(map->finished, offset))
            continue;
        bit_set(map->finished, offset);
        map->n_finished++;
    }
    bool is_new = map->n_finished > n_finished;
    advance_watermark(map);
    return is_new;
}

int32_t offset_map_count(const struct offset_map *map, int64_t from)
{
    int32_t n_finished = map->n_finished;
    for (int64_t offset = map->watermark; offset < from && in_window(map, offset); offset++)
        n_finished -= bit_get(map->finished, offset);
    return n_finished;
}

bool offset_map_is_full(const struct offset_map *map)
{
    return map->watermark != OFFSET_UNKNOWN && !in_window(map, map->position);
}

// CRC-32 of IEEE 802.3 (reflected, 0xEDB88320), four bits at a time.
static uint32_t crc32_add(uint32_t crc, const unsigned char *data, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
                                       0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

// The CRC covers the watermark: a bitmap copied to another offset is invalid.
uint32_t offset_map_crc(int64_t watermark, const unsigned char *bitmap, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)((uint64_t)watermark >> 8 * i);
    return crc32_add(crc32_add(0, bytes, sizeof bytes), bitmap, size);
}

// Returns the number of bytes up to the last nonzero one.
static size_t make_bitmap(const struct offset_map *map, unsigned char bitmap[BITMAP_BYTES_MAX])
{
    if (map->n_finished == 0)
        return 0;
    size_t first = bit_word(map->watermark);
    unsigned shift = (uint64_t)map->watermark % 64;
    size_t size = 0;
    for (size_t i = 0; i < OFFSET_MAP_WORDS; i++) {
        uint64_t low = map->finished[(first + i) % OFFSET_MAP_WORDS];
        uint64_t high = map->finished[(first + i + 1) % OFFSET_MAP_WORDS];
        uint64_t word = shift ? low >> shift | high << (64 - shift) : low;
        for (size_t j = 0; j < 8; j++) {
            bitmap[i * 8 + j] = (unsigned char)(word >> 8 * j);
            if (bitmap[i * 8 + j])
                size = i * 8 + j + 1;
        }
    }
    return size;
}

void offset_map_encode(const struct offset_map *map, struct buffer *out)
{
    unsigned char bytes[CRC_BYTES + BITMAP_BYTES_MAX];
    size_t size = make_bitmap(map, bytes + CRC_BYTES);
    uint32_t crc = offset_map_crc(map->watermark, bytes + CRC_BYTES, size);
    for (size_t i = 0; i < CRC_BYTES; i++)
        bytes[i] = (unsigned char)(crc >> 8 * i);
    buffer_add_string(out, TAG);
    base64_encode((struct text){(const char *)bytes, CRC_BYTES + size}, out);
}

static enum status refuse_metadata(struct error *error, int64_t offset, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "the metadata committed with offset %" PRId64
                     " %s; it would say which later jobs are done",
                     offset, what);
}

// Accepts only the encoding of offset_map_encode: one text per map.
static enum status decode_bitmap(int64_t offset, struct text metadata, struct buffer *bytes,
                                 struct error *error)
{
    size_t tag_size = sizeof TAG - 1;
    if (metadata.size < tag_size || memcmp(metadata.data, TAG, tag_size) != 0)
        return refuse_metadata(error, offset, "is not an offset map of this version of sheaf (tag " TAG ")");
    if (metadata.size > OFFSET_MAP_TEXT_BYTES_MAX)
        return refuse_metadata(error, offset, "is longer than an offset map can be");
    struct text digits = {metadata.data + tag_size, metadata.size - tag_size};
    if (!base64_decode(digits, bytes)) {
        if (bytes->failed)
            return error_memory(error, STATUS_RETRY, "reading an offset map");
        return refuse_metadata(error, offset, "is a damaged offset map: it is not base64");
    }
    if (bytes->size < CRC_BYTES)
        return refuse_metadata(error, offset, "is a damaged offset map: it is cut short");
    const unsigned char *data = (const unsigned char *)bytes->data;
    size_t size = bytes->size - CRC_BYTES;
    uint32_t crc = 0;
    for (size_t i = 0; i < CRC_BYTES; i++)
        crc |= (uint32_t)data[i] << 8 * i;
    if (crc != offset_map_crc(offset, data + CRC_BYTES, size))
        return refuse_metadata(error, offset, "is a damaged offset map: its CRC is wrong");
    if (size > 0 &&
        (data[CRC_BYTES + size - 1] == 0 || data[CRC_BYTES] & 1 || offset > OFFSET_MAX - 8 * (int64_t)size))
        return refuse_metadata(error, offset, "is an offset map that sheaf does not write");
    return STATUS_OK;
}

// Moves the bits to a window at `offset`; running offsets remain running.
static void restart_at(struct offset_map *map, int64_t offset, const unsigned char *bitmap, size_t size)
{
    struct offset_map old = *map;
    *map = (struct offset_map){.watermark = offset, .position = offset};
    for (size_t i = 0; i < OFFSET_MAP_WINDOW && (int64_t)i <= OFFSET_MAX - offset; i++) {
        int64_t at = offset + (int64_t)i;
        if (i / 8 < size && bitmap[i / 8] >> i % 8 & 1) {
            bit_set(map->finished, at);
            map->n_finished++;
        } else if (offset_map_is_running(&old, at)) {
            bit_set(map->running, at);
            map->n_running++;
        }
    }
}

void offset_map_restart_empty(struct offset_map *map, int64_t offset)
{
    restart_at(map, offset, NULL, 0);
}

enum status offset_map_restart(struct offset_map *map, int64_t offset, struct text metadata,
                               struct error *error)
{
    if (offset < 0 || offset > OFFSET_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_BROKER, "committed offset %" PRId64 " is no offset",
                         offset);
    if (metadata.size == 0) {
        offset_map_restart_empty(map, offset);
        return STATUS_OK;
    }
    const char *dot = memchr(metadata.data, '.', metadata.size);
    if (dot)
        metadata.size = (size_t)(dot - metadata.data);
    struct buffer bytes = {0};
    enum status status = decode_bitmap(offset, metadata, &bytes, error);
    if (status == STATUS_OK)
        restart_at(map, offset, (const unsigned char *)bytes.data + CRC_BYTES, bytes.size - CRC_BYTES);
    buffer_finish(&bytes);
    return status;
}

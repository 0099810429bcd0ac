// The offset map of one partition: which delivered offsets are still being worked on and which are finished.
// Jobs finish in any order, so what is committed is the watermark, the lowest unfinished delivered offset,
// and with it, as the commit's metadata, a bitmap of the finished offsets above it. Whoever owns the
// partition next starts at the watermark and skips what the bitmap covers.
//
// Offsets have gaps (control records of transactions, compaction), so "lowest unfinished" runs over what was
// delivered: an offset below `position` that was never delivered never will be, and does not hold the
// watermark up.
//
// A map is plain memory without pointers: copying the struct copies the map. No thread of its own.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    // Offsets a map can tell apart, the watermark being the first. A broker keeps at most 4,096 bytes of
    // metadata an
    // offset (offset.metadata.max.bytes): 16,384 bits with tag and CRC are 2,743 characters.
    OFFSET_MAP_WINDOW = 16384,
    OFFSET_MAP_WORDS = OFFSET_MAP_WINDOW / 64,
    OFFSET_MAP_TEXT_BYTES_MAX = 2743,
    OFFSET_UNKNOWN = -1,
};

struct offset_map {
    int64_t watermark; // lowest unfinished delivered offset; OFFSET_UNKNOWN until the first delivery
    int64_t position;  // next offset to be delivered
    int32_t n_running;
    int32_t n_finished; // at or above the watermark
    // Bit `offset % OFFSET_MAP_WINDOW` for the offsets from the watermark on: the window moves, the bits
    // stay.
    uint64_t running[OFFSET_MAP_WORDS];
    uint64_t finished[OFFSET_MAP_WORDS];
};

enum delivery {
    DELIVERY_NEW,  // now running
    DELIVERY_DONE, // finished, or running already: drop the record
    DELIVERY_FULL, // beyond the window: deliver it again when the watermark has moved
};

// Nothing known; the first delivery sets watermark and position.
void offset_map_init(struct offset_map *map);
// Starts at what the group committed: `offset` and its metadata (empty: nothing above it is finished).
// Offsets that still run here and are not covered go on running, the others are forgotten. STATUS_REFUSE, and
// the map as it was, when the metadata is of another program, of another version, of another offset or
// damaged.
enum status offset_map_restart(struct offset_map *map, int64_t offset, struct text metadata,
                               struct error *error) WARN_UNUSED;
// The same without looking at metadata.
void offset_map_restart_empty(struct offset_map *map, int64_t offset);

enum delivery offset_map_deliver(struct offset_map *map, int64_t offset);
bool offset_map_is_running(const struct offset_map *map, int64_t offset);
// Below the watermark, or finished above it.
bool offset_map_is_finished(const struct offset_map *map, int64_t offset);
// A running offset is finished, or (`forget`) no longer anybody's: lost to another worker.
void offset_map_finish(struct offset_map *map, int64_t offset);
void offset_map_forget(struct offset_map *map, int64_t offset);
// A running offset will be delivered again: the position goes back to it.
void offset_map_release(struct offset_map *map, int64_t offset);
// The log holds nothing more below `offset`: the end of the partition was reached there.
void offset_map_reach(struct offset_map *map, int64_t offset);
// No room for the next offset.
bool offset_map_is_full(const struct offset_map *map);

// The CRC-32 that the metadata holds, over an offset and what belongs to it.
uint32_t offset_map_crc(int64_t offset, const unsigned char *bytes, size_t size);
// The metadata: tag, then base64 of a CRC-32 (little-endian; over the watermark as 8 little-endian bytes,
// then the bitmap) and the bitmap: bit i % 8 of byte i / 8 is offset watermark + i, zero bytes at the end
// left out. What follows a "." is not the map's (suspects.h).
void offset_map_encode(const struct offset_map *map, struct buffer *out);

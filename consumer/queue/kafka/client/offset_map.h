// The offset map of one partition: which delivered offsets are running and which are finished. Jobs finish in
// any order, so the committed offset is the watermark, the lowest unfinished delivered offset, and the
// commit's metadata is a bitmap of the finished offsets above it. The next owner of the partition starts at
// the watermark and skips the offsets in the bitmap:
//
//   offset     100  101  102  103  104  105  106      f finished, r running, - gap (never delivered)
//   state       r    f    f    r    -    f             watermark 100, position 106
//   commit     offset 100, bitmap 0 1 1 0 0 1          byte 0 = 0x26
//
//   job 100 finishes:  watermark 103, bitmap 0 0 1     101 and 102 are passed, too
//   job 103 finishes:  watermark 106, no bitmap        the gap 104 and 105 are passed, too
//
// Offsets have gaps (control records of transactions, aborted records, compaction). An offset below `position`
// that was not delivered never will be, so the watermark passes it. Once it is known that a gap lost no job
// (kafka_gaps.c), its offsets are marked as finished (offset_map_skip): in the example the bitmap is then
// 0 1 1 0 1 1. So the number of unfinished jobs is the number of unfinished offsets.
//
// A map is plain memory without pointers: copying the struct copies the map. No thread of its own.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    // Offsets that a map covers, from the watermark on. A broker keeps at most 4,096 bytes of metadata per
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
    DELIVERY_DONE, // finished, or running already: skip the record
    DELIVERY_FULL, // beyond the window: deliver again when the watermark has moved
};

// Empty; the first delivery sets watermark and position.
void offset_map_init(struct offset_map *map);
// Starts at a committed `offset` with its metadata (empty: nothing above it is finished). Offsets that are
// running here and not finished in the metadata stay running; others are removed. STATUS_REFUSE: the metadata
// belongs to another program, version or offset, or is damaged; the map is then unchanged.
enum status offset_map_restart(struct offset_map *map, int64_t offset, struct text metadata,
                               struct error *error) WARN_UNUSED;
// The same, without metadata.
void offset_map_restart_empty(struct offset_map *map, int64_t offset);

enum delivery offset_map_deliver(struct offset_map *map, int64_t offset);
bool offset_map_is_running(const struct offset_map *map, int64_t offset);
// True if the offset is below the watermark, or finished above it.
bool offset_map_is_finished(const struct offset_map *map, int64_t offset);
// Marks a running offset as finished, or (`forget`) removes it because its partition went to another worker.
void offset_map_finish(struct offset_map *map, int64_t offset);
void offset_map_forget(struct offset_map *map, int64_t offset);
// Rewinds the position to a running offset, which will be delivered again.
void offset_map_release(struct offset_map *map, int64_t offset);
// Records that the end of the partition is at `offset`: no undelivered record is below it.
void offset_map_reach(struct offset_map *map, int64_t offset);
// Records that no job is at the offsets [from, to), except running ones. Offsets in the window count as
// finished. Returns true if they did not before.
bool offset_map_skip(struct offset_map *map, int64_t from, int64_t to);
// Counts the finished offsets at or above both the watermark and `from`.
int32_t offset_map_count(const struct offset_map *map, int64_t from);
// Whether the next offset is beyond the window.
bool offset_map_is_full(const struct offset_map *map);

// The CRC-32 of the metadata, over an offset and its data.
uint32_t offset_map_crc(int64_t offset, const unsigned char *bytes, size_t size);
// Appends the metadata: a tag, then the base64 of a CRC-32 (little-endian, over the watermark as 8
// little-endian bytes and the bitmap) and of the bitmap. Bit i % 8 of byte i / 8 is offset watermark + i;
// trailing zero bytes are left out. The text after a "." belongs to the suspects (suspects.h).
void offset_map_encode(const struct offset_map *map, struct buffer *out);

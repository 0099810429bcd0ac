// Suspects: jobs of a partition that may have crashed a worker. The state is committed with the partition's
// offset, after the offset map in the metadata, so it follows the partition to its next owner:
//
//   - `promised`: the offset up to which jobs may be computed. Unfinished offsets below it may have been
//     running when a worker crashed, and then become suspects. Ordinary commits raise it ahead of the
//     position;
//   - suspects of one crash: all unfinished offsets below `doubtful`. They are computed a few at a time; each
//     group is committed before it starts;
//   - suspects of more crashes, by offset, with their number of crashes. They are computed alone, each
//     committed before it starts;
//   - the owner: the id of a process (kafka_fleet.c). A worker that leaves or releases a partition commits that it computes
//     nothing there, so its successor counts no crash.
//
// The text is ".S1:" and the base64 of these fields (little-endian; a varint has 7 bits a byte, low bits
// first):
//
//   CRC-32 of the following fields and the offset, 4 bytes
//   owner, 8 bytes
//   flags, 1 byte: 1 = jobs are being computed
//   promised - offset, varint
//   max(doubtful - offset, 0), varint
//   n, the number of listed suspects, varint
//   n times: offset - the previous one (at first the committed one), varint; crashes * 4 + state, 1 byte
//
// state: 0 = may be computed, 1 = is computed among few, 2 = is computed alone. Plain memory, no thread.
#pragma once

#include "consumer/queue/kafka/client/offset_map.h"
#include "schemas/suspect.h"

enum {
    // Limit per partition. Beyond it a suspect with few crashes is counted below `doubtful` again.
    SUSPECTS_MAX = 256,
    SUSPECT_CRASHES_MAX = 60, // counts saturate here
    SUSPECTS_TEXT_BYTES_MAX = 1344,
    SUSPECTS_AHEAD = 4096,      // offsets promised beyond the position
    SUSPECTS_ALONE_CRASHES = 2, // a job with this number of crashes is computed alone
};

_Static_assert((int)OFFSET_MAP_TEXT_BYTES_MAX + (int)SUSPECTS_TEXT_BYTES_MAX <= 4096,
               "a broker keeps no more");

struct suspect {
    int64_t offset;
    uint8_t crashes;
    uint8_t state; // enum suspect_state
};

struct suspects {
    int64_t promised;                   // as committed; 0: none
    int64_t doubtful;                   // 0: none
    struct suspect items[SUSPECTS_MAX]; // sorted by offset
    int32_t n_items;
};

// Takes over a partition from its committed `offset` and metadata (which includes the map). No crash is
// counted if the committed owner is `owner`, this process. STATUS_REFUSE: the metadata is damaged, or of
// another version.
enum status suspects_take_over(struct suspects *suspects, int64_t offset, struct text metadata,
                               uint64_t owner, struct error *error) WARN_UNUSED;
// True if jobs may have been computed when the metadata was committed. Also returns true if the metadata
// cannot be read.
bool suspects_are_computed(int64_t offset, struct text metadata);
// The owner that committed the metadata; 0: none, or it cannot be read.
uint64_t suspects_owner(int64_t offset, struct text metadata);
// Returns the number of crashes at which the job may have been running.
int32_t suspects_crashes(const struct suspects *suspects, int64_t offset);
// Marks the job as being computed, among few others or alone.
void suspects_compute(struct suspects *suspects, int64_t offset, enum suspect_state state);
// Records that no suspect is being computed any more.
void suspects_rest(struct suspects *suspects);
// Removes finished jobs.
void suspects_prune(struct suspects *suspects, const struct offset_map *map);
// Appends the text for a commit at the map's watermark. `leaving`: nothing is computed from now on. Returns
// `promised`.
int64_t suspects_encode(const struct suspects *suspects, const struct offset_map *map, uint64_t owner,
                        bool leaving, struct buffer *out);

// Which jobs of a partition may have killed a worker. What is known of it is committed with the partition's offset, behind
// the offset map, so that it follows the partition to whichever worker owns it next, on whatever machine:
//
//   - how far the log may be computed (`promised`): whatever is not finished below it may have been running when a worker
//     died, and is a suspect then. It is committed ahead of what is read, with the commits there are anyway;
//   - suspects of one crash: all unfinished offsets below `doubtful`. They are computed a few at a time, and each few are
//     committed as such before;
//   - suspects of more crashes, by offset, with their number. They are computed alone, which is committed before;
//   - who computes: a worker that leaves, or gives a partition away, says so, and that is no crash.
//
// The text is ".S1:" and the base64 of
//
//   CRC-32 of what follows and the offset | owner, 8 bytes | flags: 1 = being computed | promised - offset |
//   max(doubtful - offset, 0) | n | n times: offset - the one before, crashes * 4 + (0 may be computed, 1 is, 2 is alone)
//
// numbers little-endian, from `promised` on as varints (7 bits a byte, the low ones first). Plain memory, no thread.
#pragma once

#include "consumer/kafka/offset_map.h"

enum {
    SUSPECTS_MAX = 256,          // of one partition; beyond, one with few crashes counts as doubtful again
    SUSPECT_CRASHES_MAX = 60,    // counted; more are as many
    SUSPECTS_TEXT_BYTES_MAX = 1344,
    SUSPECTS_AHEAD = 4096,       // offsets promised beyond the position
    SUSPECTS_ALONE_CRASHES = 2,  // from so many on a job is computed alone
};

_Static_assert((int)OFFSET_MAP_TEXT_BYTES_MAX + (int)SUSPECTS_TEXT_BYTES_MAX <= 4096, "a broker keeps no more");

enum suspect_state { SUSPECT_WAITS, SUSPECT_COMPUTED, SUSPECT_ALONE };

struct suspect {
    int64_t offset;
    uint8_t crashes;
    uint8_t state;
};

struct suspects {
    int64_t promised;  // by what is committed; 0: nothing
    int64_t doubtful;  // 0: none
    struct suspect items[SUSPECTS_MAX]; // by offset
    int32_t n_items;
};

// Takes the partition over, with what its last owner committed at `offset` (metadata: all of it, the map included).
// `owner` is this process: what it said itself is no crash. STATUS_REFUSE: damaged, or of another version.
enum status suspects_take_over(struct suspects *suspects, int64_t offset, struct text metadata, uint64_t owner,
                               struct error *error) WARN_UNUSED;
// At how many crashes the job may have been computed.
int32_t suspects_crashes(const struct suspects *suspects, int64_t offset);
// The job is computed next, among few others or alone.
void suspects_compute(struct suspects *suspects, int64_t offset, bool alone);
// Nobody is computed alone or among few any more.
void suspects_rest(struct suspects *suspects);
// Forgets what is finished.
void suspects_prune(struct suspects *suspects, const struct offset_map *map);
// Adds the text for a commit at the map's watermark. `leaving`: nothing is computed from now on. Returns what is promised.
int64_t suspects_encode(const struct suspects *suspects, const struct offset_map *map, uint64_t owner, bool leaving,
                        struct buffer *out);

// The dead letters that sheaf redrive has sent to the jobs topic again: a record of the control topic, written
// in the same transaction as these jobs, so that each is sent once. Its key begins like a progress marker's
// (marker.h); versions that do not know it take it for an invalid marker and skip it.
//
//   key    ["submit", JOBS_TOPIC, DEAD_TOPIC, "redrive"]
//   value  {"ranges": [[PARTITION, FIRST, LAST, WRITTEN], ...]}, offsets of the dead topic, and the time of the
//          record at LAST in seconds since 1970 UTC (0: unknown): another time means a recreated topic
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>

// The limit of one record. Ranges are merged, so only dead letters that were left out in between make more.
enum { REDRIVEN_RANGES_MAX = 16384 };

struct redriven_range {
    int32_t partition;
    int64_t first, last; // offsets
    int64_t written_s;   // of `last`
};

// A zeroed struct is the empty set. Sorted by partition and first.
struct redriven {
    struct redriven_range *ranges; // [n]
    size_t n, capacity;
};

bool redriven_has(const struct redriven *redriven, int32_t partition, int64_t offset);
// Adds an offset that is not in the set. STATUS_REFUSE: out of memory, or more than REDRIVEN_RANGES_MAX.
enum status redriven_add(struct redriven *redriven, int32_t partition, int64_t offset, int64_t written_s,
                         struct error *error) WARN_UNUSED;
// Forgets a partition's offsets.
void redriven_drop(struct redriven *redriven, int32_t partition);
void redriven_encode(const struct redriven *redriven, struct text jobs, struct text dead, struct buffer *key,
                     struct buffer *value);
bool redriven_is_key(struct text key, struct text jobs, struct text dead);
// Replaces the set. STATUS_REJECT: the value is not one of these records; the set is empty then.
enum status redriven_decode(struct redriven *redriven, struct text value, struct error *error) WARN_UNUSED;
void redriven_finish(struct redriven *redriven);

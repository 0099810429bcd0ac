// Cancellations: records of the control topic that cancel a dataset or one job. The topic is compacted, and
// every worker reads all of it before it starts, so the key names what is cancelled:
//
//   key    ["cancel", DATASET] or ["cancel", DATASET, JOB_ID]
//   value  {"dataset", "job_id", "at", "jobs", "ends"}; empty (a tombstone): withdraws the cancellation
//
// Jobs created under the same name after `at`, in seconds since 1970 UTC, are not cancelled. Only producers
// other than `sheaf submit` create them, because submit refuses a cancelled name.
//
// Clocks of hosts differ, so two kinds of jobs are cancelled although their creation time is after `at`:
//
//   - jobs of a submission, because its marker (marker.h) says when they were created;
//   - jobs below `ends`, the log ends of the topic `jobs` by partition when the cancellation was written
//     (absent: unknown). Jobs created more than CANCEL_SKEW_S after `at` are not: the topic was recreated.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CANCEL_BYTES_MAX = 16384,    // of a key or value; names of 128 and 256 bytes fit, each byte escaped
    CANCEL_ENDS_MAX = 512,       // partitions whose ends fit in CANCEL_BYTES_MAX
    CANCEL_SKEW_S = 86400,       // upper bound of the difference between hosts' clocks
    CANCEL_SET_MAX = 1 << 18,    // cancellations in force, and datasets with a submission
    CANCEL_WITHDRAWN_MAX = 1024, // withdrawn names that a set keeps, or half of its names if these are more
};

struct cancel {
    struct text dataset;
    struct text job_id; // empty: the whole dataset
    int64_t at_s;       // CANCEL_NEVER: the cancellation was withdrawn
    struct text jobs;   // the topic to which `ends` belongs
    int64_t *ends;      // [n_ends]
    int32_t n_ends;     // 0: unknown
};

#define CANCEL_NEVER INT64_MIN

void cancel_encode(const struct cancel *cancel, struct buffer *key, struct buffer *value);
// Decodes a cancellation; its texts are in the arena. STATUS_REJECT: the record is not a cancellation.
enum status cancel_decode(struct text key, struct text value, struct arena *arena, struct cancel *cancel,
                          struct error *error) WARN_UNUSED;

struct cancel_item {
    struct text dataset; // data NULL: free
    struct text job_id;  // empty: the whole dataset
    int64_t at_s;        // as in struct cancel; CANCEL_NEVER: not cancelled
    int64_t submitted_s; // for a whole dataset: `created` of its submission's marker; CANCEL_NEVER: none
    bool is_cancelled;
    int64_t *ends; // [n_ends_max] n_ends of them are in use
    int32_t n_ends, n_ends_max;
};

// The set of cancellations. A zeroed struct is valid and empty.
struct cancel_set {
    struct cancel_item *items; // open addressing
    size_t capacity;           // a power of two, or 0
    size_t n_items;
    size_t n_cancelled; // items that are a cancellation in force
    size_t n_withdrawn; // items without a cancellation or a submission, which are dropped from time to time
    struct arena arena; // holds their names
};

// Adds a cancellation, which replaces an earlier one of the same name. Its ends must belong to the jobs topic
// of this set, or be empty. Cancellations of single jobs beyond CANCEL_SET_MAX are ignored. STATUS_REFUSE:
// CANCEL_SET_MAX is reached. STATUS_RESTART: no memory.
enum status cancel_set_put(struct cancel_set *set, const struct cancel *cancel,
                           struct error *error) WARN_UNUSED;
// Records when the jobs of a dataset's submission were created; CANCEL_NEVER: its marker was withdrawn.
// Beyond CANCEL_SET_MAX submissions are ignored, and only `at` counts for their datasets. STATUS_RESTART: out
// of memory.
enum status cancel_set_put_submission(struct cancel_set *set, struct text dataset, int64_t created_s,
                                      struct error *error) WARN_UNUSED;
// Returns the latest submission time to which a cancellation of this name applies; CANCEL_NEVER: the name is
// not cancelled.
int64_t cancel_set_until(const struct cancel_set *set, struct text dataset, struct text job_id);
// True if the job is cancelled. `submitted_s` is job_submitted_s(), in seconds since 1970 UTC. 0 means
// unknown, which counts as before every cancellation.
bool cancel_set_has(const struct cancel_set *set, struct text dataset, struct text job_id,
                    int64_t submitted_s);
// The same, but also considers `ends`, for the job's record at an offset of the jobs topic.
bool cancel_set_has_record(const struct cancel_set *set, struct text dataset, struct text job_id,
                           int64_t submitted_s, int32_t partition, int64_t offset);
void cancel_set_finish(struct cancel_set *set);

// Cancellations: records of the control topic that cancel a dataset or one job. The topic is compacted and
// every worker reads all of it before it starts, so the key names what is cancelled: the JSON array
// ["cancel", DATASET] or ["cancel", DATASET, JOB_ID]. The value is a JSON object {"dataset", "job_id", "at",
// "jobs", "ends"};
// `at`, in seconds since 1970 UTC, spares jobs that are created later under the same name, by other producers
// than `sheaf submit`, which refuses a cancelled name. An empty value (a tombstone) withdraws the cancellation.
//
// Clocks of hosts differ. So jobs of a submission are cancelled whatever `at` is, because its marker (marker.h)
// says when they were created; and so are those below `ends`, the log ends of the topic `jobs` by partition when
// the cancellation was written (absent: unknown), unless they are newer than any difference of clocks: then the
// topic was made again.
#pragma once

#include "schemas/arena.h"
#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CANCEL_BYTES_MAX = 16384, // key or value; names of 128 and 256 bytes fit, each byte escaped
    CANCEL_ENDS_MAX = 512,    // partitions: their ends fit CANCEL_BYTES_MAX
    CANCEL_SKEW_S = 86400,    // more than clocks of hosts differ
    CANCEL_SET_MAX = 1 << 18, // cancellations in force, and datasets with a submission
};

struct cancel {
    struct text dataset;
    struct text job_id; // empty: the whole dataset
    int64_t at_s;       // CANCEL_NEVER: withdrawn
    struct text jobs;   // the topic of `ends`
    int64_t *ends;      // [n_ends]
    int32_t n_ends;     // 0: unknown
};

#define CANCEL_NEVER INT64_MIN

void cancel_encode(const struct cancel *cancel, struct buffer *key, struct buffer *value);
// STATUS_REJECT: not a cancellation. Texts are in the arena.
enum status cancel_decode(struct text key, struct text value, struct arena *arena, struct cancel *cancel,
                          struct error *error) WARN_UNUSED;

struct cancel_item {
    struct text dataset; // data NULL: free
    struct text job_id;  // empty: the whole dataset
    int64_t at_s;        // as in struct cancel; CANCEL_NEVER: not cancelled
    int64_t submitted_s; // of a whole dataset: `created` of its submission's marker; CANCEL_NEVER: none
    bool was_cancelled;
    int64_t *ends; // [n_ends_max], of which n_ends are in use
    int32_t n_ends, n_ends_max;
};

// The set of cancellations. A zeroed struct is valid and empty.
struct cancel_set {
    struct cancel_item *items; // open addressing
    size_t capacity;           // a power of two, or 0
    size_t n_items;
    size_t n_cancelled; // items that are or were a cancellation
    struct arena arena; // their names
};

// The newest record of a name counts. Its ends must be of the topic whose jobs are asked for, or none.
// STATUS_REFUSE: CANCEL_SET_MAX is reached. STATUS_RESTART: no memory.
enum status cancel_set_put(struct cancel_set *set, const struct cancel *cancel,
                           struct error *error) WARN_UNUSED;
// The jobs of the dataset's submission were created at this time; CANCEL_NEVER: its marker was withdrawn. Beyond
// CANCEL_SET_MAX further ones are ignored. Then `at` alone counts for their datasets. STATUS_RESTART: no memory.
enum status cancel_set_put_submission(struct cancel_set *set, struct text dataset, int64_t created_s,
                                      struct error *error) WARN_UNUSED;
// A cancellation of the set applies to jobs submitted up to this time; CANCEL_NEVER: there is none.
int64_t cancel_set_until(const struct cancel_set *set, struct text dataset, struct text job_id);
// `created`: job_submitted(), in seconds since 1970 UTC; 0: unknown, as if it were before every cancellation.
bool cancel_set_has(const struct cancel_set *set, struct text dataset, struct text job_id,
                    int64_t submitted_s);
// The same of the job's record in the jobs topic.
bool cancel_set_has_record(const struct cancel_set *set, struct text dataset, struct text job_id,
                           int64_t submitted_s, int32_t partition, int64_t offset);
void cancel_set_finish(struct cancel_set *set);

// The seam between a worker and where jobs come from: Kafka (kafka.c) or the store's own tables (local.c). Everything
// above it is the same code. A transport delivers each record to one worker, takes finished jobs in groups, and makes
// a group's results, dead letters and progress durable in one atomic commit: a crash at any instant loses no job and
// publishes no result twice.
//
// Order of calls: poll and commit as often as wanted, pause and resume between them, close once. Thread: main.
#pragma once

#include "schemas/job.h"

#include <stdbool.h>
#include <stdint.h>

// Headers that name a job beside its record, so that even a record that can't be decoded has its identity. Texts; index
// and created (seconds since 1970 UTC) in decimal.
#define HEADER_DATASET   "sheaf-dataset"
#define HEADER_JOB_ID    "sheaf-job-id"
#define HEADER_CUSTOM_ID "sheaf-custom-id"
#define HEADER_INDEX     "sheaf-index"
#define HEADER_CREATED   "sheaf-created"

// One record as it was delivered; valid during the call of `receive`.
struct record {
    struct text topic;
    int32_t partition;
    int64_t offset;               // row id on the embedded queue
    struct text key;              // data NULL: none
    const struct header *headers; // [n_headers]
    int32_t n_headers;
    bool has_more_headers;        // than these
    int64_t written;              // seconds since 1970 UTC; 0: unknown
    struct text content_type;     // from the headers; may be empty
    struct text value;
    int32_t attempts;             // how often it was started before; on Kafka as far as crashes tell
    int32_t crashes;              // of workers, while it may have been computed
};

// What a transport tells the worker while it polls.
struct transport_events {
    void *context;
    void (*receive)(void *context, const struct record *record);
    // Somebody cancelled a dataset (job_id empty) or one job, as far as it was submitted `until` then, in seconds since 1970 UTC:
    // what was submitted later under the same name may be here before.
    void (*cancel)(void *context, struct text dataset, struct text job_id, int64_t until);
    // Partitions are about to go to another worker: commit what is finished now. The one place where a transport may
    // be called from within poll. May be NULL.
    void (*revoke)(void *context);
};

// Figures of one partition, or of the whole embedded queue.
struct partition_figures {
    struct text topic;
    int32_t partition;
    int64_t position;      // next offset to be delivered
    int64_t committed;     // all below are finished; -1: nothing yet
    int64_t end;           // end of the log
    int32_t n_in_flight;   // delivered and unfinished
    int32_t n_map_covered; // finished above `committed`, remembered by the offset map
    int64_t n_deleted;     // records that were deleted before they were read
};

struct transport;

// Whom a crash from now on is blamed on.
enum start {
    START_AMONG_MANY, // all jobs of this worker that were started, for the first time
    START_AMONG_FEW,  // those started like this, once more
    START_ALONE,      // this job, and no other
};

struct transport_impl {
    const char *name; // "kafka", "store"
    // Waits up to timeout_ms and calls events->receive for at most n_max records. STATUS_RETRY: the source is away for
    // now (the text says why). STATUS_RESTART: fenced or worse.
    enum status (*poll)(struct transport *transport, int timeout_ms, int n_max, const struct transport_events *events,
                        struct error *error);
    // Back-pressure: while paused poll delivers nothing, but must go on being called.
    void (*pause)(struct transport *transport);
    void (*resume)(struct transport *transport);
    // One atomic commit of finished jobs, results and dead letters included (a job with source.record set is a dead
    // letter). The jobs stay the caller's, and on an error may be committed again later. committed[i] tells whether job i
    // was published now (false: the partition went to another worker, or it was published before). STATUS_RETRY with
    // ERROR_RESULT_REFUSED: the source refuses records of these jobs; what is known of which is in job_source.
    enum status (*commit)(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                          struct error *error);
    // Gives unfinished jobs back, so that another worker can take them at once.
    enum status (*release)(struct transport *transport, struct job *const *jobs, size_t n_jobs, struct error *error);
    // Nothing is waiting at the source now (jobs in flight do not count).
    bool (*is_drained)(struct transport *transport);
    // Fills at most n_max rows; returns how many there are.
    size_t (*figures)(struct transport *transport, struct partition_figures *figures, size_t n_max);
    // Readable when poll has something to do; -1: the worker must poll by time.
    int (*fd)(struct transport *transport);
    // Leaves the group, closes connections, frees. Bounded in time.
    void (*close)(struct transport *transport);
    // Was the job cancelled before it was received? To be asked once it is decoded. NULL: cancelled jobs are never
    // delivered.
    bool (*is_cancelled)(struct transport *transport, const struct job *job);
    // Makes it durable that the jobs are computed from now on; nobody computes them before it returns STATUS_OK. NULL: no
    // crashes are counted.
    enum status (*start)(struct transport *transport, struct job *const *jobs, size_t n_jobs, enum start how,
                         struct error *error);
    // Why nothing can be delivered now; "": it can. Valid until the next call of poll. NULL: it always can.
    const char *(*waiting)(struct transport *transport);
};

// Implementations begin with this struct.
struct transport {
    const struct transport_impl *impl;
};

// The interface between a worker and its job queue: Kafka (consumer/queue/kafka/kafka.c) or the store's
// tables (consumer/queue/local.c). A transport delivers each record to one worker. It commits groups of
// finished jobs atomically with results, dead letters and progress (exactly once): a crash at any instant
// loses no job and publishes no result twice.
//
// Order of calls: poll and commit any number of times, with pause and resume between them, then close once.
// Thread: main.
#pragma once

#include "schemas/job.h"
#include "schemas/suspect.h"

#include <stdbool.h>
#include <stdint.h>

// What the submitter of a record says about its job outside the record. It is known even if the record cannot
// be decoded. A zeroed struct says nothing.
struct job_identity {
    struct text dataset, job_id, custom_id; // any bytes; empty: not given
    bool has_index, has_created;
    int64_t index;     // position in the submitted file, from 0
    int64_t created_s; // submission, seconds since 1970 UTC
};

// One delivered record; valid during the call of `receive`.
struct record {
    struct text topic;
    int32_t partition;
    int64_t offset;  // row id on the embedded queue
    struct text key; // data NULL: none
    struct job_identity identity;
    const struct header *headers; // [n_headers]
    int32_t n_headers;
    bool has_more_headers;    // beyond n_headers
    int64_t written_s;        // seconds since 1970 UTC; 0: unknown
    struct text content_type; // from the headers; may be empty
    struct text value;
    int64_t redriven;       // how often it was sent again as a dead letter
    struct text cut;        // the reason if the value is only the beginning of what was submitted; else empty
    struct text unreadable; // reason, if this empty record replaces records that cannot be read; else empty
    struct text reply_topic; // of its result; empty: the worker's
    struct text refused;     // why the worker computes no job with these headers; empty: it does
    int32_t attempts;        // number of earlier starts; on Kafka the number of crashes
    int32_t crashes;         // crashes of workers that may have been computing it
};

// Callbacks of poll.
struct transport_events {
    void *context;
    void (*receive)(void *context, const struct record *record);
    // A dataset (job_id empty) or one job was cancelled. Applies only to jobs submitted up to `until_s`
    // (since 1970 UTC): later ones of the same name may have been delivered before this call.
    void (*cancel)(void *context, struct text dataset, struct text job_id, int64_t until_s);
    // Partitions are being revoked: commit the finished jobs now. The only callback that may call the
    // transport. May be NULL.
    void (*revoke)(void *context);
    // Jobs of these partitions (ascending) are in flight here, but the partitions are assigned to another
    // worker now, so computing the waiting ones is wasted. Released jobs count as not delivered. May be NULL.
    void (*lost)(void *context, const int32_t *partitions, size_t n_partitions);
    // A call of poll delivers no further record once its records have this number of bytes; 0: no limit.
    int64_t bytes_max;
};

// Figures of one partition, or of the whole embedded queue.
struct partition_figures {
    struct text topic;
    int32_t partition;
    int64_t position;      // next offset to be delivered
    int64_t committed;     // all offsets below are finished; -1: none yet
    int64_t end;           // end of the log
    int32_t n_in_flight;   // delivered, not finished
    int32_t n_map_covered; // finished above `committed`, in the offset map
    int64_t n_deleted;     // records deleted before they were read
    int32_t n_quarantined; // records left unfinished, not in flight
    int64_t stalled_s;     // for how long records wait, none in flight and none deliverable; 0: not stalled
    bool is_past;          // assigned to another worker, or to none in a rebalance: as last known
};

struct commit_advice {
    size_t jobs_max;       // per commit; 0: no limit
    int64_t not_before_ms; // by clock_ms(); 0: at any time
};

struct transport;

struct transport_impl {
    const char *name; // "kafka", "store"
    // Waits up to timeout_ms and calls events->receive for at most n_max records. STATUS_RETRY: temporarily
    // unavailable. STATUS_RESTART: fenced, or another fatal error.
    enum status (*poll)(struct transport *transport, int timeout_ms, int n_max,
                        const struct transport_events *events, struct error *error);
    // Back-pressure: while paused, poll delivers nothing but must still be called.
    void (*pause)(struct transport *transport);
    void (*resume)(struct transport *transport);
    // Commits finished jobs atomically, with results and dead letters (jobs with source.record set). The
    // caller still owns the jobs and may commit them again after an error. committed[i] is set to whether job
    // i was published now (false: its partition was revoked, or it was published before). STATUS_RETRY with
    // ERROR_RESULT_REFUSED: the broker refused records of these jobs; job_source says which, as far as known.
    enum status (*commit)(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                          bool *committed, struct error *error);
    // Returns unfinished jobs to the queue, so that another worker can take them at once.
    enum status (*release)(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                           struct error *error);
    // No job is waiting in the queue now; jobs in flight do not count.
    bool (*is_drained)(struct transport *transport);
    // Fills at most n_max entries; returns the total number.
    size_t (*figures)(struct transport *transport, struct partition_figures *figures, size_t n_max);
    // Readable when poll has work; -1: the worker must poll periodically.
    int (*fd)(struct transport *transport);
    // Leaves the group, closes connections, frees. Bounded in time.
    void (*close)(struct transport *transport);
    // Whether the job was cancelled before it was received; called after decoding. NULL: cancelled jobs are
    // never delivered.
    bool (*is_cancelled)(struct transport *transport, const struct job *job);
    // Makes the start of the jobs durable; they must not be computed before it returns STATUS_OK. NULL:
    // crashes are not counted.
    enum status (*start)(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                         enum suspect_state how, struct error *error);
    // Called before the worker exits, when is_drained has been true for its idle time. False: a part of the
    // queue has no reader yet, or its readers are unknown. May block for some seconds. NULL: is_drained
    // suffices.
    bool (*confirm_drained)(struct transport *transport);
    // Leaves the record passed to `receive` unfinished: it is not in flight, has no result, and is delivered
    // again to the next process that reads its partition. Called within `receive`. `waiting` names such
    // records. NULL: every record must be answered.
    void (*quarantine)(struct transport *transport, int32_t partition, int64_t offset);
    // Why no job can be delivered now, or which records cannot; "": all can. Valid until the next poll. NULL:
    // delivery is always possible.
    const char *(*waiting)(struct transport *transport);
    // How to commit within a broker's quota. An earlier or larger commit is allowed, but waits or is retried.
    // NULL: there is no limit.
    void (*commit_advice)(struct transport *transport, struct commit_advice *advice);
    // Bytes of the largest result that the queue takes. NULL: there is no limit.
    size_t (*result_bytes_max)(struct transport *transport);
    // Time for running jobs to finish after a stop, while other workers wait for the partitions. 0: no worker
    // waits, and WORKER_GRACE_MS applies.
    int grace_ms;
};

// Implementations begin with this struct.
struct transport {
    const struct transport_impl *impl;
};

// Rows for jobs and partitions of Kafka. A worker writes them after its commits, and a mirror writes them
// from the topics. Idempotent: the row of a finished job is not changed. Called within a transaction.
#pragma once

#include "store/finish.h"

struct published_job {
    const struct job *job;  // identity, source, figures and result
    struct text made_by;    // with a mirror: the worker's name; data NULL: this store's worker
    int64_t finished_at_us; // microseconds since 1970 UTC
};

enum status projection_add_job(struct store *store, const struct published_job *published,
                               struct dataset_totals *totals, struct error *error) WARN_UNUSED;
// Like projection_add_job, for PROJECTION_ROWS jobs at once, at two thirds of the cost per job.
enum { PROJECTION_ROWS = 16 };
enum status projection_add_jobs(struct store *store, const struct published_job published[PROJECTION_ROWS],
                                struct dataset_totals *totals, struct error *error) WARN_UNUSED;
enum status projection_set_partition(struct store *store, const struct partition_row *row, int64_t now_us,
                                     struct error *error) WARN_UNUSED;

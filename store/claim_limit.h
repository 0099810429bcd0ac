// Limits the jobs that a worker holds, so that all workers of one store finish at the same time.
#pragma once

#include "store/database.h"

// Within a transaction: lowers *n_max, the number of jobs to claim. A worker may hold half of its share of
// the unfinished jobs. Near the end of the queue it may hold a batch and a half; between two of its commits
// it leaves each worker an equal part of the remaining jobs.
enum status claim_limit_apply(struct store *store, struct text dataset, size_t *n_max,
                              struct error *error) WARN_UNUSED;

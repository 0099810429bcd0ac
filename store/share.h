// Limits the jobs that a worker holds, so that all workers of one store finish at the same time.
#pragma once

#include "store/database.h"

// Within a transaction: lowers *n_max, the jobs to claim. A worker may hold half of its share of the
// unfinished jobs; near the end a batch and a half, but from one of its commits to the next it claims no more
// than leaves an equal rest for every worker.
enum status share_limit(struct store *store, struct text dataset, size_t *n_max,
                        struct error *error) WARN_UNUSED;

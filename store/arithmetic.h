// Which arithmetic the answers of a dataset come from: the same for all of them (store.h, struct
// worker_description).
#pragma once

#include "store/database.h"

// Within a transaction: binds the unfinished datasets, or the named one, to this worker's arithmetic. A
// dataset that has answers of another one, or whose jobs another worker computes, is STATUS_REFUSE with the
// parts that differ; with `force_new` all its jobs are queued again instead, unless a worker computes some.
enum status arithmetic_bind(struct store *store, struct text dataset, bool force_new,
                            struct error *error) WARN_UNUSED;

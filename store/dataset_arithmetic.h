// Binds a dataset to one arithmetic: all its answers must have the same (store.h, struct worker_description).
#pragma once

#include "store/database.h"

// Passes the names of a worker's adapters (lora-modules of consumer/worker/arithmetic.h).
void arithmetic_modules(const char *arithmetic, void (*receive)(void *context, struct text name),
                        void *context);

// Within a transaction: binds the unfinished datasets, or the named one, to this worker's arithmetic.
// STATUS_REFUSE: the dataset has answers of another arithmetic, or a worker with another arithmetic is
// computing its jobs; the text names the parts that differ. With `force_new` all its jobs are queued again
// instead, unless a worker is computing some of them.
enum status dataset_arithmetic_bind(struct store *store, struct text dataset, bool force_new,
                                    struct error *error) WARN_UNUSED;

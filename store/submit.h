// Submits jobs within a transaction, for other files of the store. Thread: the store's.
#pragma once

#include "store/frames.h"

// Submits jobs. ids [n] gets the ids of all jobs, including those that existed before; it may be NULL.
enum status submit_jobs(struct store *store, struct text dataset, const struct submission *submissions,
                        size_t n, size_t *n_added, int64_t *ids, struct error *error) WARN_UNUSED;
// The record of a submission as it is stored. stored->bytes is valid until the next call.
enum status submission_shrink(struct store *store, struct text dataset, const struct submission *submission,
                              struct stored_record *stored, struct error *error) WARN_UNUSED;

// The thread sheaf-keeper of a server. It moves each open batch to its next state, from what the store says
// alone, so that a killed server's batches continue where they were, and two servers may keep one store:
//
//   validating    submits the input file's lines as a dataset      input_queue.h: resumes, shares
//   in_progress   waits until the dataset has no unfinished job
//   finalizing    writes output and error file as `sheaf collect`   both servers write the same bytes
//   completed     one transaction: the batch's end and its files' rows
//
//   cancelling, or past expires_at: cancels the dataset, waits for running jobs, writes what there is.
//
// It also tells waiting connections of changes of the store, removes requests without a client, files past
// their expiry, and what killed servers left.
#pragma once

#include "consumer/serve/serve_state.h"

struct batch_keeper;

// Opens a store of its own. Errors: as of store_open; no thread.
enum status batch_keeper_start(struct batch_keeper **keeper, struct serve *serve,
                               struct error *error) WARN_UNUSED;
// Returns when the thread has ended.
void batch_keeper_stop(struct batch_keeper *keeper);

// Detects which workers are alive. Each worker holds a lock on the byte of its id in "PATH-workers"; the
// kernel releases the lock when the process ends.
#pragma once

#include "store/database.h"

// WORKER_LOST: the worker's byte is not locked, but it locked its byte in an earlier file of that name. It
// may be alive, or may have ended for any reason.
enum worker_state { WORKER_DEAD, WORKER_LOST, WORKER_ALIVE };
enum status worker_state(struct store *store, int64_t worker, enum worker_state *state,
                         struct error *error) WARN_UNUSED;
// Finds out whether another process, or another open store of this process, holds that worker's lock. This
// store's own worker counts as alive.
enum status worker_is_alive(struct store *store, int64_t worker, bool *alive,
                            struct error *error) WARN_UNUSED;
// Runs a statement whose rows are ids of workers, counts the living ones, and resets the statement. *n
// becomes -1 if that is unknown, because the store is read-only and another user owns its lock file.
enum status workers_count_alive(struct store *store, sqlite3_stmt *ids, int64_t *n,
                                struct error *error) WARN_UNUSED;
// Locks the dataset until the store is closed. The lock is shared: several processes may hold it.
enum status workers_hold_dataset(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// True if another process holds the dataset.
bool workers_others_hold_dataset(const struct store *store, struct text dataset);
enum status workers_open_locks(struct store *store, struct error *error) WARN_UNUSED;
// Removes the lock file if no other process holds a byte of it and every worker has stopped.
void workers_close_locks(struct store *store);
// Deletes the progress of partitions that the worker no longer owns: those not in its last record, at
// recorded_us. Keeps their counts of records deleted by retention. The new owner may have a store of its own.
enum status workers_release_partitions(struct store *store, int64_t worker, int64_t recorded_us,
                                       struct error *error) WARN_UNUSED;

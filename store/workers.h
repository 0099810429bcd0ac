// Which workers live: each holds a lock on the byte of its id in "PATH-workers". The kernel releases it with
// the process.
#pragma once

#include "store/database.h"

// WORKER_LOST: its byte is not locked, but its lock was in another file of that name. It may live, or have
// ended for any reason.
enum worker_state { WORKER_DEAD, WORKER_LOST, WORKER_ALIVE };
enum status worker_state(struct store *store, int64_t worker, enum worker_state *state,
                         struct error *error) WARN_UNUSED;
// Whether another process (or another open of the store) holds that worker's lock. This worker's own is
// alive.
enum status worker_is_alive(struct store *store, int64_t worker, bool *alive,
                            struct error *error) WARN_UNUSED;
// Steps through a statement whose rows are ids of workers, counts those alive, and resets it. *n -1: unknown,
// because the store is read-only and another user owns its lock file.
enum status workers_count_alive(struct store *store, sqlite3_stmt *ids, int64_t *n,
                                struct error *error) WARN_UNUSED;
// Locks that several processes may hold for a dataset, until they close the store.
enum status workers_hold_dataset(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// Whether another process does.
bool workers_others_hold_dataset(const struct store *store, struct text dataset);
enum status workers_open_locks(struct store *store, struct error *error) WARN_UNUSED;
// Partitions that the worker's last record, at recorded_us, does not name are another's now, perhaps one with a
// store of its own: what was known of them here goes, but for what retention deleted.
enum status workers_release_partitions(struct store *store, int64_t worker, int64_t recorded_us,
                                       struct error *error) WARN_UNUSED;

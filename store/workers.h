// Which workers live: each holds a lock on the byte of its id in "PATH-workers". The kernel releases it with
// the process.
#pragma once

#include "store/database.h"

// WORKER_LOST: its byte is not locked, but its lock was in another file of that name. It may live, or have
// ended for any reason.
enum worker_state { WORKER_DEAD, WORKER_LOST, WORKER_ALIVE };
enum worker_state worker_state(struct store *store, int64_t worker);
// Whether another process (or another open of the store) holds that worker's lock. This worker's own is
// alive.
bool worker_is_alive(struct store *store, int64_t worker);
enum status workers_open_locks(struct store *store, struct error *error) WARN_UNUSED;

// Which workers live: each holds a lock on the byte of its id in "PATH-workers". The kernel drops it with the process.
#pragma once

#include "store/database.h"

// Whether another process (or another open of the store) holds that worker's lock. This worker's own is alive.
bool worker_is_alive(struct store *store, int64_t worker);
enum status workers_open_locks(struct store *store, struct error *error) WARN_UNUSED;

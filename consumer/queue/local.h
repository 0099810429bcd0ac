// The transport of the embedded queue: jobs are queued, claimed and finished in the store's own tables.
#pragma once

#include "consumer/queue/transport.h"
#include "store/store.h"

// Opens the transport. The caller owns the store, which must have a started worker. `dataset` is copied; size
// 0 means all datasets.
enum status local_transport_open(struct transport **transport, struct store *store, struct text dataset,
                                 struct error *error) WARN_UNUSED;

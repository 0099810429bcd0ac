// How many jobs a worker may hold so that the workers of one store end together.
#pragma once

#include "store/database.h"

// Within a transaction: lowers *n_max, the jobs to claim. While much is left each worker may hold half of its
// share of what is unfinished; near the end, so many that the batch is full, and at last its share.
enum status share_limit(struct store *store, struct text dataset, size_t *n_max,
                        struct error *error) WARN_UNUSED;

// Operations on datasets, for other files of the store.
#pragma once

#include "store/database.h"

// Does the work of store_dataset_reopen within a transaction.
enum status dataset_reopen(struct store *store, struct text dataset, int which, int64_t *n_reopened,
                           struct error *error) WARN_UNUSED;

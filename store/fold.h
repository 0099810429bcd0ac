// Old rows become sums: what store_fold does, and the bound on steps that every record keeps.
#pragma once

#include "store/database.h"

// Within a transaction: folds the oldest steps beyond STORE_BATCHES_KEPT, a few at least.
enum status fold_surplus_steps(struct store *store, struct error *error) WARN_UNUSED;

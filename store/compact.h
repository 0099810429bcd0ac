// Retention: replaces old rows by sums (store_compact), and limits the number of steps at every record.
#pragma once

#include "store/database.h"

// Within a transaction: compacts the oldest steps beyond STORE_STEPS_KEPT, unless there are only a few.
enum status compact_surplus_steps(struct store *store, struct error *error) WARN_UNUSED;

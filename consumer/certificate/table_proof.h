// Compares a table with its certificate's root: every row. Thread: main.
#pragma once

#include "consumer/certificate/certified_table.h"

// *n_requested: rows that were asked. STATUS_REFUSE: a row was changed, removed, added or moved, or the certificate was
// changed; the error says which.
enum status table_proof_check(struct certified_table *table, int64_t *n_requested,
                              struct error *error) WARN_UNUSED;

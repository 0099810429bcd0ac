// Removes jobs that are not among the rows of annotate's table (store/hashed_jobs.h). Thread: the store's.
#pragma once

#include "store/database.h"
#include "store/job_set.h"

// Within a transaction: removes the jobs that the statement lists and `rows` does not contain; removes none
// if one of them is being computed. The columns of the statement are the job id, and whether it is being
// computed.
enum status table_rows_remove(struct store *store, sqlite3_stmt *select, struct text dataset,
                              const struct job_set *rows, int64_t *n_removed,
                              struct error *error) WARN_UNUSED;
// Within a transaction: removes the dataset's finished jobs that are not in the set of store_set_rows.
enum status table_rows_remove_others(struct store *store, struct text dataset,
                                     struct error *error) WARN_UNUSED;

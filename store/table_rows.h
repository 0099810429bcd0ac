// Which of a dataset's jobs are the rows of annotate's table (store/hashed_jobs.h). Thread: the store's.
#pragma once

#include "store/database.h"
#include "store/job_set.h"

// Within a transaction: removes those of the statement's jobs that are not in the set, none if one is computed
// now. Its rows: the job's id, is it computed.
enum status table_rows_remove(struct store *store, sqlite3_stmt *select, struct text dataset,
                              const struct job_set *rows, int64_t *n_removed,
                              struct error *error) WARN_UNUSED;
// Within a transaction: removes the dataset's finished jobs that are not among store_set_rows's.
enum status table_rows_remove_others(struct store *store, struct text dataset,
                                     struct error *error) WARN_UNUSED;

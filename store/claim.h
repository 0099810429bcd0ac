// What a worker claims: how many jobs (claim_limit.c), and which (claim_turns.c). All calls are within a
// transaction.
#pragma once

#include "store/database.h"

// Lowers *n_max, the number of jobs to claim, so that all workers of one store finish at the same time. A
// worker may hold half of its share of the unfinished jobs. Near the end of the queue it may hold a batch and
// a half; between two of its commits it leaves each worker an equal part of the remaining jobs.
enum status claim_limit_apply(struct store *store, struct text dataset, size_t *n_max,
                              struct error *error) WARN_UNUSED;

// Whether claim_choose_by_turns is needed: a dataset is named, several datasets are unfinished, or there are
// limits. Else the queue's order is the order of claims.
enum status claim_needs_turns(struct store *store, struct text dataset, bool *needs_turns,
                              struct error *error) WARN_UNUSED;
// Chooses up to n_max free jobs, the most urgent first (priority, then deadline). Datasets of equal urgency
// share the claims by tokens and weights, and within a dataset the job submitted first is chosen. A dataset of which the worker holds as many jobs as its limit
// gets none. Stops when the records have *bytes_left bytes. Sets `ids` and *n to the jobs, and subtracts their
// bytes. `dataset` with size 0: all datasets.
enum status claim_choose_by_turns(struct store *store, struct text dataset, size_t n_max, int64_t *bytes_left,
                                  int64_t *ids, size_t *n, struct error *error) WARN_UNUSED;
// Whether the oldest free job is of the first urgency: then turns alone decide.
enum status claim_oldest_is_first(struct store *store, bool *is_first, struct error *error) WARN_UNUSED;
// How many more jobs of the dataset (datasets.number) the worker may hold; INT64_MAX: there is no limit.
enum status claim_room_of(struct store *store, int64_t dataset, int64_t *room,
                          struct error *error) WARN_UNUSED;
// The dataset's number; 0: it has none.
enum status claim_number_of(struct store *store, struct text dataset, int64_t *number,
                            struct error *error) WARN_UNUSED;

// Size of the record of the queue's row. SQLite does not read the record itself to compute it.
#define CLAIM_RECORD_BYTES                                                                                   \
    "(SELECT length(record) + frame_bytes(frame) FROM stored_records r WHERE r.job = queue.job)"

// Removes single jobs of a dataset of the embedded queue, with their records and results. Within a
// transaction: removal_begin, removal_add for each job, removal_end. Thread: the store's.
#pragma once

#include "store/store.h"

enum status removal_begin(struct store *store, struct error *error) WARN_UNUSED;
enum status removal_add(struct store *store, int64_t id, struct error *error) WARN_UNUSED;
// Does removal_add for all jobs of the dataset.
enum status removal_add_dataset(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// If duplicates of a removed answer remain, makes one of them the original and gives it the figures: equal
// requests find only originals (store/equal_requests.h).
enum status removal_promote(struct store *store, struct error *error) WARN_UNUSED;
// Does removal_promote, then deletes the jobs. Their ids are not used again.
enum status removal_delete(struct store *store, struct error *error) WARN_UNUSED;
// Does removal_delete, then removal_recount.
enum status removal_end(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// Recounts the dataset's totals from its jobs. All jobs must have rows (none may be compacted).
enum status removal_recount(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

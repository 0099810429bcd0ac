// Removing single jobs of a dataset of the embedded queue, with their records and results. Within a
// transaction: removal_begin, removal_add for each, removal_end. Thread: the store's.
#pragma once

#include "store/store.h"

enum status removal_begin(struct store *store, struct error *error) WARN_UNUSED;
enum status removal_add(struct store *store, int64_t id, struct error *error) WARN_UNUSED;
// All jobs of the dataset.
enum status removal_add_dataset(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// Where duplicates of a removed answer remain, one becomes the original, with its figures: equal requests find
// originals alone (store/equal_requests.h).
enum status removal_promote(struct store *store, struct error *error) WARN_UNUSED;
// Promotes and deletes. No later job has the id of a removed one.
enum status removal_delete(struct store *store, struct error *error) WARN_UNUSED;
// removal_delete, and the dataset's totals are counted again.
enum status removal_end(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// Counts the dataset's totals from its jobs, all of which are there.
enum status removal_recount(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

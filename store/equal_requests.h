// Answers of equal requests (job_hash_request). The store has the answers of its workers' jobs: those of the
// embedded queue as long as the job exists, those from Kafka as long as the job's row is kept. Thread: the
// store's.
#pragma once

#include "store/store.h"

// The result of a computed job of the dataset whose request is equal, the newest; an empty record: there is
// none.
enum status store_find_equal(struct store *store, const struct job *job, struct buffer *record,
                             struct error *error) WARN_UNUSED;

// Replaces the figures of an annotated table: how many rows share an equal row's job, and their tokens.
enum status store_duplicate_rows(struct store *store, struct text dataset, int64_t n_rows, int64_t n_tokens,
                                 struct error *error) WARN_UNUSED;

struct dataset_names;
// Within a transaction: the result of a job from Kafka, whose row is there.
enum status keep_result(struct store *store, struct dataset_names *names, const struct job *job,
                        struct text record, struct error *error) WARN_UNUSED;

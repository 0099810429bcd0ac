// Answers of equal requests (job_hash_request): the store has those of its workers' jobs, of the embedded
// queue as long as it has the job, of Kafka's as long as it keeps the job's row. Thread: the store's.
#pragma once

#include "store/store.h"

// The result of a computed job of the dataset whose request is equal, the newest; an empty record: there is
// none.
enum status store_find_equal(struct store *store, const struct job *job, struct buffer *record,
                             struct error *error) WARN_UNUSED;

// Rows of an annotated table that have an equal row's job, and the tokens of these: replaces the figures of
// before.
enum status store_duplicate_rows(struct store *store, struct text dataset, int64_t n_rows, int64_t n_tokens,
                                 struct error *error) WARN_UNUSED;

struct dataset_names;
// Within a transaction: the result of a job from Kafka, whose row is there.
enum status keep_result(struct store *store, struct dataset_names *names, const struct job *job,
                        struct text record, struct error *error) WARN_UNUSED;

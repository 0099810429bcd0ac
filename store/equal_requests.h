// Finds answers of equal requests, and of requests that differ only in a smaller max_tokens
// (job_hash_request). The store keeps answers of the embedded queue's jobs as long as the job exists, and
// answers of jobs from Kafka as long as the job's row is kept. Thread: the store's.
#pragma once

#include "store/store.h"

enum { EQUAL_REQUESTS_MAX = 16 }; // examined at most; some may be of other models or arithmetics

enum equal_kind {
    EQUAL_IN_DATASET, // an equal request of the same dataset
    EQUAL_ANYWHERE,   // an equal request of any dataset; answers of the same dataset come first
    EQUAL_BUT_SHORTER // of any dataset: equal except for max_tokens, and complete
};
struct equal_search {
    enum equal_kind kind;
    int32_t max_tokens; // for EQUAL_BUT_SHORTER: the largest accepted max_tokens
};
// Passes results of computed jobs to `take`, the newest first, until it returns true. `record` is valid
// during the call.
enum status store_find_equal(struct store *store, const struct job *job, const struct equal_search *search,
                             bool (*take)(void *context, struct text record), void *context,
                             struct error *error) WARN_UNUSED;

// Replaces two figures of an annotated table: the number of rows that share the job of an equal row, and the
// tokens of these rows.
enum status store_duplicate_rows(struct store *store, struct text dataset, int64_t n_rows, int64_t n_tokens,
                                 struct error *error) WARN_UNUSED;

struct dataset_names;
// Within a transaction: stores the result of a job from Kafka, whose row exists.
enum status keep_result(struct store *store, struct dataset_names *names, const struct job *job,
                        struct text record, struct error *error) WARN_UNUSED;

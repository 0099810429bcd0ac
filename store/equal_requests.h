// Answers of equal requests, and of those that differ in a smaller max_tokens alone (job_hash_request). The
// store has the answers of its workers' jobs: those of the embedded queue as long as the job exists, those
// from Kafka as long as the job's row is kept. Thread: the store's.
#pragma once

#include "store/store.h"

enum { EQUAL_REQUESTS_MAX = 16 }; // that are looked at: others may be of another model or arithmetic

enum equal_kind {
    EQUAL_IN_DATASET, // an equal request of the same dataset
    EQUAL_ANYWHERE,   // of any dataset; those of the same one are first
    EQUAL_BUT_SHORTER // likewise, of requests that are equal but for max_tokens, and ended by themselves
};
struct equal_search {
    enum equal_kind kind;
    int32_t max_tokens; // of EQUAL_BUT_SHORTER: the largest
};
// Passes results of computed jobs, the newest first, until `take` returns true. They are valid during the
// call.
enum status store_find_equal(struct store *store, const struct job *job, const struct equal_search *search,
                             bool (*take)(void *context, struct text record), void *context,
                             struct error *error) WARN_UNUSED;

// Replaces the figures of an annotated table: how many rows share an equal row's job, and their tokens.
enum status store_duplicate_rows(struct store *store, struct text dataset, int64_t n_rows, int64_t n_tokens,
                                 struct error *error) WARN_UNUSED;

struct dataset_names;
// Within a transaction: the result of a job from Kafka, whose row is there.
enum status keep_result(struct store *store, struct dataset_names *names, const struct job *job,
                        struct text record, struct error *error) WARN_UNUSED;

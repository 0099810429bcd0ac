// Finishing a job in the store: its row, its dataset's totals, its result.
#pragma once

#include "store/database.h"

// Totals of the jobs that one transaction finished, per dataset. They are written once, at the end of the
// transaction.
struct dataset_total {
    struct text dataset; // points into one of the jobs
    int64_t n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens, cached_tokens;
    int64_t n_duplicates, duplicate_prompt_tokens, duplicate_completion_tokens;
    int64_t submitted_at_us;                           // submission of the first job; 0: unknown
    int64_t first_finished_at_us, last_finished_at_us; // 0: none finished
};

struct dataset_totals {
    struct dataset_total *items;
    size_t n_items, capacity;
};

// Returns the dataset's entry in the totals. NULL: `error` is filled.
struct dataset_total *totals_of(struct dataset_totals *totals, struct text dataset, struct error *error);
// Counts a finished job. is_new is true if it was not yet counted as submitted.
enum status totals_add(struct dataset_totals *totals, const struct job *job, bool is_new,
                       int64_t finished_at_us, struct error *error) WARN_UNUSED;
enum status totals_write(struct store *store, struct dataset_totals *totals, struct error *error) WARN_UNUSED;
void totals_finish(struct dataset_totals *totals);

// Binds the columns of a finished job to parameters first..first+20: status, error_code, error,
// finish_reason, prompt_tokens, completion_tokens, cached_tokens, queued_us, prefill_us, decode_us, worker,
// finished_at_us (`now_us`), constrained_by, forced_tokens, is_duplicate, request_hash, drafted_tokens,
// accepted_tokens, open_hash, max_tokens, reasoning_tokens. The job must stay valid until the statement has run.
void bind_outcome(sqlite3_stmt *statement, int first, const struct store *store, const struct job *job,
                  int64_t now_us);

// Within a transaction: gives the waiting jobs of every cancelled dataset the status cancelled.
enum status finish_cancelled_datasets(struct store *store, struct error *error) WARN_UNUSED;

// Files and batches of `sheaf serve` (schemas/store_15.sql): their rows. Their contents are files beside the
// store (consumer/serve/serve_folder.h); a batch is the dataset of the same name. `owner` is a hash of the
// owner's token: what another owner has does not exist. Texts passed to `receive` are valid during the call.
// A file past its expiry does not exist either. Errors: as store.h. Thread: the store's.
#pragma once

#include "store/store.h"

struct served_file {
    struct text id, owner, filename, purpose;
    int64_t n_bytes;
    int64_t created_at_us, expires_at_us; // 0: never
};

struct served_batch {
    struct text id, owner, input_file, endpoint, completion_window;
    struct text metadata; // a JSON object; size 0: none
    struct text output_file, error_file;
    struct text failure; // why it failed
    int64_t n_requests, n_answered, n_refused;
    int64_t output_expires_s; // 0: never
    struct {                  // microseconds since 1970 UTC; 0: not yet
        int64_t created, expires, in_progress, finalizing, completed, failed, expired, cancelling, cancelled;
    } at_us;
    struct { // of the dataset
        bool exists;
        int64_t n_submitted, n_done, n_failed, n_cancelled;
        int64_t prompt_tokens, completion_tokens, cached_tokens;
        bool is_cancelled;
    } jobs;
};

// A page of a list: at most `limit` rows after the row with id `after` (size 0: from the first).
struct served_page {
    struct text after;
    int limit;
    bool is_ascending; // oldest first
};

typedef void served_file_receive(void *context, const struct served_file *file);
typedef void served_batch_receive(void *context, const struct served_batch *batch);

enum status store_file_add(struct store *store, const struct served_file *file,
                           struct error *error) WARN_UNUSED;
// *found false: `receive` is not called.
enum status store_file_find(struct store *store, struct text owner, struct text id,
                            served_file_receive *receive, void *context, bool *found,
                            struct error *error) WARN_UNUSED;
// `purpose` with size 0: any. *found false: no file has the id page->after.
enum status store_files_list(struct store *store, struct text owner, struct text purpose,
                             const struct served_page *page, served_file_receive *receive, void *context,
                             bool *found, bool *has_more, struct error *error) WARN_UNUSED;
enum file_removal { FILE_REMOVED, FILE_UNKNOWN, FILE_IN_USE };
// FILE_IN_USE: it is the input of a batch that has not ended.
enum status store_file_remove(struct store *store, struct text owner, struct text id,
                              enum file_removal *removal, struct error *error) WARN_UNUSED;
// Whether a row has the id, of any owner and expired or not.
enum status store_file_exists(struct store *store, struct text id, bool *exists,
                              struct error *error) WARN_UNUSED;
// Removes the row of one expired file that no batch uses, and copies its id (with a NUL). *found: there was
// one.
enum status store_file_remove_expired(struct store *store, char id[64], bool *found,
                                      struct error *error) WARN_UNUSED;

// Adds the batch, if its input file still exists (*found).
enum status store_batch_add(struct store *store, const struct served_batch *batch, bool *found,
                            struct error *error) WARN_UNUSED;
enum status store_batch_find(struct store *store, struct text owner, struct text id,
                             served_batch_receive *receive, void *context, bool *found,
                             struct error *error) WARN_UNUSED;
enum status store_batches_list(struct store *store, struct text owner, const struct served_page *page,
                               served_batch_receive *receive, void *context, bool *found, bool *has_more,
                               struct error *error) WARN_UNUSED;
// Batches of all owners that have not ended, the oldest first.
enum status store_batches_open(struct store *store, served_batch_receive *receive, void *context,
                               struct error *error) WARN_UNUSED;

enum batch_stamp { BATCH_IN_PROGRESS, BATCH_FINALIZING, BATCH_CANCELLING };
// Sets the time of an event to now, unless it is set or the batch has ended. *changed: it was set now.
enum status store_batch_stamp(struct store *store, struct text id, enum batch_stamp stamp, bool *changed,
                              struct error *error) WARN_UNUSED;
// Ends a batch that has not ended, and adds the rows of its files (NULL: no such file) in the same
// transaction. *changed false: it had ended, and nothing was written.
enum batch_end { BATCH_COMPLETED, BATCH_FAILED, BATCH_EXPIRED, BATCH_CANCELLED };
struct batch_outcome {
    enum batch_end end;
    const char *failure; // BATCH_FAILED; else NULL
    const struct served_file *output, *errors;
    int64_t n_answered, n_refused;
};
enum status store_batch_end(struct store *store, struct text id, const struct batch_outcome *outcome,
                            bool *changed, struct error *error) WARN_UNUSED;

// The jobs of a dataset. *exists false: there is no such dataset, and the numbers are 0.
enum status store_dataset_count(struct store *store, struct text dataset, bool *exists, int64_t *n_submitted,
                                int64_t *n_unfinished, struct error *error) WARN_UNUSED;

// Passes the names of the models of living workers, and of their adapters, each once. *n_alive: number of these workers, also of
// those with equal names; -1: unknown.
enum status store_models(struct store *store,
                         void (*receive)(void *context, struct text model, int64_t started_at_us),
                         void *context, int64_t *n_alive, struct error *error) WARN_UNUSED;

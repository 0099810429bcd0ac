// One step of a batch to its next state. Thread: sheaf-keeper.
#pragma once

#include "consumer/serve/serve_state.h"

struct open_batch {
    char id[SERVE_ID_BYTES], owner[SERVE_OWNER_BYTES], input_file[SERVE_ID_BYTES];
    char output_file[SERVE_ID_BYTES], error_file[SERVE_ID_BYTES];
    int64_t n_requests, n_submitted, n_ended, output_expires_s, expires_at_us;
    bool dataset_exists, dataset_is_cancelled, is_in_progress, is_cancelling;
};

void open_batch_copy(struct open_batch *copy, const struct served_batch *batch);
// STATUS_OK: it moved on, or there is nothing to do yet. Other errors: try again later.
enum status batch_step(struct serve *serve, struct store *store, const struct open_batch *batch,
                       struct error *error) WARN_UNUSED;

// A request that a connection waits for is a dataset of one job, request-SERVER-ID. When it is answered its
// connection deletes it; when its client has gone, or its server was killed, it is cancelled here, and deleted
// once no worker computes it.
#pragma once

#include "consumer/serve/serve_state.h"

enum { REQUEST_ID_DIGITS = 24 };

// The dataset of a request of this server.
void request_dataset(const struct serve *serve, const char *id, char dataset[SERVE_ID_BYTES]);
// Cancels the dataset and leaves its deletion to the keeper. Thread: any; takes the store's lock.
void request_removal_add(struct serve *serve, const char *dataset);
// Deletes the datasets of gone clients whose jobs have ended. Thread: sheaf-keeper, or main before it starts.
void request_removal_run(struct serve *serve, struct store *store);
// Finds the requests of killed servers and adds them. Thread: sheaf-keeper, or main before it starts.
void request_removal_find(struct serve *serve, struct store *store);

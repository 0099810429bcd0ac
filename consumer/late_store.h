// The store of a worker over Kafka, where it holds figures only: a worker whose store can't be opened (disk full, folder read-only,
// locked, of a newer version) says so, works without, and opens it as soon as it can. Thread: main.
#pragma once

#include "store/store.h"

enum { LATE_STORE_RETRY_MS = 2000, LATE_STORE_RETRY_MS_MAX = 60000 }; // doubled after each try

struct late_store {
    struct store *store; // NULL: not yet
    const char *path;
    struct worker_description description; // but for the model's name, its texts are the caller's
    char model[JOB_MODEL_BYTES_MAX + 1];
    int64_t retry_at_ms, delay_ms;
};

// One try; a warning where it fails.
void late_store_open(struct late_store *late, const char *path);
// Registers the worker. Called once before late_store_find.
void late_store_start(struct late_store *late, const struct worker_description *description);
// The store; NULL: not now. Tries to open it when the time has come.
struct store *late_store_find(struct late_store *late);
void late_store_close(struct late_store *late);

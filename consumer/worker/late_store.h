// The store of a worker over Kafka, which holds figures only. If it cannot be opened (disk full, read-only
// folder, locked, newer version), the worker logs a warning, runs without it and tries again later. Thread:
// main.
#pragma once

#include "store/store.h"

enum { LATE_STORE_RETRY_MS = 2000, LATE_STORE_RETRY_MS_MAX = 60000 }; // doubled after each try

struct late_store {
    struct store *store; // NULL: not open
    const char *path;
    struct worker_description description; // the caller owns its texts, except the model's name
    char model[JOB_MODEL_BYTES_MAX + 1];
    int64_t retry_at_ms, delay_ms;
};

// Tries once to open the store; logs a warning on failure.
void late_store_open(struct late_store *late, const char *path);
// Registers the worker. Called once before late_store_find.
void late_store_start(struct late_store *late, const struct worker_description *description);
// The store, or NULL. Tries to open it when the retry interval has passed.
struct store *late_store_find(struct late_store *late);
void late_store_close(struct late_store *late);

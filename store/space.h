// The file of a store: space of removed rows, and copies. Thread: that of the store.
#pragma once

#include "store/store.h"

// Returns free pages to the file system, in short transactions, beside workers. A store from before version
// 16 is rewritten as a whole once. STATUS_RETRY: a process holds the store; removed rows are overwritten by later
// ones.
enum status store_give_space_back(struct store *store, struct error *error) WARN_UNUSED;
// Writes a copy of the store as it is now, also while workers run: one file without free pages, durable.
// `path` must not exist, or be empty. STATUS_REFUSE: it cannot be written; the caller removes it.
enum status store_copy(struct store *store, const char *path, struct error *error) WARN_UNUSED;

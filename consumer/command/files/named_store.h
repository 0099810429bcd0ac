// The store that a command works on: --store, else sheaf.db in the current folder. Thread: main.
#pragma once

#include "consumer/options/options.h"
#include "store/store.h"

const char *named_store_path(const struct settings *settings);
// Opens an existing store with store_open or store_open_to_read. STATUS_REFUSE: there is none. Without
// --store the error says that run and annotate keep their stores beside the output.
enum status named_store_open(struct store **store, const struct settings *settings,
                             struct error *error) WARN_UNUSED;
enum status named_store_open_to_read(struct store **store, const struct settings *settings,
                                     struct error *error) WARN_UNUSED;

// A store in a folder of its own in TMPDIR (else /tmp), for a command between two streams. `what` is in the
// folder's name. The caller frees both texts; temporary_store_remove also takes a folder without a store.
enum status temporary_store_create(const char *what, char **folder, char **path,
                                   struct error *error) WARN_UNUSED;
void temporary_store_remove(const char *folder);

// The store that a command works on: --store, else sheaf.db in the current folder. Thread: main.
#pragma once

#include "consumer/options.h"
#include "store/store.h"

const char *named_store_path(const struct settings *settings);
// An existing store, as store_open and store_open_to_read open it. STATUS_REFUSE: there is none; where it is
// not named, with the hint that run and annotate have theirs beside the output.
enum status named_store_open(struct store **store, const struct settings *settings,
                             struct error *error) WARN_UNUSED;
enum status named_store_open_to_read(struct store **store, const struct settings *settings,
                                     struct error *error) WARN_UNUSED;

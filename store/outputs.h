// Files that a dataset's answers were written to, so that a command knows its own output when it finds it.
// Thread: the store's.
#pragma once

#include "schemas/digest.h"
#include "store/store.h"

struct written_output {
    bool is_found;
    bool is_first; // the dataset is of version 11 or before, which noted no outputs, and has none noted since
    struct digest digest; // of the file as it was written
};
// path: absolute, without links.
enum status store_output_find(struct store *store, struct text dataset, const char *path,
                              struct written_output *output, struct error *error) WARN_UNUSED;
enum status store_output_written(struct store *store, struct text dataset, const char *path,
                                 const struct digest *digest, struct error *error) WARN_UNUSED;
// Did version 11 or before make the dataset?
enum status store_dataset_is_older(struct store *store, struct text dataset, bool *is_older,
                                   struct error *error) WARN_UNUSED;
// The dataset's lines if its answers were removed (--retain); n_lines 0: they were not.
enum status store_removed_lines(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error) WARN_UNUSED;

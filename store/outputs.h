// Files to which a dataset's answers were written, so that a command recognizes its own output. Thread: the
// store's.
#pragma once

#include "schemas/base/digest.h"
#include "store/store.h"

struct written_output {
    bool is_found;
    struct digest digest; // digest of the file when it was written
};
// Finds the file with that path, which is absolute and has no symbolic links.
enum status store_output_find(struct store *store, struct text dataset, const char *path,
                              struct written_output *output, struct error *error) WARN_UNUSED;
enum status store_output_written(struct store *store, struct text dataset, const char *path,
                                 const struct digest *digest, struct error *error) WARN_UNUSED;
// Reads the mark of a dataset whose answers were removed (--retain). n_lines becomes 0 if they were not
// removed.
enum status store_removed_lines(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error) WARN_UNUSED;

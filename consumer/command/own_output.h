// Is an output file that is there the dataset's own? An unrelated file is not overwritten. Streams are
// nobody's, and an empty file may be. Thread: main.
#pragma once

#include "consumer/command/output_file.h"
#include "schemas/error.h"
#include "store/store.h"

// STATUS_REFUSE, ERROR_FILE: the file is there, and the dataset did not write it. `path` NULL: none.
enum status own_output_check(struct store *store, struct text dataset, const char *path, bool may_overwrite,
                             struct error *error) WARN_UNUSED;
// Without a store, as of topics: the file that is there is the dataset's own if its lines are lines of the one that
// was written, in their order: it may have been collected before all jobs were answered. Before
// output_file_complete. STATUS_REFUSE, ERROR_FILE: it is not.
enum status own_output_check_lines(const struct output_file *written, struct text dataset, bool may_overwrite,
                                   struct error *error) WARN_UNUSED;
// Before the complete file gets its name: a process that is killed between this and own_output_note has left
// its own output. A read-only store notes nothing.
enum status own_output_claim(struct store *store, struct text dataset, const char *path,
                             struct error *error) WARN_UNUSED;
// After it was written.
enum status own_output_note(struct store *store, struct text dataset, const char *path,
                            struct error *error) WARN_UNUSED;
// *is_unchanged: the file is there, as the dataset wrote it. Of path NULL true.
enum status own_output_is_unchanged(struct store *store, struct text dataset, const char *path,
                                    bool *is_unchanged, struct error *error) WARN_UNUSED;

// Checks that an existing output file was written by the dataset, because other files must not be
// overwritten. Streams are not checked; an empty file may be overwritten. Thread: main.
#pragma once

#include "consumer/command/files/output_file.h"
#include "schemas/base/error.h"
#include "store/store.h"

// STATUS_REFUSE, ERROR_FILE: the file exists, and the dataset did not write it. `path` NULL: nothing is
// checked.
enum status own_output_check(struct store *store, struct text dataset, const char *path, bool may_overwrite,
                             struct error *error) WARN_UNUSED;
// Where no store records the output: an existing file may be replaced if its lines are a subsequence of the
// written lines, since it may have been written before all of them were known. `written` is the open file that
// is about to get the name, `lines` names its lines in the error. STATUS_REFUSE, ERROR_FILE: it may not.
enum status own_output_check_lines(const struct output_file *written, const char *lines, bool may_overwrite,
                                   struct error *error) WARN_UNUSED;
// Called before the complete file gets its name: if the process is killed before own_output_note, the file
// still counts as the dataset's own. Does nothing if the store is read-only.
enum status own_output_claim(struct store *store, struct text dataset, const char *path,
                             struct error *error) WARN_UNUSED;
// Records the digest of the file; called after it was written. Does nothing if the store is read-only.
enum status own_output_note(struct store *store, struct text dataset, const char *path,
                            struct error *error) WARN_UNUSED;
// *is_unchanged: the file exists, as the dataset wrote it. True if `path` is NULL.
enum status own_output_is_unchanged(struct store *store, struct text dataset, const char *path,
                                    bool *is_unchanged, struct error *error) WARN_UNUSED;

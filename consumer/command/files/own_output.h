// Checks that an existing output file is as the dataset wrote it, because other files, and this one once it
// was edited, must not be overwritten. Streams are not checked; an empty file may be overwritten. Thread:
// main.
#pragma once

#include "consumer/command/files/output.h"
#include "schemas/base/error.h"
#include "store/store.h"

// STATUS_REFUSE, ERROR_FILE: the file exists, and the dataset did not write it or it was changed since. `path`
// NULL: nothing is checked. `table`: of that database, which is accepted if the dataset wrote none of that name
// (table_insert_check recognizes a foreign one); NULL: a file.
enum status own_output_check(struct store *store, struct text dataset, const char *path, const char *table,
                             bool may_overwrite, struct error *error) WARN_UNUSED;
// Where no store records the output: an existing file may be replaced if its lines are a subsequence of the
// written lines, since it may have been written before all of them were known. `written` is the open file that
// is about to get the name, `lines` names its lines in the error. STATUS_REFUSE, ERROR_FILE: it may not.
enum status own_output_check_lines(const struct output_file *written, const char *lines, bool may_overwrite,
                                   struct error *error) WARN_UNUSED;
// The same where the output is made at once: an existing file may be replaced if it has the same bytes.
enum status own_output_check_bytes(const struct output_file *written, bool may_overwrite,
                                   struct error *error) WARN_UNUSED;
// The same for rows of fixed size, whose bytes another processor or version may change: an existing file may be replaced if it has
// whole rows.
enum status own_output_check_rows(const struct output_file *written, uint64_t row_bytes, bool may_overwrite,
                                  struct error *error) WARN_UNUSED;
// The same for a page of text that changes from call to call: own_output_sign ends it with a comment, a digest of `name` and the
// page, which an edited page or one of another name does not have. `path` may be a stream.
void own_output_sign(struct buffer *page, struct text name);
enum status own_output_check_signed(const char *path, struct text name, bool may_overwrite,
                                    struct error *error) WARN_UNUSED;
// Called before the complete file gets its name: if the process is killed before own_output_note, the file
// still counts as the dataset's own. Does nothing if the store is read-only.
enum status own_output_claim(struct store *store, struct text dataset, const char *path, const char *table,
                             struct error *error) WARN_UNUSED;
// Records the digest of the file; called after it was written. Does nothing if the store is read-only.
enum status own_output_note(struct store *store, struct text dataset, const char *path, const char *table,
                            struct error *error) WARN_UNUSED;
// Gives the complete files of `output` their names paths[0] (results) and paths[1] (errors, may be NULL):
// checks both, claims both, notes both.
enum status own_output_complete(struct store *store, struct text dataset, const char *const paths[2],
                                bool may_overwrite, struct output *output, struct error *error) WARN_UNUSED;
// *is_unchanged: the file exists, as the dataset wrote it. True if `path` is NULL.
enum status own_output_is_unchanged(struct store *store, struct text dataset, const char *path,
                                    bool *is_unchanged, struct error *error) WARN_UNUSED;

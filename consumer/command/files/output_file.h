// An output file that appears under its name only when it is complete. A regular file is written unnamed in
// its folder, synchronized, and renamed. A reader sees the old file or the complete new one; the last of two
// writers wins, and a killed writer leaves nothing. Symbolic links are followed. An existing file keeps its
// mode, and its owner if we may set it, but not its other hard links. "-", pipes, terminals and devices are
// written directly. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdio.h>

struct output_file {
    FILE *file;      // NULL: not open
    char *name;      // for messages
    char *target;    // final path; NULL: written directly
    char *temporary; // current path; NULL: unnamed
    bool is_part;    // the file is kept without output_file_complete
};

// STATUS_REFUSE, ERROR_FILE: the path can't be written to, for example because its file is write-protected.
enum status output_file_open(struct output_file *output, const char *path, struct error *error) WARN_UNUSED;
// As output_file_open, but a regular file is PATH.part until it is complete, and this process locks it. What
// an earlier process left in it is kept; `file` is at its beginning. STATUS_REFUSE also if another process
// has it locked.
enum status output_file_open_part(struct output_file *output, const char *path,
                                  struct error *error) WARN_UNUSED;
enum status output_file_complete(struct output_file *output, struct error *error) WARN_UNUSED;
// Writes to standard output and flushes it. STATUS_REFUSE, ERROR_FILE: with the cause.
enum status output_file_print(const void *bytes, size_t n, struct error *error) WARN_UNUSED;
// Without output_file_complete a regular file is removed, unless it is a part.
void output_file_close(struct output_file *output);

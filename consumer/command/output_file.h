// An output file that appears under its name only when it is complete. A regular file is written unnamed in
// its folder, synchronized, and renamed: a reader sees the old file or the complete new one, of two writers
// the last wins, and a killed one leaves nothing. Symbolic links are followed; a file that exists keeps its
// mode, and its owner where we may set it, but not its other hard links. "-", pipes, terminals and devices
// are written through. Thread: main.
#pragma once

#include "schemas/error.h"

#include <stdio.h>

struct output_file {
    FILE *file;      // NULL: not open
    char *name;      // for messages
    char *target;    // the path it gets; NULL: it is written through
    char *temporary; // the path it has; NULL: none
    bool is_part;    // what it has stays without output_file_complete
};

// STATUS_REFUSE, ERROR_FILE: the path can't be written to, which includes an existing file that is
// write-protected.
enum status output_file_open(struct output_file *output, const char *path, struct error *error) WARN_UNUSED;
// The same, but until it is complete a regular file is PATH.part, which this process has locked: what another one left
// there is kept. `file` is at its beginning. STATUS_REFUSE also where another process has it.
enum status output_file_open_part(struct output_file *output, const char *path,
                                  struct error *error) WARN_UNUSED;
enum status output_file_complete(struct output_file *output, struct error *error) WARN_UNUSED;
// Writes to standard output and flushes it. STATUS_REFUSE, ERROR_FILE: with the cause.
enum status output_file_print(const void *bytes, size_t n, struct error *error) WARN_UNUSED;
// Without output_file_complete a regular file is removed, unless it is a part.
void output_file_close(struct output_file *output);

// An output that may take hours, so an interrupted process leaves it for the same command to resume. Until it
// is complete (output_file.h) it is FILE.part, which contains whole lines, and FILE.part.state describes it:
//
//   {"made_by":"sheaf=3 model=9f86d081 ...","n_lines":4096,"n_failed":2,"n_bytes":9381042,"input":"81cf..."}
//
//   made_by   what the output depends on besides the lines of the input
//   n_lines   lines of the input whose output is in the part; n_failed of them have no result
//   n_bytes   of the part; the bytes after them were being written when the process died
//   input     hash of these lines, computed by the caller
//
// A stream (a pipe, a device) is written directly and can't be resumed. Thread: main.
#pragma once

#include "consumer/command/files/output_file.h"

#include <stdint.h>

struct output_part_state {
    int64_t n_lines, n_failed, n_bytes;
    uint64_t input;
};

struct output_part {
    struct output_file file;
    char *state_path; // NULL: a stream
    const char *made_by;
    struct output_part_state state;
};

// STATUS_REFUSE, ERROR_FILE: as for output_file_open, or another process writes the part.
enum status output_part_open(struct output_part *part, const char *path, struct error *error) WARN_UNUSED;
// Resumes the part: part->state is the state that the earlier process left (zeroed: none), and the file is
// positioned at its end. STATUS_REFUSE: the part has another `made_by`, or no command left it. `made_by` must
// outlive the part.
enum status output_part_take_up(struct output_part *part, const char *made_by,
                                struct error *error) WARN_UNUSED;
// Makes the output so far durable, with `state` as its state; n_bytes is set here. Called between whole
// lines.
enum status output_part_keep(struct output_part *part, const struct output_part_state *state,
                             struct error *error) WARN_UNUSED;
enum status output_part_complete(struct output_part *part, struct error *error) WARN_UNUSED;
// Without output_part_complete the part is kept, unless it is empty.
void output_part_close(struct output_part *part);

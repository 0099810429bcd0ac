// An output of hours that an interrupted process leaves for the next one of the same command. Until it is complete
// (output_file.h) it is FILE.part, whole lines, and beside it FILE.part.state says which:
//
//   {"made_by":"sheaf=3 model=9f86d081884c7d65 ...","n_lines":4096,"n_failed":2,"n_bytes":9381042,"input":"81cf..."}
//
//   made_by   what the output depends on besides the lines of the input
//   n_lines   of the input, that are in the part, n_failed of them without a result
//   n_bytes   of the part; more is what was written when the process died
//   input     hash of these lines, by the caller
//
// A stream (a pipe, a device) is written through and leaves nothing. Thread: main.
#pragma once

#include "consumer/command/output_file.h"

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

// STATUS_REFUSE, ERROR_FILE: as of output_file_open; another process writes the part.
enum status output_part_open(struct output_part *part, const char *path, struct error *error) WARN_UNUSED;
// Sets part->state to that of the process before, zeroed if there was none, and file to go on behind it. STATUS_REFUSE:
// the part is not `made_by` the same, or no part of a command. `made_by` must outlive the part.
enum status output_part_take_up(struct output_part *part, const char *made_by,
                                struct error *error) WARN_UNUSED;
// All lines so far are whole: those of `state`, whose n_bytes is set here.
enum status output_part_keep(struct output_part *part, const struct output_part_state *state,
                             struct error *error) WARN_UNUSED;
enum status output_part_complete(struct output_part *part, struct error *error) WARN_UNUSED;
// Without output_part_complete the part stays, unless it is empty.
void output_part_close(struct output_part *part);

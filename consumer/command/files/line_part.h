// Lines of standard input whose results are lines of an output that can be resumed (output_part.h): skips the lines whose
// results an interrupted command wrote, and checks that they are the same lines.
//
//   line_part_open, [compute output->made_by], line_part_take_up
//   line_part_next ... write results, line_part_keep
//   line_part_complete, line_part_close
//
// Thread: main.
#pragma once

#include "consumer/command/files/embed_input.h"
#include "consumer/command/files/output_part.h"

struct line_part {
    struct embed_input input;
    struct output_part output;
    struct output_part_state done; // lines given so far, in n_lines and input; n_failed: the caller's
};

// `path`: of -o; the others: of embed_input_open. Errors: of output_part_open and embed_input_open.
enum status line_part_open(struct line_part *part, const char *path, bool plain_text,
                           const struct input_text *text, struct error *error) WARN_UNUSED;
// Errors: of output_part_take_up. `made_by` must outlive the part.
enum status line_part_take_up(struct line_part *part, const char *made_by, struct error *error) WARN_UNUSED;
// The next line without a result; data NULL: the end. STATUS_REFUSE, ERROR_FILE: the lines before it are not those
// whose results were written; the errors of embed_input_next.
enum status line_part_next(struct line_part *part, struct text *line, struct error *error) WARN_UNUSED;
// Writes the results of all lines given so far and makes them durable.
enum status line_part_keep(struct line_part *part, const struct buffer *out, struct error *error) WARN_UNUSED;
// `results` names the lines in the error of own_output_check_lines.
enum status line_part_complete(struct line_part *part, const char *results, bool may_overwrite,
                               struct error *error) WARN_UNUSED;
void line_part_close(struct line_part *part);

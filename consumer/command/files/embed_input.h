// Standard input of sheaf embed: lines of text, or JSON lines (embed_line.h). Opening reads all of it, a pipe
// into a temporary file, so that the format and faults are known before a model computes anything.
//
// Lines are JSON if the first non-blank line starts with { or if every line is a JSON string or object.
// Otherwise every line is a text, whatever its first character: a review may start with a quotation mark.
// Thread: main.
#pragma once

#include "consumer/command/files/input_lines.h"

enum embed_lines {
    EMBED_LINES_UNKNOWN, // only blank lines so far
    EMBED_LINES_TEXT,
    EMBED_LINES_STRINGS, // JSON strings, no object so far
    EMBED_LINES_OBJECTS,
};

struct embed_input {
    struct input_source source;
    struct input_lines lines;
    enum embed_lines kind; // never UNKNOWN once it is open
};

// plain_text: the lines are texts, of a table too. STATUS_REFUSE: a table by its name; as for
// input_source_open and input_lines_next; a text that is not UTF-8 or has a NUL, with its line number.
enum status embed_input_open(struct embed_input *input, bool plain_text, const struct input_text *text,
                             struct error *error) WARN_UNUSED;
void embed_input_close(struct embed_input *input);
// The next line without its line end; valid until the next call. data NULL: the end. A line of more than
// JOB_RECORD_BYTES_MAX bytes is cut after one more (input->lines.line_bytes has its size).
enum status embed_input_next(struct embed_input *input, struct text *line, struct error *error) WARN_UNUSED;

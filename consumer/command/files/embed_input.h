// Detects the format of sheaf embed's standard input: lines of text, or JSON lines (embed_line.h).
//
// Lines are JSON if the first non-blank line starts with { or if every line is a JSON string or object.
// Otherwise every line is a text, whatever its first character: a review may start with a quotation mark. A
// pipe cannot be read twice, so there the first non-blank line decides.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdio.h>

enum embed_lines {
    EMBED_LINES_UNKNOWN, // decided by the first non-blank line
    EMBED_LINES_TEXT,
    EMBED_LINES_STRINGS, // JSON strings, no object so far
    EMBED_LINES_OBJECTS,
};

// Scans a regular file and seeks back to where it was. STATUS_REFUSE: the file is a table, by its name or its
// first bytes; plain_text allows a table's name.
enum status embed_input_find(FILE *file, bool plain_text, enum embed_lines *lines,
                             struct error *error) WARN_UNUSED;
// The format that a first line decides; UNKNOWN: the line is blank.
enum embed_lines embed_input_of_line(struct text line);
// The line without the byte order mark that some programs write at the start of a file.
struct text embed_input_without_mark(struct text first_line);

// What the lines of sheaf embed's standard input are: texts, or JSON (embed_line.h).
//
// They are JSON where the first line with text is a JSON object, or where every line is a JSON string or object;
// else each is a text, whatever it begins with: a review may begin with a quotation mark. A pipe cannot be read
// twice: there the first line decides.
#pragma once

#include "schemas/error.h"
#include "schemas/text.h"

#include <stdio.h>

enum embed_lines {
    EMBED_LINES_UNKNOWN, // the first with text decides
    EMBED_LINES_TEXT,
    EMBED_LINES_STRINGS, // JSON, and none of those before was an object
    EMBED_LINES_OBJECTS,
};

// Reads a regular file up to its end and goes back to where it was. STATUS_REFUSE: the file is a table, by its name
// or its first bytes; plain_text accepts the name of one.
enum status embed_input_find(FILE *file, bool plain_text, enum embed_lines *lines,
                             struct error *error) WARN_UNUSED;
// What a first line makes of the rest; UNKNOWN: it is blank.
enum embed_lines embed_input_of_line(struct text line);
// Behind the byte order mark that some programs write first.
struct text embed_input_without_mark(struct text first_line);

// A line of the input of sheaf embed:
//
//   the text itself
//   "the text"
//   {"text": "the text", "id": "doc-7", "custom_id": 7}
//
// Where the lines are JSON (embed_input.h), one that begins with a brace or a quote is. The ids may be absent; other
// members are ignored.
#pragma once

#include "schemas/arena.h"
#include "schemas/error.h"
#include "schemas/text.h"

// Without line feed and carriage return at its end.
struct text embed_line_trim(struct text line);
// `line` is trimmed. `text` points into it, or into the arena. Appends the ids to `ids` as members of an object, as
// they came, each with a comma behind it: "id":"doc-7","custom_id":7,. STATUS_REJECT: the line is at fault; ids that
// could be read are there. Other errors: ERROR_OUT_OF_MEMORY.
enum status embed_line_decode(struct text line, struct arena *arena, struct text *text, struct buffer *ids,
                              struct error *error) WARN_UNUSED;

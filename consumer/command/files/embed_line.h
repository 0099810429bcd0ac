// A line of the input of sheaf embed:
//
//   the text itself
//   "the text"
//   {"text": "the text", "id": "doc-7", "custom_id": 7}
//
// If the lines are JSON (embed_input.h), a line that starts with a brace or a quote is parsed. The ids may be
// absent; other members are ignored.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/error.h"
#include "schemas/base/text.h"

struct value;

// `line` has no line end. *text points into `line` or the arena. Appends the ids of the line to `ids` as
// members of an object, spelled as in the line and each followed by a comma, as "id":"doc-7","custom_id":7,
// for the line above. STATUS_REJECT: the line is at fault; the ids read before the fault are appended. Other
// errors: ERROR_OUT_OF_MEMORY.
enum status embed_line_decode(struct text line, struct arena *arena, struct text *text, struct buffer *ids,
                              struct error *error) WARN_UNUSED;
// Appends the ids of a decoded object (json_decode_spelled), as above. STATUS_REJECT: an id is at fault.
enum status embed_line_add_ids(const struct value *object, struct buffer *ids,
                               struct error *error) WARN_UNUSED;

// The conversation of a row: a rendered template, a JSON message per line. Text of the table is text: inside
// a JSON string its quotes, backslashes and control characters are escaped, so it neither ends the string nor
// the message. Thread: any.
#pragma once

#include "schemas/error.h"
#include "schemas/span.h"
#include "schemas/text.h"

// Appends the messages, separated by commas. `content`: the parts of `rendered` that are the table's.
// STATUS_REJECT: a line that is no JSON, text of the table outside a JSON string (but for numbers and
// literals) or behind a backslash of the template, or no message at all.
enum status row_messages_add(struct text rendered, const struct text_spans *content, struct buffer *record,
                             struct error *error) WARN_UNUSED;

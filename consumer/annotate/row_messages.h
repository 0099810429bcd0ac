// The conversation of a row: a rendered template with one JSON message per line. Text of the table is always
// text: within a JSON string its quotes, backslashes and control characters are escaped, so it can end
// neither the string nor the message. Thread: any.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/span.h"
#include "schemas/base/text.h"

// Appends the messages, separated by commas. `content`: the parts of `rendered` that come from the table.
// STATUS_REJECT: a line that is not JSON; text of the table outside a JSON string (except numbers and
// literals) or after a backslash of the template; no message at all.
enum status row_messages_add(struct text rendered, const struct text_spans *content, struct buffer *record,
                             struct error *error) WARN_UNUSED;

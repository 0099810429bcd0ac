// JSON values as text for `sheaf grammar`: compact, or with a blank behind each comma and colon and without
// any character above ASCII, as Python's json.dumps writes. The order of keys stays as it is,
// and so do numbers, but that exponents are resolved.
#pragma once

#include "engine/grammar/json_document.h"

void grammar_text_write(const struct json_node *node, bool spaces, struct buffer *out);

// base64 (RFC 4648, section 4): the standard alphabet, padded, no line breaks.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>

void base64_encode(struct text bytes, struct buffer *out);
// Appends the decoded bytes. Returns false, with `out` unchanged, if `text` is not canonical base64 as
// base64_encode writes it; out->failed is set if memory ran out.
bool base64_decode(struct text text, struct buffer *out) WARN_UNUSED;

// base64 (RFC 4648, section 4): the standard alphabet, padded, no line breaks.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>

void base64_encode(struct text bytes, struct buffer *out);
// Appends the bytes. False, with `out` as it was, when `text` is not exactly what base64_encode writes;
// out->failed tells of missing memory.
bool base64_decode(struct text text, struct buffer *out) WARN_UNUSED;

// Python's % formatter, for the conversions that prompts use: %s, %r, %d, %i, %f, %(key)s with the flags -
// and 0, a width and a precision. All others, and str.format, are refused by name. Source:
// docs.python.org/3/library/stdtypes.html, printf-style.
#pragma once

#include "engine/template/object.h"

bool format_percent(struct rendering *rendering, struct text format, const struct object *arguments,
                    struct object *result);

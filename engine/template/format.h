// Python's two string formatters: format_percent.c, format_braces.c.
#pragma once

#include "engine/template/functions.h"

// `format % arguments`: docs.python.org/3/library/stdtypes.html#printf-style-string-formatting.
bool format_percent(struct rendering *rendering, struct text format, const struct object *arguments,
                    struct object *result);
// format.format(...): docs.python.org/3/library/string.html#format-string-syntax.
bool format_braces(struct rendering *rendering, struct text format, const struct call *call,
                   struct object *result);

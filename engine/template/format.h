// Python's two ways of formatting text. printf style ('%.2f' % x): docs.python.org/3/library/stdtypes.html,
// "printf-style String Formatting". str.format: docs.python.org/3/library/string.html, "Format String Syntax".
#pragma once

#include "engine/template/functions.h"

// Formats `format % arguments`. A tuple gives arguments by position, a dict by name; any other object is the
// only argument.
struct object format_printf(struct rendering *rendering, struct text format, const struct object *arguments);
// Formats `format.format(...)`; call->items[0] is the format, not an argument. `names` is the dict of
// format_map, else NULL.
struct object format_braces(struct rendering *rendering, struct text format, const struct call *call,
                            const struct object *names);
// Returns a fault of the format that does not depend on its arguments, or NULL.
const char *format_printf_problem(struct text format);
const char *format_braces_problem(struct text format);

// Python's two ways of formatting text. printf style ('%.2f' % x): docs.python.org/3/library/stdtypes.html,
// "printf-style String Formatting". str.format: docs.python.org/3/library/string.html, "Format String Syntax".
#pragma once

#include "engine/template/functions.h"

// `format % arguments`: a tuple has the arguments, a dict those with names, anything else is the only one.
struct object format_printf(struct rendering *rendering, struct text format, const struct object *arguments);
// `format.format(...)`; call->items[0] is not an argument. `names`: of format_map, a dict; else NULL.
struct object format_braces(struct rendering *rendering, struct text format, const struct call *call,
                            const struct object *names);
// What is wrong with a format whatever its arguments are, or NULL.
const char *format_printf_problem(struct text format);
const char *format_braces_problem(struct text format);

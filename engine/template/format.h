// Python's two string formatters, for the conversions that prompts use: %s, %r, %d, %i, %f, %(key)s with the
// flags - and 0, and
// {}, {0}, {name} with [<>^][0][width][,][.precision][d f s %]. All others are refused by name. Sources:
// docs.python.org/3/library/stdtypes.html, printf-style; docs.python.org/3/library/string.html, format
// specification.
#pragma once

#include "engine/template/functions.h"

bool format_percent(struct rendering *rendering, struct text format, const struct object *arguments,
                    struct object *result);
bool format_braces(struct rendering *rendering, struct text format, const struct call *call,
                   struct object *result);

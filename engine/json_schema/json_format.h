// The values of `format` that are enforced, each an expression over the decoded string.
#pragma once

#include "engine/regex/expression.h"

enum format_support {
    FORMAT_UNKNOWN, // not in any draft: ignored, as the standard says
    FORMAT_ENFORCED,
    FORMAT_UNENFORCED, // known, but not a regular set: refused
};

enum format_support format_expression(struct expressions *pool, struct text name, uint32_t *expression,
                                      struct error *error);

// The values of `format`, each enforced as an expression over the decoded string.
#pragma once

#include "engine/regex/expression.h"

enum format_support {
    FORMAT_UNKNOWN, // in no draft: ignored, as the standard requires
    FORMAT_ENFORCED,
    FORMAT_UNENFORCED, // known, but not a regular language: rejected
};

enum format_support format_expression(struct expressions *pool, struct text name, uint32_t *expression,
                                      struct error *error);

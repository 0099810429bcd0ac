// A matcher's copy, with which a test tries one continuation and drops it. Finished as any other.
#pragma once

#include "engine/grammar/grammar.h"

static inline bool matcher_copy(struct matcher *copy, const struct matcher *matcher)
{
    *copy = *matcher;
    copy->bytes = copy->counted = (struct buffer){0};
    buffer_add(&copy->bytes, matcher->bytes.data, matcher->bytes.size);
    buffer_add(&copy->counted, matcher->counted.data, matcher->counted.size);
    return !copy->bytes.failed && !copy->counted.failed;
}

// Reading the arguments of a bound call; each fails with Python's kind of message.
#pragma once

#include "engine/template/functions.h"

// Left out or none: `missing`.
bool argument_integer(struct rendering *rendering, const struct object *argument, int64_t missing,
                      int64_t *integer);
bool argument_text(struct rendering *rendering, const struct object *argument, struct text missing,
                   struct text *text);
static inline bool argument_truth(const struct object *argument, bool missing)
{
    return argument->kind == OBJECT_MISSING ? missing : object_truth(argument);
}
static inline bool argument_is_given(const struct object *argument)
{
    return argument->kind != OBJECT_MISSING && argument->kind != OBJECT_NONE;
}

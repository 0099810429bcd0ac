// Expressions and assignment.
#pragma once

#include "engine/template/call.h"
#include "engine/template/rendering.h"

// Fails with the rendering's error and its line set.
bool evaluate(struct rendering *rendering, struct activation *activation, const struct expression *expression,
              struct object *value);
// A filter expression without input of its own applied to `input`.
bool evaluate_filter(struct rendering *rendering, struct activation *activation,
                     const struct expression *filter, const struct object *input, struct object *value);
bool evaluate_assign(struct rendering *rendering, struct activation *activation,
                     const struct expression *target, const struct object *value);
// Fails where a namespace target's variable is no namespace.
bool evaluate_check_target(struct rendering *rendering, struct activation *activation,
                           const struct expression *target);
// Fills a scope's slots on entry.
bool evaluate_enter_scope(struct rendering *rendering, struct activation *activation,
                          const struct scope *scope);

static inline struct object *evaluate_place(struct activation *activation, struct place place)
{
    for (uint32_t i = 0; i < place.hops; i++)
        activation = activation->around;
    return &activation->slots[place.slot];
}

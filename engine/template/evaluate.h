// Evaluates expressions and assignments (evaluate.c), and executes statements (execute.c).
#pragma once

#include "engine/template/call.h"
#include "engine/template/rendering.h"

// Evaluates in rendering->scope.activation.
struct object evaluate_expression(struct rendering *rendering, const struct expression *expression);
// Evaluates a call with the extra keyword argument `caller`.
struct object evaluate_call_with(struct rendering *rendering, const struct expression *expression,
                                 const struct object *caller);
// Applies a filter expression, which has no input, to `input`.
struct object evaluate_filter(struct rendering *rendering, const struct expression *filter,
                              const struct object *input);
void evaluate_assign(struct rendering *rendering, const struct expression *target,
                     const struct object *value);
// Fails if the variable of a namespace target is not a namespace.
void evaluate_check_target(struct rendering *rendering, const struct expression *target);
// Fills a scope's slots on entry.
void evaluate_enter_scope(struct rendering *rendering, const struct scope *scope);

static inline struct object *evaluate_place(struct activation *activation, struct place place)
{
    for (uint32_t i = 0; i < place.hops; i++)
        activation = activation->around;
    return &activation->slots[place.slot];
}

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

enum flow execute_statements(struct rendering *rendering, const struct statements *statements);

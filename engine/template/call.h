// Calls: binding arguments, macros, and whatever else templates may call.
#pragma once

#include "engine/template/functions.h"
#include "engine/template/syntax.h"

// The slots of a procedure that runs, or ran and left something that still sees them.
struct activation {
    struct activation *around;
    struct activation *next_spare;
    struct object slots[];
};

struct macro {
    const struct macro_definition *definition;
    struct activation *around;
};

// NULL: failed. Slots are MISSING.
struct activation *call_activation_create(struct rendering *rendering, const struct procedure *procedure,
                                          struct activation *around);
// The activation is used again, unless something may still see it.
void call_activation_release(struct rendering *rendering, const struct procedure *procedure,
                             struct activation *activation);

// Binds `first` (NULL: none) and the call's arguments to the function's parameters and runs it.
bool call_function(struct rendering *rendering, const struct function *function, const struct object *first,
                   const struct call *call, struct object *result);
bool call_macro(struct rendering *rendering, const struct macro *macro, const struct call *call,
                struct object *result);
// Any callable; fails with Python's message for others.
bool call_object(struct rendering *rendering, const struct object *callee, const struct call *call,
                 struct object *result);
// A function, or a method bound to *self (NULL: none), as an object.
bool call_bind(struct rendering *rendering, const struct function *function, const struct object *self,
               struct object *object);

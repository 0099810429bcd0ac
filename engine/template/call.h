// Calls: binding of arguments; functions, macros and the other callable objects of templates.
#pragma once

#include "engine/template/functions.h"
#include "engine/template/syntax.h"

// The slots of a running procedure, or of a finished procedure to which an inner one still refers.
struct activation {
    struct activation *around;
    struct activation *next_spare;
    struct object slots[];
};

struct macro {
    const struct macro_definition *definition;
    struct activation *around;
};

// All slots start as MISSING.
struct activation *call_activation_create(struct rendering *rendering, const struct procedure *procedure,
                                          struct activation *around);
// Binds `first` (NULL: none) and the call's arguments to the function's parameters and runs it.
struct object call_function(struct rendering *rendering, const struct function *function,
                            const struct object *first, const struct call *call);
// Calls any callable; fails with Python's message for other objects.
struct object call_object(struct rendering *rendering, const struct object *callee, const struct call *call);
// Returns a function, or a method bound to *self (NULL: none), as an object.
struct object call_bind(struct rendering *rendering, const struct function *function,
                        const struct object *self);

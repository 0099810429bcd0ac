// The functions that templates call: filters, tests, global functions, methods. Each file below holds a table
// of some; a function binds its arguments by their names in the table. Sources of what they do:
// jinja.palletsprojects.com/templates (filters, tests, globals), docs.python.org/3/library/stdtypes.html
// (methods).
#pragma once

#include "engine/template/object.h"

enum { FUNCTION_PARAMETERS_MAX = 6 };

struct keyword_argument {
    struct text name;
    struct object value;
};

// Of a bound function `items` are its parameters in order, MISSING where left out, and there are no keywords.
struct call {
    const struct object *items;
    size_t n_items;
    const struct keyword_argument *keywords;
    size_t n_keywords;
};

struct function {
    const char *name;
    bool (*run)(struct rendering *rendering, const struct call *call, struct object *result);
    unsigned n_required;                             // of the parameters
    const char *parameters[FUNCTION_PARAMETERS_MAX]; // a filter's input and a method's object come first
    bool positional_only;
    bool any_arguments; // not bound: the call comes as it was written
    bool unsafe;        // exists in Python, but the sandbox keeps it from templates
};

struct function_table {
    const struct function *functions;
    size_t n_functions;
};

extern const struct function_table filters_of_text;      // filters_text.c
extern const struct function_table filters_of_values;    // filters_values.c
extern const struct function_table filters_of_sequences; // filters_sequences.c
extern const struct function_table filters_lazy;         // filters_lazy.c
extern const struct function_table tests_table;          // tests.c
extern const struct function_table globals_table;        // globals.c
extern const struct function_table methods_of_strings;   // methods_string.c, methods_case.c
extern const struct function_table methods_of_string_case;
extern const struct function_table methods_of_dicts; // methods.c
extern const struct function_table methods_of_lists;
extern const struct function_table methods_of_tuples;
extern const struct function_table methods_of_integers;
extern const struct function_table methods_of_floats;
extern const struct function_table methods_of_loops;
extern const struct function_table methods_of_cyclers;

const struct function *functions_find_filter(struct text name); // NULL: none
const struct function *functions_find_test(struct text name);
const struct function *functions_find_global(struct text name);
// A method of that kind of object, an unsafe one too.
const struct function *functions_find_method(enum object_kind kind, struct text name);

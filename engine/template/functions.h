// The functions that templates call: filters, tests, global functions, methods. Each file below holds a table
// of some of them; arguments are bound to parameters by the names in the table. References for their
// behaviour: jinja.palletsprojects.com/templates (filters, tests, globals),
// docs.python.org/3/library/stdtypes.html (methods).
#pragma once

#include "engine/template/object.h"

enum { FUNCTION_PARAMETERS_MAX = 6 };

struct keyword_argument {
    struct text name;
    struct object value;
};

// A call. For a bound function `items` are its parameters in order, MISSING if omitted, and there are no
// keywords.
struct call {
    const struct object *items;
    size_t n_items;
    const struct keyword_argument *keywords;
    size_t n_keywords;
    unsigned variant; // function->variant
};

struct function {
    const char *name;
    struct object (*run)(struct rendering *rendering, const struct call *call);
    unsigned n_required;                             // number of required parameters
    const char *parameters[FUNCTION_PARAMETERS_MAX]; // a filter's input and a method's object come first
    unsigned variant;                                // distinguishes functions with the same `run`
    bool positional_only;
    bool any_arguments; // the function is not bound: it receives the call as written
    bool unsafe;        // exists in Python, but the sandbox refuses it
};

// A table row; the variable arguments are the names of the parameters.
#define FUNCTION_ROW(name, run, variant, n_required, positional_only, any_arguments, unsafe, ...)            \
    {                                                                                                        \
        name, run, n_required, {__VA_ARGS__}, variant, positional_only, any_arguments, unsafe                \
    }
#define FUNCTION(name, run, variant, n_required, ...)                                                        \
    FUNCTION_ROW(name, run, variant, n_required, false, false, false, __VA_ARGS__)
#define METHOD(name, run, variant, n_required, ...)                                                          \
    FUNCTION_ROW(name, run, variant, n_required, true, false, false, __VA_ARGS__)
#define ANY_ARGUMENTS(name, run, variant) FUNCTION_ROW(name, run, variant, 0, false, true, false, NULL)
#define UNSAFE(name)                      FUNCTION_ROW(name, NULL, 0, 0, false, false, true, NULL)

struct function_table {
    const struct function *functions;
    size_t n_functions;
};

#define FUNCTION_TABLE(rows)                                                                                 \
    {                                                                                                        \
        rows, sizeof(rows) / sizeof(rows)[0]                                                                 \
    }

extern const struct function_table filters_of_text;
extern const struct function_table filters_of_values;
extern const struct function_table filters_of_sequences;
extern const struct function_table filters_of_groups;
extern const struct function_table filters_of_layout;
extern const struct function_table filters_of_wrapping;
extern const struct function_table tests_table;
extern const struct function_table globals_table;
extern const struct function_table methods_of_text;
extern const struct function_table methods_of_text_rarer;
extern const struct function_table methods_of_dicts;
extern const struct function_table methods_of_lists;
extern const struct function_table methods_of_tuples;
extern const struct function_table methods_of_loops;
extern const struct function_table methods_of_cyclers;

const struct function *functions_find(const struct function_table *table, struct text name); // NULL: none
const struct function *functions_find_filter(struct text name);
// Finds a method of objects of that kind, including unsafe methods.
const struct function *functions_find_method(enum object_kind kind, struct text name);
// True if Python's type has this attribute but templates may not use it.
bool functions_is_refused(enum object_kind kind, struct text name);

// Read the arguments of a bound call. Each function fails with the message that Python gives. `missing` is
// the value of an omitted or none argument.
int64_t argument_integer(struct rendering *rendering, const struct object *argument, int64_t missing);
struct text argument_text(struct rendering *rendering, const struct object *argument, struct text missing);
static inline bool argument_truth(const struct object *argument, bool missing)
{
    return argument->kind == OBJECT_MISSING ? missing : object_truth(argument);
}
static inline bool argument_is_given(const struct object *argument)
{
    return argument->kind != OBJECT_MISSING && argument->kind != OBJECT_NONE;
}

#include "engine/template/functions.h"
#include "engine/template/rendering.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

const struct function *functions_find(const struct function_table *table, struct text name)
{
    for (size_t i = 0; i < table->n_functions; i++)
        if (text_equals_string(name, table->functions[i].name))
            return &table->functions[i];
    return NULL;
}

const struct function *functions_find_filter(struct text name)
{
    static const struct function_table *const tables[] = {&filters_of_text,      &filters_of_values,
                                                          &filters_of_sequences, &filters_of_groups,
                                                          &filters_of_layout,    &filters_of_wrapping};
    const struct function *function = NULL;
    for (size_t i = 0; i < COUNT(tables) && !function; i++)
        function = functions_find(tables[i], name);
    return function;
}

const struct function *functions_find_method(enum object_kind kind, struct text name)
{
    static const struct function_table *const tables[OBJECT_FUNCTION + 1] = {
        [OBJECT_STRING] = &methods_of_text, [OBJECT_DICT] = &methods_of_dicts,
        [OBJECT_LIST] = &methods_of_lists,  [OBJECT_TUPLE] = &methods_of_tuples,
        [OBJECT_LOOP] = &methods_of_loops,  [OBJECT_CYCLER] = &methods_of_cyclers,
    };
    const struct function *method = tables[kind] ? functions_find(tables[kind], name) : NULL;
    return method || kind != OBJECT_STRING ? method : functions_find(&methods_of_text_rarer, name);
}

// Attributes that the Python types have but templates refuse.
static const char *const refused[OBJECT_FUNCTION + 1] = {
    [OBJECT_STRING] = " encode maketrans translate ",
    [OBJECT_INTEGER] = " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag "
                       "numerator real to_bytes ",
    [OBJECT_FLOAT] = " as_integer_ratio conjugate fromhex hex imag is_integer real ",
    [OBJECT_RANGE] = " count index start step stop ",
    [OBJECT_VIEW] = " isdisjoint mapping ",
    [OBJECT_GENERATOR] = " close send throw ",
    [OBJECT_MACRO] = " name arguments catch_kwargs catch_varargs caller ",
    [OBJECT_CYCLER] = " items pos ",
    [OBJECT_JOINER] = " sep used ",
};

bool functions_is_refused(enum object_kind kind, struct text name)
{
    kind = kind == OBJECT_BOOL || kind == OBJECT_LONG ? OBJECT_INTEGER : kind;
    bool is_word = name.size > 0 && !memchr(name.data, ' ', name.size);
    const char *found = is_word ? refused[kind] : NULL;
    while (found && (found = memmem(found, strlen(found), name.data, name.size))) {
        if (found[-1] == ' ' && found[name.size] == ' ')
            return true;
        found++;
    }
    return false;
}

int64_t argument_integer(struct rendering *rendering, const struct object *argument, int64_t missing)
{
    if (!argument_is_given(argument))
        return missing;
    object_check_defined(rendering, argument);
    if (!object_is_integral(argument))
        rendering_fail(rendering, "'%s' object cannot be interpreted as an integer",
                       object_type_name(argument));
    return object_to_integer(argument);
}

struct text argument_text(struct rendering *rendering, const struct object *argument, struct text missing)
{
    if (!argument_is_given(argument))
        return missing;
    if (argument->kind != OBJECT_STRING)
        rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    return argument->text.data ? argument->text : TEXT(""); // an empty text that was given, not a missing one
}

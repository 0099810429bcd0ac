#include "engine/template/functions.h"

static const struct function *find_in(const struct function_table *table, struct text name)
{
    for (size_t i = 0; i < table->n_functions; i++)
        if (text_equals_string(name, table->functions[i].name))
            return &table->functions[i];
    return NULL;
}

static const struct function *find(const struct function_table *const *tables, size_t n_tables,
                                   struct text name)
{
    for (size_t i = 0; i < n_tables; i++) {
        const struct function *function = find_in(tables[i], name);
        if (function)
            return function;
    }
    return NULL;
}

const struct function *functions_find_filter(struct text name)
{
    static const struct function_table *const tables[] = {&filters_of_text, &filters_of_values,
                                                          &filters_of_sequences, &filters_lazy};
    return find(tables, sizeof tables / sizeof tables[0], name);
}

const struct function *functions_find_test(struct text name)
{
    return find_in(&tests_table, name);
}

const struct function *functions_find_global(struct text name)
{
    return find_in(&globals_table, name);
}

const struct function *functions_find_method(enum object_kind kind, struct text name)
{
    static const struct function_table *const of_strings[] = {&methods_of_strings, &methods_of_string_case};
    switch (kind) {
    case OBJECT_STRING:
        return find(of_strings, sizeof of_strings / sizeof of_strings[0], name);
    case OBJECT_DICT:
        return find_in(&methods_of_dicts, name);
    case OBJECT_LIST:
        return find_in(&methods_of_lists, name);
    case OBJECT_TUPLE:
    case OBJECT_RANGE:
        return find_in(&methods_of_tuples, name);
    case OBJECT_BOOL:
    case OBJECT_INTEGER:
        return find_in(&methods_of_integers, name);
    case OBJECT_FLOAT:
        return find_in(&methods_of_floats, name);
    case OBJECT_LOOP:
        return find_in(&methods_of_loops, name);
    case OBJECT_CYCLER:
        return find_in(&methods_of_cyclers, name);
    default:
        return NULL;
    }
}

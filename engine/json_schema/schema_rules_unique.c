// Arrays of unique items that have finitely many values: an automaton whose states are the sets of used
// values.
#include "engine/json_schema/schema_rules.h"

#include <stdio.h>

enum { UNIQUE_STATES_MAX = SCHEMA_STATES_MAX / 8, UNIQUE_BUCKETS = 1024, UNIQUE_INTEGERS_MAX = 256 };

struct unique_state {
    uint32_t length, used;
    uint32_t symbol;
    uint32_t next; // next in the bucket + 1; 0: none
};

struct unique_rules {
    struct schema_rules *rules;
    struct schema_compiler *compiler;
    const struct array_shape *array;
    const struct schema_marks *marks;
    uint32_t depth;
    const struct json_node *values[SCHEMA_UNIQUE_MAX];
    uint32_t n_values;
    struct unique_state *states;
    uint32_t n_states;
    uint32_t *buckets; // first state of each bucket + 1; 0: none
};

// Adds a value. False: no room is left.
static bool add_value(struct unique_rules *build, const struct json_node *value)
{
    for (uint32_t i = 0; i < build->n_values; i++)
        if (json_equal(build->values[i], value, build->compiler->arena))
            return true;
    if (build->n_values == SCHEMA_UNIQUE_MAX)
        return false;
    build->values[build->n_values++] = value;
    return true;
}

// Adds a superset of the schema's values, if enum, const or a referenced schema lists them.
static bool add_listed(struct unique_rules *build, const struct json_node *schema, uint32_t depth)
{
    const struct json_node *list = json_member_named(schema, "enum"),
                           *constant = json_member_named(schema, "const");
    const struct json_node *reference = json_member_named(schema, "$ref");
    bool listed = list && list->kind == JSON_ARRAY;
    if (reference && reference->kind == JSON_STRING && depth) {
        const struct json_node *target = compiler_resolve(build->compiler, schema, reference->text);
        if (build->compiler->source.draft <= SCHEMA_DRAFT_7 || !listed)
            return target && add_listed(build, target, depth - 1);
    }
    if (constant && build->compiler->source.draft >= SCHEMA_DRAFT_6)
        return add_value(build, constant);
    for (const struct json_node *value = listed ? list->first : NULL; value; value = value->next)
        if (!add_value(build, value))
            return false;
    return listed;
}

// Finds a lower bound of the schema's numbers, as an integer. False: the schema has none.
static bool find_least(struct unique_rules *build, const struct json_node *schema, uint32_t depth,
                       int64_t *least)
{
    static const char *const names[] = {"minimum", "exclusiveMinimum"};
    struct schema_compiler *compiler = build->compiler;
    struct decimal decimal;
    uint32_t count;
    for (int i = 0; i < 2; i++) {
        const struct json_node *bound = json_member_named(schema, names[i]);
        if (!bound || bound->kind != JSON_NUMBER || !decimal_read(bound->text, compiler->arena, &decimal))
            continue;
        bool is_negative = decimal.negative;
        decimal.negative = false;
        if (decimal_to_count(decimal, &count)) {
            *least = is_negative ? -(int64_t)count : count;
            return true;
        }
    }
    const struct json_node *reference = json_member_named(schema, "$ref"),
                           *all = json_member_named(schema, "allOf");
    const struct json_node *target = reference && reference->kind == JSON_STRING && depth
                                         ? compiler_resolve(compiler, schema, reference->text)
                                         : NULL;
    if (target && find_least(build, target, depth - 1, least))
        return true;
    for (const struct json_node *part = all && depth ? all->first : NULL; part; part = part->next)
        if (find_least(build, part, depth - 1, least))
            return true;
    return false;
}

static bool add_integer(struct unique_rules *build, int64_t integer)
{
    struct json_node *value = compiler_allocate(build->compiler, 1, sizeof *value);
    char *text = compiler_allocate(build->compiler, 24, 1);
    if (!value || !text)
        return false;
    int size = snprintf(text, 24, "%lld", (long long)integer);
    *value = (struct json_node){.kind = JSON_NUMBER, .text = {text, (size_t)size}};
    return add_value(build, value);
}

// Adds all numbers of the shape, if they are few integers above the lower bound of the schema.
static bool add_integers(struct unique_rules *build, const struct shape *shape, const struct formula *formula)
{
    struct expressions *pool = build->compiler->pool;
    int64_t least;
    if (shape->number == EXPRESSION_NOTHING)
        return true;
    if (formula->kind != FORMULA_SCHEMA || !find_least(build, formula->node, 8, &least))
        return false;
    uint32_t others = shape->number;
    for (int64_t integer = least; integer < least + UNIQUE_INTEGERS_MAX; integer++) {
        char text[24];
        struct decimal decimal;
        struct text written = {text, (size_t)snprintf(text, sizeof text, "%lld", (long long)integer)};
        if (!expression_matches(pool, shape->number, written))
            continue;
        if (!decimal_read(written, build->compiler->arena, &decimal) || !add_integer(build, integer))
            return false;
        others = expression_both(pool, others, expression_complement(pool, number_equal(pool, decimal)));
    }
    return expression_is_empty_language(pool, others);
}

// Adds null, false, true and few integers, which need no list.
static bool add_scalars(struct unique_rules *build, const struct shape *shape, const struct formula *formula)
{
    static const struct json_node null = {.kind = JSON_NULL}, no = {.kind = JSON_FALSE},
                                  yes = {.kind = JSON_TRUE};
    if (shape->string != EXPRESSION_NOTHING || shape->n_arrays || shape->n_objects)
        return false;
    return (!shape->null || add_value(build, &null)) && (!shape->no || add_value(build, &no)) &&
           (!shape->yes || add_value(build, &yes)) && add_integers(build, shape, formula);
}

static bool add_formula(struct unique_rules *build, uint32_t id)
{
    const struct shape *shape = formula_shape(build->compiler, id);
    if (!shape)
        return false;
    uint32_t n_before = build->n_values;
    struct formula formula = build->compiler->table.items[id];
    if (add_scalars(build, shape, &formula))
        return true;
    build->n_values = n_before;
    if (formula.kind == FORMULA_VALUE)
        return add_value(build, formula.node);
    if (formula.kind == FORMULA_SCHEMA)
        return add_listed(build, formula.node, 8);
    bool all = formula.kind == FORMULA_OR && formula.n_parts > 0;
    for (uint32_t i = 0; i < formula.n_parts; i++) {
        bool part = add_formula(build, formula.parts[i]);
        if (formula.kind == FORMULA_AND && part)
            return true;
        all = all && part;
    }
    return all;
}

static uint32_t state_symbol(struct unique_rules *build, uint32_t length, uint32_t used)
{
    uint32_t *bucket = &build->buckets[(used ^ used / UNIQUE_BUCKETS) % UNIQUE_BUCKETS];
    for (uint32_t i = *bucket; i; i = build->states[i - 1].next)
        if (build->states[i - 1].length == length && build->states[i - 1].used == used)
            return build->states[i - 1].symbol;
    if (build->n_states == UNIQUE_STATES_MAX) {
        compiler_refuse(build->compiler, build->array->unique, "too many values to keep apart");
        return SYMBOL_NOTHING;
    }
    uint32_t symbol = rules_nonterminal(build->compiler->rules);
    build->states[build->n_states++] = (struct unique_state){length, used, symbol, *bucket};
    *bucket = build->n_states;
    compiler_work(build->compiler, build->n_values);
    return symbol;
}

static void define_state(struct unique_rules *build, struct unique_state state)
{
    const struct array_shape *array = build->array;
    struct symbol_list list = {0};
    if (state.length >= array->min && state.length > 0)
        symbol_list_add(build->rules, &list, build->marks->close_array);
    for (uint32_t i = 0;
         state.length < array->max && i < build->n_values && build->compiler->status == STATUS_OK; i++) {
        if (state.used >> i & 1)
            continue;
        uint32_t formula = formula_and(build->compiler, array_value(array, state.length),
                                       formula_value(build->compiler, build->values[i]));
        uint32_t value = formula_is_nothing(build->compiler, formula, 2)
                             ? SYMBOL_NOTHING
                             : schema_rules_symbol(build->rules, formula, build->depth + 1);
        if (value == SYMBOL_NOTHING)
            continue;
        uint32_t symbols[] = {build->marks->comma, value,
                              state_symbol(build, state.length + 1, state.used | 1u << i)};
        bool first = state.length == 0;
        symbol_list_add(build->rules, &list,
                        rules_sequence(build->compiler->rules, symbols + first, 3 - first));
    }
    rules_define(build->compiler->rules, state.symbol, symbol_list_choice(build->rules, &list));
}

uint32_t schema_rules_unique(struct schema_rules *rules, const struct array_shape *array, uint32_t depth)
{
    struct unique_rules build = {.rules = rules,
                                 .compiler = rules->compiler,
                                 .array = array,
                                 .depth = depth,
                                 .marks = schema_rules_marks(rules, depth)};
    bool finite = array->n_contains == 0;
    for (uint32_t i = 0; finite && i < array->n_prefix; i++)
        finite = add_formula(&build, array->prefix[i]);
    if (finite && array->rest != FORMULA_FALSE && array->max > array->n_prefix)
        finite = add_formula(&build, array->rest);
    if (!finite) {
        compiler_refuse(build.compiler, array->unique,
                        "items that are not of a few listed values can't be kept apart");
        return SYMBOL_NOTHING;
    }
    build.states = compiler_allocate(build.compiler, UNIQUE_STATES_MAX, sizeof *build.states);
    build.buckets = compiler_allocate(build.compiler, UNIQUE_BUCKETS, sizeof *build.buckets);
    if (!build.states || !build.buckets)
        return SYMBOL_NOTHING;
    struct symbol_list list = {0};
    if (array->min == 0)
        symbol_list_add(rules, &list, build.marks->empty_array);
    symbol_list_add(rules, &list,
                    schema_rules_pair(rules, build.marks->open_array, state_symbol(&build, 0, 0)));
    for (uint32_t i = 0; i < build.n_states && compiler_work(build.compiler, 1); i++)
        define_state(&build, build.states[i]);
    return symbol_list_choice(rules, &list);
}

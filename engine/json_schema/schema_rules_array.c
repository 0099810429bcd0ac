// Arrays as rules: a sequence if only items are counted; otherwise an automaton whose states are
// nonterminals.
#include "engine/json_schema/schema_rules.h"

static uint32_t item_symbol(struct schema_rules *rules, const struct array_shape *array, uint32_t index,
                            uint32_t depth)
{
    return schema_rules_symbol(rules, array_value(array, index), depth + 1);
}

static uint32_t sequence_symbol(struct schema_rules *rules, const struct array_shape *array, uint32_t depth)
{
    const struct schema_marks *marks = schema_rules_marks(rules, depth);
    struct symbol_list list = {0};
    uint32_t from = array->n_prefix > 1 ? array->n_prefix : 1,
             tail = rules_sequence(rules->compiler->rules, NULL, 0);
    if (array->min == 0)
        symbol_list_add(rules, &list, marks->empty_array);
    if (array->max > from && array->rest != FORMULA_FALSE) {
        uint32_t max = array->max == COUNT_UNBOUNDED ? EXPRESSION_UNBOUNDED : array->max - from;
        uint32_t one = schema_rules_pair(rules, marks->comma, item_symbol(rules, array, from, depth));
        tail = rules_repeat(rules->compiler->rules, one, array->min > from ? array->min - from : 0, max);
    }
    for (uint32_t i = array->n_prefix; i-- > 1;) {
        tail = schema_rules_pair(rules,
                                 schema_rules_pair(rules, marks->comma, item_symbol(rules, array, i, depth)),
                                 tail);
        uint32_t choices[] = {rules_sequence(rules->compiler->rules, NULL, 0), tail};
        if (i >= array->min)
            tail = rules_choice(rules->compiler->rules, choices, 2);
    }
    uint32_t first = item_symbol(rules, array, 0, depth);
    if (array->max > 0 && first != SYMBOL_NOTHING && tail != SYMBOL_NOTHING) {
        uint32_t symbols[] = {marks->open_array, first, tail, marks->close_array};
        symbol_list_add(rules, &list, rules_sequence(rules->compiler->rules, symbols, 4));
    }
    return symbol_list_choice(rules, &list);
}

enum { CONTAINS_MAX = 3 };

struct counted_rules {
    struct schema_rules *rules;
    struct schema_compiler *compiler;
    const struct array_shape *array;
    const struct schema_marks *marks;
    uint32_t depth;
    // States have lengths 0 to n_lengths - 1. The last one represents all longer arrays, unless it is `max`.
    uint32_t n_lengths;
    uint32_t n_counts[CONTAINS_MAX]; // number of counts of each `contains`
    uint32_t *symbols;
    uint32_t *queue;
    uint32_t n_queue;
};

struct counted_state {
    uint32_t length, counts[CONTAINS_MAX];
};

static uint32_t pack_state(const struct counted_rules *build, struct counted_state state)
{
    uint32_t index = state.length;
    for (uint32_t i = 0; i < build->array->n_contains; i++)
        index = index * build->n_counts[i] + state.counts[i];
    return index;
}

static struct counted_state unpack_state(const struct counted_rules *build, uint32_t index)
{
    struct counted_state state = {0};
    for (uint32_t i = build->array->n_contains; i-- > 0; index /= build->n_counts[i])
        state.counts[i] = index % build->n_counts[i];
    state.length = index;
    return state;
}

static uint32_t state_symbol(struct counted_rules *build, struct counted_state state)
{
    uint32_t index = pack_state(build, state);
    if (build->symbols[index] == SYMBOL_NOTHING) {
        build->symbols[index] = rules_nonterminal(build->compiler->rules);
        build->queue[build->n_queue++] = index;
    }
    return build->symbols[index];
}

// Matches an item that satisfies the `contains` of the set, and none of the other `contains` that have an
// upper bound.
static uint32_t step_state(struct counted_rules *build, struct counted_state state, uint32_t set)
{
    struct schema_compiler *compiler = build->compiler;
    const struct array_shape *array = build->array;
    uint32_t formula = array_value(array, state.length < array->n_prefix ? state.length : array->n_prefix);
    struct counted_state next = state;
    if (next.length + 1 < build->n_lengths)
        next.length++;
    for (uint32_t i = 0; i < array->n_contains; i++) {
        const struct array_contains *contains = &array->contains[i];
        bool bounded = contains->max != COUNT_UNBOUNDED, matches = set >> i & 1;
        uint32_t last = bounded ? contains->max : contains->min;
        if (matches && state.counts[i] == last)
            return SYMBOL_NOTHING; // too many, or already enough
        next.counts[i] += matches;
        if (matches)
            formula = formula_and(compiler, formula, contains->formula);
        else if (bounded)
            formula = formula_and(compiler, formula, formula_not(compiler, contains->formula));
    }
    uint32_t value = schema_rules_symbol(build->rules, formula, build->depth + 1);
    if (value == SYMBOL_NOTHING)
        return SYMBOL_NOTHING;
    uint32_t symbols[] = {build->marks->comma, value, state_symbol(build, next)};
    bool first = state.length == 0;
    return rules_sequence(compiler->rules, symbols + first, 3 - first);
}

static void define_state(struct counted_rules *build, uint32_t index)
{
    struct counted_state state = unpack_state(build, index);
    const struct array_shape *array = build->array;
    struct symbol_list list = {0};
    bool complete = state.length >= array->min;
    for (uint32_t i = 0; i < array->n_contains; i++)
        complete = complete && state.counts[i] >= array->contains[i].min;
    if (complete && state.length > 0)
        symbol_list_add(build->rules, &list, build->marks->close_array);
    for (uint32_t set = 0; state.length < array->max && set < 1u << array->n_contains; set++)
        symbol_list_add(build->rules, &list, step_state(build, state, set));
    rules_define(build->compiler->rules, build->symbols[index], symbol_list_choice(build->rules, &list));
}

static uint32_t counted_symbol(struct schema_rules *rules, const struct array_shape *array, uint32_t depth)
{
    struct counted_rules build = {.rules = rules,
                                  .compiler = rules->compiler,
                                  .array = array,
                                  .depth = depth,
                                  .marks = schema_rules_marks(rules, depth)};
    uint32_t longest = array->min > array->n_prefix ? array->min : array->n_prefix;
    longest = longest ? longest : 1;
    if (array->max != COUNT_UNBOUNDED)
        longest = array->max;
    uint64_t n = (uint64_t)longest + 1;
    for (uint32_t i = 0; i < array->n_contains && i < CONTAINS_MAX; i++) {
        const struct array_contains *contains = &array->contains[i];
        uint64_t last = contains->max != COUNT_UNBOUNDED ? contains->max : contains->min;
        n = n > SCHEMA_STATES_MAX ? n : n * (last + 1);
        build.n_counts[i] = (uint32_t)last + 1;
    }
    build.n_lengths = longest + 1;
    if (n > SCHEMA_STATES_MAX || array->n_contains > CONTAINS_MAX) {
        compiler_limit(build.compiler, "schema_states", SCHEMA_STATES_MAX);
        return SYMBOL_NOTHING;
    }
    build.symbols = compiler_allocate(build.compiler, n, sizeof *build.symbols);
    build.queue = compiler_allocate(build.compiler, n, sizeof *build.queue);
    if (!build.symbols || !build.queue)
        return SYMBOL_NOTHING;
    struct symbol_list list = {0};
    bool may_be_empty = array->min == 0;
    for (uint32_t i = 0; i < array->n_contains; i++)
        may_be_empty = may_be_empty && array->contains[i].min == 0;
    if (may_be_empty)
        symbol_list_add(rules, &list, build.marks->empty_array);
    symbol_list_add(rules, &list,
                    schema_rules_pair(rules, build.marks->open_array,
                                      state_symbol(&build, (struct counted_state){0})));
    for (uint32_t i = 0; i < build.n_queue && compiler_work(build.compiler, 1); i++)
        define_state(&build, build.queue[i]);
    return symbol_list_choice(rules, &list);
}

uint32_t schema_rules_array(struct schema_rules *rules, const struct array_shape *array, uint32_t depth)
{
    if (array->unique && array->max > 1)
        return schema_rules_unique(rules, array, depth);
    return array->n_contains ? counted_symbol(rules, array, depth) : sequence_symbol(rules, array, depth);
}

// Objects as rules: an automaton whose states are nonterminals. A state consists of
//
//   at      the next name of each chain of ordered names; after all chains, other members in any order
//   mask    the loose names (free order) and the needs (a member of each must occur) that have occurred
//   count   members so far, if min or max depends on it
//   first   no member yet, so no comma
//
// Example: properties a (required), b; additionalProperties: true.
//
//   at 0  "a": ... -> at 1  "b": ... or nothing -> at 2  any other members, then }
#include "engine/json_schema/schema_rules.h"

struct object_state {
    uint32_t at, mask, count;
    bool first;
};

// Names in a fixed order. The chain's digit of `at` (see `stride`) counts the names that were passed.
struct object_chain {
    uint32_t from, n, stride;
};

enum { CHAINS_MAX = 4, CHAIN_STATES_MAX = 128 };

// The names of the object's schema.
struct object_names {
    struct object_name *ordered, *loose;
    uint32_t n_ordered, n_loose, n_required;
    struct object_chain chains[CHAINS_MAX];
    uint32_t n_chains, n_at; // n_at: number of values of `at`; the last means that all chains are complete
};

// States in order of discovery, and their symbols.
struct object_states {
    uint32_t *symbols; // indexed by state
    struct object_state *queue;
    uint32_t n_queue, n;
};

struct object_rules {
    struct schema_rules *rules;
    struct schema_compiler *compiler;
    const struct object_shape *object;
    const struct schema_marks *marks;
    uint32_t depth;
    struct object_names names;
    struct object_class *classes; // they exclude the names' keys
    uint32_t n_classes;
    uint32_t min, max; // 0 and COUNT_UNBOUNDED if members are not counted
    uint32_t n_masks, n_counts;
    uint32_t required_mask; // loose names and needs that must occur
    struct object_states states;
};

static void add_class(struct object_rules *build, uint32_t keys, uint32_t value, uint32_t names)
{
    struct expressions *pool = build->compiler->pool;
    if (names != EXPRESSION_NOTHING)
        keys = expression_both(pool, keys, expression_complement(pool, names));
    if (value != FORMULA_FALSE && keys != EXPRESSION_NOTHING)
        build->classes[build->n_classes++] = (struct object_class){keys, value};
}

static bool collect_classes(struct object_rules *build)
{
    const struct object_shape *object = build->object;
    struct text *names = compiler_allocate(build->compiler, object->n_names, sizeof *names);
    build->classes =
        compiler_allocate(build->compiler, (size_t)object->n_classes + 1, sizeof *build->classes);
    if (!names || !build->classes)
        return false;
    for (uint32_t i = 0; i < object->n_names; i++)
        names[i] = object->names[i].key;
    uint32_t all = expression_texts(build->compiler->pool, names, object->n_names);
    for (uint32_t i = 0; i < object->n_classes; i++)
        add_class(build, object->classes[i].keys, object->classes[i].value, all);
    if (object->rest != FORMULA_FALSE)
        add_class(build, object_rest_keys(build->compiler, object), object->rest, all);
    return compiler_work(build->compiler, object->n_names);
}

// Names of one `properties` stay together, in the order of their first occurrence.
static void add_ordered(struct object_rules *build, const struct object_name *name)
{
    uint32_t at = build->names.n_ordered;
    for (uint32_t i = 0; i < build->names.n_ordered; i++)
        if (build->names.ordered[i].source == name->source)
            at = i + 1;
    for (uint32_t i = build->names.n_ordered; i > at; i--)
        build->names.ordered[i] = build->names.ordered[i - 1];
    build->names.ordered[at] = *name;
    build->names.n_ordered++;
}

static void add_loose(struct object_rules *build, const struct object_name *name)
{
    build->required_mask |= name->required ? 1u << build->names.n_loose : 0;
    build->names.loose[build->names.n_loose++] = *name;
}

// Names that no `properties` declares are loose; if they are many, they come last in their own order.
static bool collect_names(struct object_rules *build)
{
    const struct object_shape *object = build->object;
    bool any_order = build->compiler->options->any_order;
    uint32_t max = any_order ? SCHEMA_LOOSE_MAX + 2 : SCHEMA_LOOSE_MAX, n_present = 0, n_undeclared = 0;
    build->names.ordered = compiler_allocate(build->compiler, object->n_names, sizeof *build->names.ordered);
    build->names.loose = compiler_allocate(build->compiler, object->n_names, sizeof *build->names.loose);
    if (!build->names.ordered || !build->names.loose)
        return false;
    for (uint32_t i = 0; i < object->n_names; i++) {
        n_present += object->names[i].value != FORMULA_FALSE;
        n_undeclared += object->names[i].value != FORMULA_FALSE && !object->names[i].declared;
    }
    for (uint32_t i = 0; i < object->n_names; i++) {
        const struct object_name *name = &object->names[i];
        if (name->value == FORMULA_FALSE)
            continue;
        build->names.n_required += name->required;
        if (any_order && n_present <= max ? true : !name->declared && n_undeclared <= max)
            add_loose(build, name);
        else
            add_ordered(build, name);
    }
    build->min = object->min > build->names.n_required ? object->min : 0;
    build->max = build->n_classes || n_present > object->max ? object->max : COUNT_UNBOUNDED;
    return true;
}

// Makes one chain per `properties`. The chains mix in any order if the product of their lengths is small;
// else one chain has all names.
static void plan_chains(struct object_rules *build)
{
    uint64_t product = 1;
    build->names.n_chains = 0;
    for (uint32_t i = 0; i < build->names.n_ordered && product <= CHAIN_STATES_MAX; i++) {
        if (i > 0 && build->names.ordered[i].source == build->names.ordered[i - 1].source)
            continue;
        uint32_t end = i + 1;
        while (end < build->names.n_ordered &&
               build->names.ordered[end].source == build->names.ordered[i].source)
            end++;
        if (build->names.n_chains == CHAINS_MAX)
            product = CHAIN_STATES_MAX + 1;
        else
            build->names.chains[build->names.n_chains++] =
                (struct object_chain){i, end - i, (uint32_t)product};
        product *= end - i + 1;
    }
    if (product > CHAIN_STATES_MAX || build->names.n_chains < 2) {
        build->names.chains[0] = (struct object_chain){0, build->names.n_ordered, 1};
        build->names.n_chains = 1;
        product = (uint64_t)build->names.n_ordered + 1;
    }
    build->names.n_at = (uint32_t)product;
}

// True if the number of members is certain. Two members of one class may have the same key; most readers then
// see one member.
static bool counts_are_certain(struct object_rules *build)
{
    if (build->min <= 1 || build->n_classes == 0 || build->min <= build->names.n_required + 1)
        return true;
    const struct json_node *keyword =
        build->object->min_keyword ? build->object->min_keyword : build->compiler->source.root;
    compiler_refuse(build->compiler, keyword,
                    "members with free keys can't be counted, because keys may stand twice");
    return false;
}

// True if needs are certain. A value that some member must have is not certain if a later member may have the
// same key and another value.
static bool needs_are_certain(struct object_rules *build)
{
    const struct object_shape *object = build->object;
    for (uint32_t i = 0; i < object->n_needs; i++)
        for (uint32_t j = 0; j < build->n_classes && object->needs[i].value != FORMULA_TRUE; j++) {
            uint32_t keys =
                expression_both(build->compiler->pool, build->classes[j].keys, object->needs[i].keys);
            uint32_t value = formula_and(build->compiler, build->classes[j].value,
                                         formula_not(build->compiler, object->needs[i].value));
            if (value == FORMULA_FALSE || expression_is_empty_language(build->compiler->pool, keys))
                continue;
            compiler_refuse(build->compiler,
                            object->needs_keyword ? object->needs_keyword : build->compiler->source.root,
                            "its negation is not certain, because keys may stand twice");
            return false;
        }
    return true;
}

static uint32_t state_index(const struct object_rules *build, struct object_state state)
{
    return ((state.at * build->n_masks + state.mask) * build->n_counts + state.count) * 2 + state.first;
}

static uint32_t state_symbol(struct object_rules *build, struct object_state state)
{
    if (state.count >= build->n_counts)
        state.count = build->n_counts - 1;
    uint32_t *symbol = &build->states.symbols[state_index(build, state)];
    if (*symbol == SYMBOL_NOTHING) {
        *symbol = rules_nonterminal(build->compiler->rules);
        build->states.queue[build->states.n_queue++] = state;
    }
    return *symbol;
}

static uint32_t member_symbol(struct object_rules *build, uint32_t key, uint32_t value,
                              struct object_state from, struct object_state to)
{
    uint32_t value_symbol = schema_rules_symbol(build->rules, value, build->depth + 1);
    if (value_symbol == SYMBOL_NOTHING)
        return SYMBOL_NOTHING;
    to.count = from.count + 1;
    to.first = false;
    uint32_t symbols[] = {build->marks->comma,
                          rules_terminal(build->compiler->rules, key, TERMINAL_JSON_STRING),
                          build->marks->colon, value_symbol, state_symbol(build, to)};
    return rules_sequence(build->compiler->rules, symbols + from.first, 5 - from.first);
}

// Adds the member as it is, and once more for each set of needs that it can satisfy.
static void add_member(struct object_rules *build, struct symbol_list *list, uint32_t key, uint32_t value,
                       struct object_state from, struct object_state to)
{
    const struct object_shape *object = build->object;
    for (uint32_t set = 0; set < 1u << object->n_needs; set++) {
        uint32_t keys = key, wanted = value;
        for (uint32_t i = 0; i < object->n_needs; i++)
            if (set >> i & 1) {
                keys = expression_both(build->compiler->pool, keys, object->needs[i].keys);
                wanted = formula_and(build->compiler, wanted, object->needs[i].value);
            }
        struct object_state next = to;
        next.mask |= set << build->names.n_loose;
        bool useless = set && (next.mask == to.mask || keys == EXPRESSION_NOTHING);
        if (!useless && wanted != FORMULA_FALSE &&
            (!set || !expression_is_empty_language(build->compiler->pool, keys)))
            symbol_list_add(build->rules, list, member_symbol(build, keys, wanted, from, next));
    }
}

static void add_others(struct object_rules *build, struct symbol_list *list, struct object_state state)
{
    for (uint32_t i = 0; i < build->names.n_loose; i++) {
        struct object_state next = state;
        next.mask |= 1u << i;
        uint32_t key = expression_literal(build->compiler->pool, build->names.loose[i].key);
        if (next.mask != state.mask)
            add_member(build, list, key, build->names.loose[i].value, state, next);
    }
    for (uint32_t i = 0; i < build->n_classes; i++)
        add_member(build, list, build->classes[i].keys, build->classes[i].value, state, state);
}

// Matches other members by a repetition, if nothing is counted or remembered.
static uint32_t repeat_others(struct object_rules *build)
{
    struct symbol_list list = {0};
    for (uint32_t i = 0; i < build->n_classes; i++) {
        uint32_t symbols[] = {build->marks->comma,
                              rules_terminal(build->compiler->rules, build->classes[i].keys,
                                             TERMINAL_JSON_STRING),
                              build->marks->colon,
                              schema_rules_symbol(build->rules, build->classes[i].value, build->depth + 1)};
        symbol_list_add(build->rules, &list, rules_sequence(build->compiler->rules, symbols, 4));
    }
    uint32_t others = rules_repeat(build->compiler->rules, symbol_list_choice(build->rules, &list), 0,
                                   EXPRESSION_UNBOUNDED);
    return schema_rules_pair(build->rules, others, build->marks->close_object);
}

// Follows one chain: its next name and, if the name is optional, also the state after it.
static void follow_one(struct object_rules *build, struct symbol_list *list, struct object_state state,
                       bool full)
{
    const struct object_name *name = &build->names.ordered[state.at];
    struct object_state next = state;
    next.at++;
    if (!full)
        add_member(build, list, expression_literal(build->compiler->pool, name->key), name->value, state,
                   next);
    if (!name->required)
        symbol_list_add(build->rules, list, state_symbol(build, next));
}

// Follows several chains: any name before which its chain has only optional names; or the end of all chains,
// if only optional names are left.
static void follow_chains(struct object_rules *build, struct symbol_list *list, struct object_state state,
                          bool full)
{
    bool over = true;
    for (uint32_t i = 0; i < build->names.n_chains; i++) {
        const struct object_chain *chain = &build->names.chains[i];
        uint32_t at = state.at / chain->stride % (chain->n + 1);
        bool optional = true;
        for (uint32_t j = at; j < chain->n && optional; j++) {
            const struct object_name *name = &build->names.ordered[chain->from + j];
            struct object_state next = state;
            next.at += (j + 1 - at) * chain->stride;
            if (!full)
                add_member(build, list, expression_literal(build->compiler->pool, name->key), name->value,
                           state, next);
            optional = !name->required;
        }
        over = over && optional;
    }
    struct object_state last = state;
    last.at = build->names.n_at - 1;
    if (over)
        symbol_list_add(build->rules, list, state_symbol(build, last));
}

static void define_state(struct object_rules *build, struct object_state state)
{
    struct symbol_list list = {0};
    uint32_t symbol = build->states.symbols[state_index(build, state)];
    bool full = build->max != COUNT_UNBOUNDED && state.count >= build->max;
    if (state.at < build->names.n_at - 1 && build->names.n_chains > 1) {
        follow_chains(build, &list, state, full);
    } else if (state.at < build->names.n_at - 1) {
        follow_one(build, &list, state, full);
    } else if (build->n_masks == 1 && build->n_counts == 1 && !state.first) {
        symbol_list_add(build->rules, &list,
                        build->n_classes ? repeat_others(build) : build->marks->close_object);
    } else {
        bool complete =
            (state.mask & build->required_mask) == build->required_mask && state.count >= build->min;
        if (complete && !state.first)
            symbol_list_add(build->rules, &list, build->marks->close_object);
        if (!full)
            add_others(build, &list, state);
    }
    rules_define(build->compiler->rules, symbol, symbol_list_choice(build->rules, &list));
}

static bool plan_states(struct object_rules *build)
{
    const struct object_shape *object = build->object;
    if (object->n_needs > SCHEMA_NEEDS_MAX) {
        compiler_refuse(build->compiler,
                        object->needs_keyword ? object->needs_keyword : build->compiler->source.root,
                        "too much of it is negated");
        return false;
    }
    plan_chains(build);
    uint32_t highest = build->max != COUNT_UNBOUNDED ? build->max : build->min;
    build->required_mask |= ((1u << object->n_needs) - 1) << build->names.n_loose;
    build->n_masks = 1u << (build->names.n_loose + object->n_needs);
    build->n_counts = highest < SCHEMA_STATES_MAX ? highest + 1 : SCHEMA_STATES_MAX;
    uint64_t n = 2 * (uint64_t)build->names.n_at * build->n_masks * build->n_counts;
    if (highest >= SCHEMA_STATES_MAX || n > 2 * SCHEMA_STATES_MAX) {
        compiler_limit(build->compiler, "schema_states", SCHEMA_STATES_MAX);
        return false;
    }
    build->states.symbols = compiler_allocate(build->compiler, n, sizeof *build->states.symbols);
    build->states.queue = compiler_allocate(build->compiler, n, sizeof *build->states.queue);
    return build->states.symbols && build->states.queue;
}

uint32_t schema_rules_object(struct schema_rules *rules, const struct object_shape *object, uint32_t depth)
{
    struct object_rules build = {.rules = rules,
                                 .compiler = rules->compiler,
                                 .object = object,
                                 .depth = depth,
                                 .marks = schema_rules_marks(rules, depth)};
    if (!collect_classes(&build) || !collect_names(&build) || !counts_are_certain(&build) ||
        !needs_are_certain(&build) || !plan_states(&build))
        return SYMBOL_NOTHING;
    struct symbol_list list = {0};
    bool may_be_empty = build.names.n_required == 0 && object->min == 0 && object->n_needs == 0;
    if (may_be_empty)
        symbol_list_add(rules, &list, build.marks->empty_object);
    if (object->max > 0)
        symbol_list_add(rules, &list,
                        schema_rules_pair(rules, build.marks->open_object,
                                          state_symbol(&build, (struct object_state){.first = true})));
    for (uint32_t i = 0; i < build.states.n_queue && compiler_work(build.compiler, 1); i++)
        define_state(&build, build.states.queue[i]);
    return symbol_list_choice(rules, &list);
}

// unevaluatedProperties and unevaluatedItems. Which members and items other keywords evaluate depends on the
// branches that are satisfied, so each combination of branches is an alternative. A branch left out of a
// combination may be satisfied nevertheless: if more is evaluated, more is allowed.
#include "engine/json_schema/schema_shape.h"

#include <string.h>

// If the condition holds, these are evaluated: members with these keys, the first n_items items, and items
// that satisfy `items`.
struct evaluated {
    uint32_t condition; // formula
    uint32_t keys;      // expression
    uint32_t n_items;   // COUNT_UNBOUNDED: all
    uint32_t items;     // formula
};

enum { EVALUATED_MAX = 64, EVALUATED_DEPTH_MAX = 32 };

struct evaluated_list {
    struct evaluated items[EVALUATED_MAX];
    uint32_t n;
};

struct collector {
    struct schema_compiler *compiler;
    const struct json_node *keyword;
};

static const struct evaluated nothing = {FORMULA_TRUE, EXPRESSION_NOTHING, 0, FORMULA_FALSE};

static bool is_keyword(const struct json_node *keyword, const char *name)
{
    return text_equals_string(keyword->key, name);
}

static bool evaluates_the_same(const struct evaluated *a, const struct evaluated *b)
{
    return a->keys == b->keys && a->n_items == b->n_items && a->items == b->items;
}

static void add_evaluated(struct collector *collector, struct evaluated_list *list, struct evaluated one)
{
    if (one.condition == FORMULA_FALSE)
        return;
    for (uint32_t i = 0; i < list->n; i++)
        if (evaluates_the_same(&list->items[i], &one)) {
            list->items[i].condition =
                formula_or(collector->compiler, list->items[i].condition, one.condition);
            return;
        }
    if (list->n == EVALUATED_MAX)
        compiler_refuse(collector->compiler, collector->keyword, "more than 64 combinations of branches");
    else
        list->items[list->n++] = one;
}

static struct evaluated join_evaluated(struct schema_compiler *compiler, const struct evaluated *a,
                                       const struct evaluated *b)
{
    return (struct evaluated){formula_and(compiler, a->condition, b->condition),
                              expression_either(compiler->pool, a->keys, b->keys),
                              a->n_items > b->n_items ? a->n_items : b->n_items,
                              formula_or(compiler, a->items, b->items)};
}

// Combines each entry of the list with each entry of the others.
static void multiply_lists(struct collector *collector, struct evaluated_list *list,
                           const struct evaluated_list *others)
{
    struct evaluated_list *before = compiler_allocate(collector->compiler, 1, sizeof *before);
    if (!before)
        return;
    *before = *list;
    list->n = 0;
    for (uint32_t i = 0; i < before->n; i++)
        for (uint32_t j = 0; j < others->n && compiler_work(collector->compiler, 1); j++)
            add_evaluated(collector, list,
                          join_evaluated(collector->compiler, &before->items[i], &others->items[j]));
}

static struct evaluated_list *list_of_nothing(struct collector *collector)
{
    struct evaluated_list *list = compiler_allocate(collector->compiler, 1, sizeof *list);
    if (list)
        list->items[list->n++] = nothing;
    return list;
}

static struct evaluated_list *collect_evaluated(struct collector *collector, const struct json_node *schema,
                                                uint32_t depth);

// Adds the members and items that the schema evaluates. These alternatives apply only if the value satisfies
// the schema and `condition`.
static void add_branch(struct collector *collector, struct evaluated_list *list,
                       const struct json_node *schema, uint32_t condition, uint32_t depth)
{
    struct schema_compiler *compiler = collector->compiler;
    const struct evaluated_list *branch = collect_evaluated(collector, schema, depth);
    condition = formula_and(compiler, condition, formula_schema(compiler, schema));
    for (uint32_t i = 0; branch && i < branch->n; i++) {
        struct evaluated one = branch->items[i];
        bool empty = evaluates_the_same(&one, &nothing);
        one.condition = empty ? FORMULA_TRUE : formula_and(compiler, condition, one.condition);
        add_evaluated(collector, list, one);
    }
}

static uint32_t name_literals(struct schema_compiler *compiler, const struct json_node *members)
{
    struct text *keys = compiler_allocate(compiler, members->n_children, sizeof *keys);
    size_t n = 0;
    for (const struct json_node *member = members->first; member && keys; member = member->next)
        keys[n++] = member->key;
    return expression_texts(compiler->pool, keys, n);
}

static uint32_t name_patterns(struct schema_compiler *compiler, const struct json_node *keyword)
{
    uint32_t keys = EXPRESSION_NOTHING, one;
    struct error error = {0};
    for (const struct json_node *pattern = keyword->first; pattern; pattern = pattern->next) {
        if (expression_parse(compiler->pool, pattern->key, PATTERN_SEARCH, &one, &error) == STATUS_OK)
            keys = expression_either(compiler->pool, keys, one);
        else
            compiler_refuse_pattern(compiler, keyword, &error);
    }
    return keys;
}

// Finds what a keyword of the schema itself evaluates. False: the keyword evaluates nothing.
static bool own_keyword(struct collector *collector, const struct json_node *keyword, struct evaluated *one)
{
    bool latest = collector->compiler->source.draft == SCHEMA_DRAFT_2020_12;
    bool is_list = keyword->kind == JSON_ARRAY,
         has_prefix = json_member_named(keyword->parent, "items") &&
                      json_member_named(keyword->parent, "items")->kind == JSON_ARRAY;
    *one = nothing;
    if (is_keyword(keyword, "properties") && keyword->kind == JSON_OBJECT)
        one->keys = name_literals(collector->compiler, keyword);
    else if (is_keyword(keyword, "patternProperties") && keyword->kind == JSON_OBJECT)
        one->keys = name_patterns(collector->compiler, keyword);
    else if (is_keyword(keyword, "additionalProperties") || is_keyword(keyword, "unevaluatedProperties"))
        one->keys = EXPRESSION_ALL;
    else if ((is_keyword(keyword, "items") && is_list && !latest) ||
             (is_keyword(keyword, "prefixItems") && is_list && latest))
        one->n_items = keyword->n_children;
    else if (is_keyword(keyword, "items") || is_keyword(keyword, "unevaluatedItems") ||
             (is_keyword(keyword, "additionalItems") && has_prefix && !latest))
        one->n_items = COUNT_UNBOUNDED;
    else if (is_keyword(keyword, "contains") && latest)
        one->items = formula_schema(collector->compiler, keyword);
    else
        return false;
    return true;
}

static void add_condition(struct collector *collector, const struct json_node *keyword,
                          struct evaluated_list *list, uint32_t depth)
{
    struct schema_compiler *compiler = collector->compiler;
    const struct json_node *then = json_member_named(keyword->parent, "then"),
                           *other = json_member_named(keyword->parent, "else");
    uint32_t test = formula_schema(compiler, keyword);
    struct evaluated_list *passed = list_of_nothing(collector),
                          *choices = compiler_allocate(compiler, 1, sizeof *choices);
    const struct evaluated_list *inner = collect_evaluated(collector, keyword, depth),
                                *chosen = then ? collect_evaluated(collector, then, depth)
                                               : list_of_nothing(collector);
    if (!passed || !choices || !inner || !chosen)
        return;
    multiply_lists(collector, passed, inner);
    multiply_lists(collector, passed, chosen);
    for (uint32_t i = 0; i < passed->n; i++) {
        passed->items[i].condition = formula_and(compiler, passed->items[i].condition, test);
        add_evaluated(collector, choices, passed->items[i]);
    }
    add_evaluated(collector, choices, nothing);
    const struct evaluated_list *failed = other ? collect_evaluated(collector, other, depth) : NULL;
    for (uint32_t i = 0; failed && i < failed->n; i++) {
        struct evaluated one = failed->items[i];
        if (evaluates_the_same(&one, &nothing))
            continue;
        one.condition = formula_and(compiler, one.condition, formula_not(compiler, test));
        add_evaluated(collector, choices, one);
    }
    multiply_lists(collector, list, choices);
}

static void add_branches(struct collector *collector, const struct json_node *keyword,
                         struct evaluated_list *list, uint32_t depth)
{
    struct evaluated_list *choices = NULL;
    bool all = is_keyword(keyword, "allOf"), dependent = is_keyword(keyword, "dependentSchemas"),
         one_of = is_keyword(keyword, "oneOf");
    for (const struct json_node *branch = keyword->first; branch; branch = branch->next) {
        const struct evaluated_list *held = all ? collect_evaluated(collector, branch, depth) : NULL;
        if (held)
            multiply_lists(collector, list, held);
        if (all)
            continue;
        if (!choices || !one_of)
            choices = compiler_allocate(collector->compiler, 1, sizeof *choices);
        if (!choices)
            return;
        if (choices->n == 0)
            add_evaluated(collector, choices, nothing);
        add_branch(collector, choices, branch,
                   dependent ? formula_has(collector->compiler, branch) : FORMULA_TRUE, depth);
        if (!one_of)
            multiply_lists(collector, list, choices);
    }
    if (one_of && choices)
        multiply_lists(collector, list, choices);
}

static void add_keyword(struct collector *collector, const struct json_node *keyword,
                        struct evaluated_list *list, uint32_t depth)
{
    enum schema_draft draft = collector->compiler->source.draft;
    struct evaluated_list own = {.n = 1};
    if (own_keyword(collector, keyword, &own.items[0])) {
        multiply_lists(collector, list, &own);
    } else if (is_keyword(keyword, "$ref") ||
               (is_keyword(keyword, "$recursiveRef") && draft == SCHEMA_DRAFT_2019_09) ||
               (is_keyword(keyword, "$dynamicRef") && draft == SCHEMA_DRAFT_2020_12)) {
        const struct json_node *target = keyword_target(collector->compiler, keyword);
        const struct evaluated_list *branch = target ? collect_evaluated(collector, target, depth) : NULL;
        if (branch)
            multiply_lists(collector, list, branch);
    } else if (is_keyword(keyword, "if")) {
        add_condition(collector, keyword, list, depth);
    } else if (is_keyword(keyword, "allOf") || is_keyword(keyword, "anyOf") || is_keyword(keyword, "oneOf") ||
               is_keyword(keyword, "dependentSchemas")) {
        add_branches(collector, keyword, list, depth);
    }
}

static struct evaluated_list *collect_evaluated(struct collector *collector, const struct json_node *schema,
                                                uint32_t depth)
{
    struct evaluated_list *list = list_of_nothing(collector);
    if (depth == 0)
        compiler_refuse(collector->compiler, collector->keyword, "references lead too deep");
    for (const struct json_node *keyword = schema->kind == JSON_OBJECT ? schema->first : NULL;
         keyword && list && compiler_work(collector->compiler, 1); keyword = keyword->next)
        if (keyword != collector->keyword)
            add_keyword(collector, keyword, list, depth - 1);
    return collector->compiler->status == STATUS_OK ? list : NULL;
}

// unevaluatedItems does not evaluate properties and unevaluatedProperties does not evaluate items, so a
// schema may have both.
uint32_t unevaluated_formula(struct schema_compiler *compiler, const struct json_node *keyword)
{
    struct collector collector = {compiler, keyword};
    uint32_t value = formula_schema(compiler, keyword), result = FORMULA_FALSE;
    if (value == FORMULA_TRUE)
        return FORMULA_TRUE;
    const struct evaluated_list *list = collect_evaluated(&collector, keyword->parent, EVALUATED_DEPTH_MAX);
    for (uint32_t i = 0; list && i < list->n; i++) {
        const struct evaluated *one = &list->items[i];
        uint32_t rest = FORMULA_TRUE;
        if (is_keyword(keyword, "unevaluatedProperties"))
            rest = one->keys == EXPRESSION_ALL
                       ? FORMULA_TRUE
                       : formula_members(compiler, FORMULA_KEYS, keyword,
                                         expression_complement(compiler->pool, one->keys), value);
        else if (one->n_items != COUNT_UNBOUNDED)
            rest = formula_members(compiler, FORMULA_ITEMS, keyword, one->n_items,
                                   formula_or(compiler, value, one->items));
        result = formula_or(compiler, result, formula_and(compiler, one->condition, rest));
    }
    return result;
}

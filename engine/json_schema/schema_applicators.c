// Builds formulas for keywords that apply schemas to the value itself.
#include "engine/json_schema/schema_shape.h"

static bool is_keyword(const struct json_node *keyword, const char *name)
{
    return text_equals_string(keyword->key, name);
}

static bool check_list(struct schema_compiler *compiler, const struct json_node *keyword)
{
    if (keyword->kind != JSON_ARRAY || !keyword->n_children)
        compiler_malformed(compiler, keyword, "a list of schemas");
    return compiler->status == STATUS_OK;
}

static uint32_t all_of(struct schema_compiler *compiler, const struct json_node *keyword)
{
    uint32_t result = FORMULA_TRUE;
    for (const struct json_node *branch = check_list(compiler, keyword) ? keyword->first : NULL; branch;
         branch = branch->next)
        result = formula_and(compiler, result, formula_schema(compiler, branch));
    return result;
}

static uint32_t any_of(struct schema_compiler *compiler, const struct json_node *keyword)
{
    uint32_t result = FORMULA_FALSE;
    for (const struct json_node *branch = check_list(compiler, keyword) ? keyword->first : NULL; branch;
         branch = branch->next)
        result = formula_or(compiler, result, formula_schema(compiler, branch));
    return result;
}

// Returns the formula of the `type` beside the keyword: branches are often disjoint only for this type.
static uint32_t type_beside(struct schema_compiler *compiler, const struct json_node *keyword)
{
    const struct json_node *type = json_member_named(keyword->parent, "type");
    struct json_node *nodes = type ? compiler_allocate(compiler, 2, sizeof *nodes) : NULL;
    if (!nodes)
        return FORMULA_TRUE;
    nodes[0] = (struct json_node){.kind = JSON_OBJECT, .first = &nodes[1], .n_children = 1, .id = type->id};
    nodes[1] = *type;
    nodes[1].next = NULL;
    return formula_schema(compiler, &nodes[0]);
}

enum { ONE_OF_MAX = 256, DISJOINT_DEPTH = 3 };

// Builds oneOf: each branch, minus all branches that are not proven disjoint with it.
static uint32_t one_of(struct schema_compiler *compiler, const struct json_node *keyword)
{
    uint32_t result = FORMULA_FALSE;
    if (!check_list(compiler, keyword))
        return FORMULA_FALSE;
    if (keyword->n_children > ONE_OF_MAX) {
        compiler_refuse(compiler, keyword, "more than 256 branches");
        return FORMULA_FALSE;
    }
    uint32_t *branches = compiler_allocate(compiler, 2 * (size_t)keyword->n_children, sizeof *branches);
    if (!branches)
        return FORMULA_FALSE;
    uint32_t n = 0, type = type_beside(compiler, keyword);
    for (const struct json_node *branch = keyword->first; branch; branch = branch->next)
        branches[n++] = formula_schema(compiler, branch);
    uint32_t *only = branches + n;
    for (uint32_t i = 0; i < n; i++)
        only[i] = formula_and(compiler, branches[i], type);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n && compiler->status == STATUS_OK; j++) {
            uint32_t both = formula_and(compiler, type, formula_and(compiler, branches[i], branches[j]));
            if (formula_is_nothing(compiler, both, DISJOINT_DEPTH))
                continue;
            only[i] = formula_and(compiler, only[i], formula_not(compiler, branches[j]));
            only[j] = formula_and(compiler, only[j], formula_not(compiler, branches[i]));
        }
    for (uint32_t i = 0; i < n; i++)
        result = formula_or(compiler, result, only[i]);
    return result;
}

static uint32_t condition_formula(struct schema_compiler *compiler, const struct json_node *keyword)
{
    const struct json_node *then = json_member_named(keyword->parent, "then"),
                           *other = json_member_named(keyword->parent, "else");
    uint32_t test = formula_schema(compiler, keyword);
    uint32_t yes = then ? formula_schema(compiler, then) : FORMULA_TRUE;
    uint32_t no = other ? formula_schema(compiler, other) : FORMULA_TRUE;
    if (yes == FORMULA_TRUE && no == FORMULA_TRUE)
        return FORMULA_TRUE;
    // If `then` or `else` is absent, the test is not repeated: (test and yes) or not test equals yes or not
    // test.
    uint32_t passed = no == FORMULA_TRUE ? yes : formula_and(compiler, test, yes);
    uint32_t failed = yes == FORMULA_TRUE ? no : formula_and(compiler, formula_not(compiler, test), no);
    return formula_or(compiler, passed, failed);
}

static uint32_t reference_formula(struct schema_compiler *compiler, const struct json_node *keyword)
{
    const struct json_node *target = keyword_target(compiler, keyword);
    return target ? formula_schema(compiler, target) : FORMULA_FALSE;
}

static uint32_t has_all(struct schema_compiler *compiler, const struct json_node *list)
{
    uint32_t result = FORMULA_TRUE;
    for (const struct json_node *key = list->first; key; key = key->next) {
        if (key->kind != JSON_STRING)
            compiler_malformed(compiler, list, "a list of keys");
        result = formula_and(compiler, result, formula_has(compiler, key));
    }
    return result;
}

// Builds each member of the keyword: a key, and what an object with that key must satisfy.
static uint32_t dependencies_formula(struct schema_compiler *compiler, const struct json_node *keyword,
                                     bool lists, bool schemas)
{
    uint32_t result = FORMULA_TRUE;
    if (keyword->kind != JSON_OBJECT)
        compiler_malformed(compiler, keyword, "an object");
    for (const struct json_node *member = keyword->first; member && compiler->status == STATUS_OK;
         member = member->next) {
        bool list = member->kind == JSON_ARRAY;
        bool single = member->kind == JSON_STRING && compiler->source.draft == SCHEMA_DRAFT_4;
        if ((list && !lists) || (!list && !schemas) || single)
            compiler_malformed(compiler, keyword,
                               lists && schemas ? "schemas or lists of keys"
                               : lists          ? "lists of keys"
                                                : "schemas");
        uint32_t then = list ? has_all(compiler, member) : formula_schema(compiler, member);
        uint32_t without = formula_not(compiler, formula_has(compiler, member));
        result = formula_and(compiler, result, formula_or(compiler, without, then));
    }
    return result;
}

bool keyword_formula(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *formula)
{
    enum schema_draft draft = compiler->source.draft;
    if (is_keyword(keyword, "allOf"))
        *formula = all_of(compiler, keyword);
    else if (is_keyword(keyword, "anyOf"))
        *formula = any_of(compiler, keyword);
    else if (is_keyword(keyword, "oneOf"))
        *formula = one_of(compiler, keyword);
    else if (is_keyword(keyword, "not"))
        *formula = formula_not(compiler, formula_schema(compiler, keyword));
    else if (is_keyword(keyword, "if") && draft >= SCHEMA_DRAFT_7)
        *formula = condition_formula(compiler, keyword);
    else if (is_keyword(keyword, "$ref"))
        *formula = reference_formula(compiler, keyword);
    else if ((is_keyword(keyword, "$recursiveRef") && draft == SCHEMA_DRAFT_2019_09) ||
             (is_keyword(keyword, "$dynamicRef") && draft == SCHEMA_DRAFT_2020_12))
        *formula = reference_formula(compiler, keyword);
    else if (is_keyword(keyword, "dependencies") && draft <= SCHEMA_DRAFT_7)
        *formula = dependencies_formula(compiler, keyword, true, true);
    else if (is_keyword(keyword, "dependentRequired") && draft >= SCHEMA_DRAFT_2019_09)
        *formula = dependencies_formula(compiler, keyword, true, false);
    else if (is_keyword(keyword, "dependentSchemas") && draft >= SCHEMA_DRAFT_2019_09)
        *formula = dependencies_formula(compiler, keyword, false, true);
    else if ((is_keyword(keyword, "unevaluatedProperties") || is_keyword(keyword, "unevaluatedItems")) &&
             draft >= SCHEMA_DRAFT_2019_09)
        *formula = unevaluated_formula(compiler, keyword);
    else
        return false;
    return compiler->status == STATUS_OK;
}

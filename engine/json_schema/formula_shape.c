// Expands a formula by one level to its shape.
#include "engine/grammar/rules_parts.h"
#include "engine/json_schema/schema_shape.h"

static struct shape has_shape(struct schema_compiler *compiler, const struct json_node *node, bool has)
{
    struct object_shape object = object_any();
    struct text key = node->parent->kind == JSON_OBJECT ? node->key : node->text;
    object.names = compiler_allocate(compiler, 1, sizeof *object.names);
    if (!object.names)
        return (struct shape){0};
    object.names[0] = (struct object_name){key, has ? FORMULA_TRUE : FORMULA_FALSE, has, false, NULL};
    object.n_names = 1;
    struct shape objects = shape_of_objects(compiler, object), others = shape_any_but_objects(compiler);
    return has ? objects : shape_unite(compiler, &objects, &others);
}

static bool is_string(const struct formula *formula)
{
    return formula->kind == FORMULA_VALUE && formula->node->kind == JSON_STRING;
}

// Computes the union of all strings of an "or" at once.
static uint32_t strings_among(struct schema_compiler *compiler, const struct formula *formula)
{
    struct text *texts = compiler_allocate(compiler, formula->n_parts, sizeof *texts);
    size_t n = 0;
    for (uint32_t i = 0; i < formula->n_parts && texts; i++)
        if (is_string(&compiler->table.items[formula->parts[i]]))
            texts[n++] = compiler->table.items[formula->parts[i]].node->text;
    return texts ? expression_texts(compiler->pool, texts, n) : EXPRESSION_NOTHING;
}

static struct shape combine_shapes(struct schema_compiler *compiler, struct formula formula)
{
    struct shape result = {0};
    bool either = formula.kind == FORMULA_OR;
    if (either)
        result.string = strings_among(compiler, &formula);
    else
        result = shape_any(compiler);
    for (uint32_t i = 0; i < formula.n_parts; i++) {
        if (either && is_string(&compiler->table.items[formula.parts[i]]))
            continue;
        uint32_t id = formula.given ? formula.given[i] : formula.parts[i];
        const struct shape *part = formula_shape(compiler, id);
        if (!part)
            return result;
        if (either)
            shape_add(compiler, &result, part);
        else
            result = shape_intersect(compiler, &result, part);
    }
    return result;
}

static struct shape expand_formula(struct schema_compiler *compiler, uint32_t id)
{
    struct formula formula = compiler->table.items[id];
    switch (formula.kind) {
    case FORMULA_CONSTANT:
        return id == FORMULA_TRUE ? shape_any(compiler) : (struct shape){0};
    case FORMULA_SCHEMA:
        return schema_shape(compiler, formula.node);
    case FORMULA_NOT:
        return schema_negation(compiler, formula.node);
    case FORMULA_VALUE:
        return value_shape(compiler, formula.node);
    case FORMULA_NOT_VALUE:
        return value_negation(compiler, formula.node);
    case FORMULA_HAS:
    case FORMULA_HAS_NOT:
        return has_shape(compiler, formula.node, formula.kind == FORMULA_HAS);
    case FORMULA_KEYS:
    case FORMULA_NOT_KEYS:
    case FORMULA_ITEMS:
    case FORMULA_NOT_ITEMS:
        return members_shape(compiler, formula);
    case FORMULA_AND:
    case FORMULA_OR:
        return combine_shapes(compiler, formula);
    }
    return (struct shape){0};
}

// Finds the reference by which a schema leads to itself: the innermost one on the expansion path.
static const struct json_node *repeating_reference(const struct schema_compiler *compiler, uint32_t id)
{
    static const char *const names[] = {"$ref", "$recursiveRef", "$dynamicRef"};
    for (uint32_t at = compiler->table.innermost;; at = compiler->table.items[at].outer) {
        const struct formula *formula = &compiler->table.items[at];
        bool is_schema = formula->kind == FORMULA_SCHEMA || formula->kind == FORMULA_NOT;
        for (size_t i = 0; is_schema && i < sizeof names / sizeof *names; i++) {
            const struct json_node *keyword = json_member_named(formula->node, names[i]);
            if (keyword)
                return keyword;
        }
        if (at == id)
            return formula->node ? formula->node : compiler->source.root;
    }
}

// Called if a formula is reached again during its own expansion. It then has no meaning, so the schema is
// malformed. But while formula_is_nothing() only looks for a proof, the answer is "perhaps", and the shapes
// found on the way are not cached.
static const struct shape *found_again(struct schema_compiler *compiler, uint32_t id)
{
    static const struct shape nothing;
    if (compiler->n_probes == 0) {
        compiler_malformed(compiler, repeating_reference(compiler, id),
                           "a schema that does not lead to itself");
        return NULL;
    }
    compiler->probe_failed = true;
    return &nothing;
}

const struct shape *formula_shape(struct schema_compiler *compiler, uint32_t id)
{
    if (!compiler_work(compiler, 1))
        return NULL;
    if (compiler->table.items[id].shape)
        return compiler->table.items[id].shape;
    if (compiler->table.items[id].expanding)
        return found_again(compiler, id);
    if (compiler->depth == SCHEMA_EXPANSION_DEPTH_MAX) {
        compiler_limit(compiler, "schema_depth", SCHEMA_EXPANSION_DEPTH_MAX);
        return NULL;
    }
    bool failed_before = compiler->probe_failed;
    compiler->probe_failed = false;
    compiler->depth++;
    compiler->table.items[id].expanding = true;
    compiler->table.items[id].outer = compiler->table.innermost;
    compiler->table.innermost = id;
    struct shape *shape = compiler_allocate(compiler, 1, sizeof *shape);
    if (shape)
        *shape = expand_formula(compiler, id);
    compiler->table.items[id].expanding = false;
    compiler->table.innermost = compiler->table.items[id].outer;
    compiler->depth--;
    if (!compiler->probe_failed && compiler->status == STATUS_OK)
        compiler->table.items[id].shape = shape;
    compiler->probe_failed |= failed_before;
    return compiler->status == STATUS_OK ? shape : NULL;
}

static bool array_is_nothing(struct schema_compiler *compiler, const struct array_shape *array,
                             uint32_t depth)
{
    for (uint32_t i = 0; i < array->n_prefix && i < array->min; i++)
        if (formula_is_nothing(compiler, array->prefix[i], depth))
            return true;
    return array->min > array->n_prefix && formula_is_nothing(compiler, array->rest, depth);
}

static bool object_is_nothing(struct schema_compiler *compiler, const struct object_shape *object,
                              uint32_t depth)
{
    for (uint32_t i = 0; i < object->n_names; i++)
        if (object->names[i].required && formula_is_nothing(compiler, object->names[i].value, depth))
            return true;
    for (uint32_t i = 0; i < object->n_needs; i++)
        if (object->needs[i].keys == EXPRESSION_NOTHING ||
            expression_is_empty_language(compiler->pool, object->needs[i].keys))
            return true;
    return false;
}

static bool shape_is_nothing(struct schema_compiler *compiler, const struct shape *shape, uint32_t depth)
{
    if (shape->null || shape->no || shape->yes)
        return false;
    for (uint32_t i = 0; i < shape->n_arrays; i++)
        if (depth == 0 || !array_is_nothing(compiler, &shape->arrays[i], depth - 1))
            return false;
    for (uint32_t i = 0; i < shape->n_objects; i++)
        if (depth == 0 || !object_is_nothing(compiler, &shape->objects[i], depth - 1))
            return false;
    return expression_is_empty_language(compiler->pool, shape->number) &&
           expression_is_empty_language(compiler->pool, shape->string);
}

bool formula_is_nothing(struct schema_compiler *compiler, uint32_t id, uint32_t depth)
{
    if (id == FORMULA_FALSE || id == FORMULA_TRUE)
        return id == FORMULA_FALSE;
    bool failed_before = compiler->probe_failed;
    compiler->probe_failed = false;
    compiler->n_probes++;
    const struct shape *shape = formula_shape(compiler, id);
    bool nothing = shape && !compiler->probe_failed && shape_is_nothing(compiler, shape, depth);
    nothing = nothing && !compiler->probe_failed;
    compiler->n_probes--;
    compiler->probe_failed = failed_before;
    return nothing && compiler->status == STATUS_OK;
}

#include "engine/template/names.h"

static struct binding *bind_name(struct resolver *resolver, struct open_scope *scope, uint32_t name)
{
    struct binding *binding = parser_allocate(resolver->parser, sizeof *binding);
    if (!binding)
        return NULL;
    *binding = (struct binding){resolver->innermost[name], scope->bindings, scope, name,
                                scope->procedure->procedure->n_slots++};
    scope->bindings = binding;
    resolver->innermost[name] = binding;
    return binding;
}

struct place names_place(const struct open_scope *from, const struct binding *binding)
{
    return (struct place){from->procedure->depth - binding->scope->procedure->depth, binding->slot};
}

static bool add_load(struct resolver *resolver, struct open_scope *scope, struct load load)
{
    scope->loads =
        parser_grow(resolver->parser, scope->loads, scope->n_loads, &scope->loads_capacity, sizeof load);
    if (!scope->loads)
        return false;
    scope->loads[scope->n_loads++] = load;
    return true;
}

bool names_declare(struct resolver *resolver, struct open_scope *scope, uint32_t name, uint32_t *slot)
{
    struct binding *binding = resolver->innermost[name];
    if (!binding || binding->scope != scope)
        binding = bind_name(resolver, scope, name);
    if (!binding)
        return false;
    if (slot)
        *slot = binding->slot;
    return true;
}

static bool collect_read(struct resolver *resolver, struct open_scope *scope, uint32_t name)
{
    if (resolver->innermost[name])
        return true;
    struct binding *binding = bind_name(resolver, scope, name);
    return binding &&
           add_load(resolver, scope, (struct load){.kind = LOAD_GLOBAL, .slot = binding->slot, .name = name});
}

static bool collect_write(struct resolver *resolver, struct position position, uint32_t name)
{
    struct binding *outer = resolver->innermost[name];
    struct open_scope *scope = position.scope;
    if (!outer || outer->scope != scope) {
        struct binding *binding = bind_name(resolver, scope, name);
        if (!binding)
            return false;
        struct load load = {.kind = LOAD_NOTHING, .slot = binding->slot, .name = name};
        if (outer) {
            load.kind = LOAD_OUTER;
            load.outer = names_place(scope, outer);
        } else if (position.in_branch) { // perhaps never set here: what is outside shows through
            load.kind = LOAD_GLOBAL;
        }
        if (!add_load(resolver, scope, load))
            return false;
    }
    if (scope == resolver->root)
        resolver->template->exported[name] = resolver->innermost[name]->slot;
    return true;
}

bool names_collect_list(struct resolver *resolver, struct open_scope *scope, struct expression *const *items,
                        size_t n_items)
{
    for (size_t i = 0; i < n_items; i++)
        if (!names_collect_expression(resolver, scope, items[i]))
            return false;
    return true;
}

static bool collect_arguments(struct resolver *resolver, struct open_scope *scope,
                              const struct argument_expressions *arguments)
{
    for (size_t i = 0; i < arguments->n_keywords; i++)
        if (!names_collect_expression(resolver, scope, arguments->keywords[i].value))
            return false;
    return names_collect_list(resolver, scope, arguments->positional.items, arguments->positional.n_items) &&
           names_collect_expression(resolver, scope, arguments->more_positional) &&
           names_collect_expression(resolver, scope, arguments->more_keywords);
}

size_t names_parts(const struct expression *expression, struct expression *parts[3])
{
    size_t n = 0;
    switch (expression->kind) {
    case EXPRESSION_BINARY:
    case EXPRESSION_AND:
    case EXPRESSION_OR:
    case EXPRESSION_NOT:
    case EXPRESSION_NEGATIVE:
    case EXPRESSION_POSITIVE:
        parts[n++] = expression->binary.left;
        parts[n++] = expression->binary.right;
        break;
    case EXPRESSION_CONDITION:
        parts[n++] = expression->condition.test;
        parts[n++] = expression->condition.yes;
        parts[n++] = expression->condition.no;
        break;
    case EXPRESSION_ATTRIBUTE:
        parts[n++] = expression->attribute.owner;
        break;
    case EXPRESSION_SUBSCRIPT:
        parts[n++] = expression->subscript.owner;
        parts[n++] = expression->subscript.index;
        break;
    case EXPRESSION_SLICE:
        parts[n++] = expression->slice.start;
        parts[n++] = expression->slice.stop;
        parts[n++] = expression->slice.step;
        break;
    case EXPRESSION_CALL:
        parts[n++] = expression->call.callee;
        break;
    case EXPRESSION_FILTER:
    case EXPRESSION_TEST:
        parts[n++] = expression->filter.input;
        break;
    default:
        break;
    }
    return n;
}

const struct argument_expressions *names_arguments(const struct expression *expression)
{
    if (expression->kind == EXPRESSION_CALL)
        return expression->call.arguments;
    if (expression->kind == EXPRESSION_FILTER || expression->kind == EXPRESSION_TEST)
        return expression->filter.arguments;
    return NULL;
}

bool names_collect_expression(struct resolver *resolver, struct open_scope *scope,
                              const struct expression *expression)
{
    if (!expression)
        return true;
    switch (expression->kind) {
    case EXPRESSION_NAME:
    case EXPRESSION_NAMESPACE_TARGET:
        return collect_read(resolver, scope, expression->name.name);
    case EXPRESSION_LIST:
    case EXPRESSION_TUPLE:
    case EXPRESSION_DICT:
    case EXPRESSION_CONCATENATION:
        return names_collect_list(resolver, scope, expression->items.items, expression->items.n_items);
    case EXPRESSION_COMPARISON:
        for (size_t i = 0; i < expression->comparison.n_operands; i++)
            if (!names_collect_expression(resolver, scope, expression->comparison.operands[i].operand))
                return false;
        return names_collect_expression(resolver, scope, expression->comparison.first);
    default:
        break;
    }
    struct expression *parts[3];
    size_t n_parts = names_parts(expression, parts);
    const struct argument_expressions *arguments = names_arguments(expression);
    return names_collect_list(resolver, scope, parts, n_parts) &&
           (!arguments || collect_arguments(resolver, scope, arguments));
}

static bool collect_target(struct resolver *resolver, struct position position,
                           const struct expression *target)
{
    if (target->kind == EXPRESSION_NAME)
        return collect_write(resolver, position, target->name.name);
    if (target->kind == EXPRESSION_NAMESPACE_TARGET)
        return collect_read(resolver, position.scope, target->name.name);
    for (size_t i = 0; i < target->items.n_items; i++)
        if (!collect_target(resolver, position, target->items.items[i]))
            return false;
    return true;
}

bool names_declare_target(struct resolver *resolver, struct open_scope *scope,
                          const struct expression *target)
{
    if (target->kind == EXPRESSION_NAME)
        return names_declare(resolver, scope, target->name.name, NULL);
    for (size_t i = 0; i < target->items.n_items; i++)
        if (!names_declare_target(resolver, scope, target->items.items[i]))
            return false;
    return true;
}

static bool collect_if(struct resolver *resolver, struct position position, const struct statement *statement)
{
    position.in_branch = true;
    for (size_t i = 0; i < statement->condition.n_branches; i++) {
        const struct branch *branch = &statement->condition.branches[i];
        if (!names_collect_expression(resolver, position.scope, branch->test) ||
            !names_collect(resolver, position, &branch->body))
            return false;
    }
    return true;
}

// What a statement reads and sets in the scope around it; not what is inside scopes of its own.
static bool collect_statement(struct resolver *resolver, struct position position,
                              const struct statement *statement)
{
    struct open_scope *scope = position.scope;
    switch (statement->kind) {
    case STATEMENT_OUTPUT:
        return names_collect_list(resolver, scope, statement->output.items, statement->output.n_items);
    case STATEMENT_SET:
        return names_collect_expression(resolver, scope, statement->set.value) &&
               collect_target(resolver, position, statement->set.target);
    case STATEMENT_SET_BLOCK:
        return collect_target(resolver, position, statement->set.target);
    case STATEMENT_IF:
        return collect_if(resolver, position, statement);
    case STATEMENT_FOR:
        return names_collect_expression(resolver, scope, statement->loop.iterable);
    case STATEMENT_MACRO:
        return collect_write(resolver, position, statement->macro.definition->name_id);
    case STATEMENT_CALL:
        return names_collect_expression(resolver, scope, statement->macro.call);
    case STATEMENT_FILTER:
        return names_collect_expression(resolver, scope, statement->filter.filter);
    case STATEMENT_WITH:
        return names_collect_list(resolver, scope, statement->with.values, statement->with.n_targets);
    case STATEMENT_UNAVAILABLE:
        if (!names_collect_expression(resolver, scope, statement->unavailable.source))
            return false;
        for (size_t i = 0; i < statement->unavailable.names.n_items; i++)
            if (!collect_target(resolver, position, statement->unavailable.names.items[i]))
                return false;
        return true;
    default:
        return true;
    }
}

bool names_collect(struct resolver *resolver, struct position position, const struct statements *statements)
{
    for (size_t i = 0; i < statements->n_items; i++)
        if (!collect_statement(resolver, position, statements->items[i]))
            return false;
    return true;
}

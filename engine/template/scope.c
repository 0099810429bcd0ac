#include "engine/template/scope.h"
#include "engine/template/codepoints.h"
#include "engine/template/names.h"

#include <string.h>

static bool bind_body(struct resolver *resolver, struct position position, const struct statements *body);
static bool bind_expression(struct resolver *resolver, struct position position,
                            struct expression *expression);

static void close_scope(struct resolver *resolver, const struct open_scope *open, struct scope *scope)
{
    for (struct binding *binding = open->bindings; binding; binding = binding->previous)
        resolver->innermost[binding->name] = binding->outer;
    scope->loads = open->loads;
    scope->n_loads = (uint32_t)open->n_loads;
}

static void open_procedure(struct resolver *resolver, struct open_procedure *open,
                           struct procedure *procedure, struct open_procedure *around)
{
    procedure->index = resolver->template->n_procedures++;
    *open = (struct open_procedure){around, procedure, around ? around->depth + 1 : 0};
    if (around)
        around->procedure->has_procedures = true;
}

static bool bind_read(struct resolver *resolver, const struct open_scope *scope, struct expression *name)
{
    const struct binding *binding = resolver->innermost[name->name.name];
    if (name->name.name == resolver->loop_name && binding->scope->uses_loop)
        *binding->scope->uses_loop = true;
    name->name.place = names_place(scope, binding);
    return true;
}

static bool bind_target(struct resolver *resolver, const struct open_scope *scope, struct expression *target)
{
    if (target->kind == EXPRESSION_TUPLE) {
        for (size_t i = 0; i < target->items.n_items; i++)
            if (!bind_target(resolver, scope, target->items.items[i]))
                return false;
        return true;
    }
    if (target->kind == EXPRESSION_NAME && target->name.name == resolver->loop_name && resolver->n_loops)
        return parser_fail(resolver->parser, target->line,
                           "can't assign to the special variable 'loop' in a loop");
    return bind_read(resolver, scope, target);
}

static bool bind_list(struct resolver *resolver, struct position position, struct expression *const *items,
                      size_t n_items)
{
    for (size_t i = 0; i < n_items; i++)
        if (!bind_expression(resolver, position, items[i]))
            return false;
    return true;
}

static bool bind_arguments(struct resolver *resolver, struct position position,
                           const struct argument_expressions *arguments)
{
    for (size_t i = 0; i < arguments->n_keywords; i++)
        if (!bind_expression(resolver, position, arguments->keywords[i].value))
            return false;
    return bind_list(resolver, position, arguments->positional.items, arguments->positional.n_items) &&
           bind_expression(resolver, position, arguments->more_positional) &&
           bind_expression(resolver, position, arguments->more_keywords);
}

static bool check_function(struct resolver *resolver, struct position position,
                           const struct expression *filter)
{
    if (filter->filter.function || position.in_branch)
        return true;
    int size = codepoints_cut(filter->filter.name);
    return parser_fail(resolver->parser, filter->line, "no %s named '%.*s'",
                       filter->kind == EXPRESSION_FILTER ? "filter" : "test", size, filter->filter.name.data);
}

static bool bind_expression(struct resolver *resolver, struct position position,
                            struct expression *expression)
{
    if (!expression)
        return true;
    switch (expression->kind) {
    case EXPRESSION_NAME:
    case EXPRESSION_NAMESPACE_TARGET:
        return bind_read(resolver, position.scope, expression);
    case EXPRESSION_LIST:
    case EXPRESSION_TUPLE:
    case EXPRESSION_DICT:
    case EXPRESSION_CONCATENATION:
        return bind_list(resolver, position, expression->items.items, expression->items.n_items);
    case EXPRESSION_COMPARISON:
        for (size_t i = 0; i < expression->comparison.n_operands; i++)
            if (!bind_expression(resolver, position, expression->comparison.operands[i].operand))
                return false;
        return bind_expression(resolver, position, expression->comparison.first);
    case EXPRESSION_CONDITION:
        position.in_branch = true;
        break;
    case EXPRESSION_FILTER:
    case EXPRESSION_TEST:
        if (!check_function(resolver, position, expression))
            return false;
        break;
    default:
        break;
    }
    struct expression *parts[3];
    size_t n_parts = names_parts(expression, parts);
    const struct argument_expressions *arguments = names_arguments(expression);
    return bind_list(resolver, position, parts, n_parts) &&
           (!arguments || bind_arguments(resolver, position, arguments));
}

// A scope that only holds a body, in the procedure around it.
static bool bind_scope(struct resolver *resolver, struct position position, const struct statements *body,
                       struct expression *filter, struct scope *scope)
{
    struct open_scope open = {.procedure = position.scope->procedure};
    struct position inside = {&open, false, position.in_loop};
    if (!names_collect_expression(resolver, &open, filter) || !names_collect(resolver, inside, body) ||
        !bind_expression(resolver, inside, filter) || !bind_body(resolver, inside, body))
        return false;
    close_scope(resolver, &open, scope);
    return true;
}

// A for statement's filter sees the items through the same target, but in a scope of its own.
static struct expression *copy_target(struct parser *parser, const struct expression *target)
{
    struct expression *copy = expression_create(parser, target->kind, target->line);
    if (!copy)
        return NULL;
    *copy = *target;
    if (target->kind != EXPRESSION_TUPLE)
        return copy;
    copy->items.items = parser_allocate(parser, (target->items.n_items + 1) * sizeof *copy->items.items);
    for (size_t i = 0; copy->items.items && i < target->items.n_items; i++) {
        copy->items.items[i] = copy_target(parser, target->items.items[i]);
        if (!copy->items.items[i])
            return NULL;
    }
    return copy->items.items ? copy : NULL;
}

static bool bind_loop_test(struct resolver *resolver, struct open_procedure *procedure,
                           struct statement *statement)
{
    if (!statement->loop.test)
        return true;
    struct open_scope open = {.procedure = procedure};
    struct position inside = {&open, false, false};
    statement->loop.test_target = copy_target(resolver->parser, statement->loop.target);
    if (!statement->loop.test_target || !names_declare_target(resolver, &open, statement->loop.test_target) ||
        !names_collect_expression(resolver, &open, statement->loop.test) ||
        !bind_target(resolver, &open, statement->loop.test_target) ||
        !bind_expression(resolver, inside, statement->loop.test))
        return false;
    close_scope(resolver, &open, &statement->loop.test_scope);
    return true;
}

static bool bind_loop_body(struct resolver *resolver, struct open_procedure *procedure,
                           struct statement *statement)
{
    struct open_scope open = {.procedure = procedure, .uses_loop = &statement->loop.uses_loop};
    struct position inside = {&open, false, true};
    if (!names_declare(resolver, &open, resolver->loop_name, &statement->loop.loop_slot) ||
        !names_declare_target(resolver, &open, statement->loop.target) ||
        !names_collect(resolver, inside, &statement->loop.body) ||
        !bind_target(resolver, &open, statement->loop.target) ||
        !bind_body(resolver, inside, &statement->loop.body))
        return false;
    close_scope(resolver, &open, &statement->loop.scope);
    return true;
}

static bool bind_for(struct resolver *resolver, struct position position, struct statement *statement)
{
    if (!bind_expression(resolver, position, statement->loop.iterable))
        return false;
    struct open_procedure *procedure = position.scope->procedure, own;
    if (statement->loop.recursive) {
        open_procedure(resolver, &own, &statement->loop.procedure, procedure);
        procedure = &own;
        position.in_loop = false;
    }
    resolver->n_loops++;
    struct open_scope around = {.procedure = procedure};
    struct position otherwise = {&around, false, position.in_loop};
    bool ok =
        bind_loop_test(resolver, procedure, statement) && bind_loop_body(resolver, procedure, statement) &&
        bind_scope(resolver, otherwise, &statement->loop.otherwise, NULL, &statement->loop.otherwise_scope);
    resolver->n_loops--;
    return ok;
}

static bool bind_macro(struct resolver *resolver, struct position position,
                       struct macro_definition *definition)
{
    struct open_procedure procedure;
    open_procedure(resolver, &procedure, &definition->procedure, position.scope->procedure);
    struct open_scope open = {.procedure = &procedure};
    struct position inside = {&open, false, false};
    for (int i = 0; i < MACRO_SPECIAL_COUNT; i++)
        if (definition->special[i].present &&
            !names_declare(resolver, &open, definition->special[i].name, &definition->special[i].slot))
            return false;
    for (size_t i = 0; i < definition->n_parameters; i++)
        if (!names_declare_target(resolver, &open, definition->parameters[i]))
            return false;
    if (!names_collect_list(resolver, &open, definition->defaults, definition->n_defaults) ||
        !names_collect(resolver, inside, &definition->body))
        return false;
    for (size_t i = 0; i < definition->n_parameters; i++)
        if (!bind_read(resolver, &open, definition->parameters[i]))
            return false;
    if (!bind_list(resolver, inside, definition->defaults, definition->n_defaults) ||
        !bind_body(resolver, inside, &definition->body))
        return false;
    close_scope(resolver, &open, &definition->scope);
    return true;
}

static bool bind_with(struct resolver *resolver, struct position position, struct statement *statement)
{
    if (!bind_list(resolver, position, statement->with.values, statement->with.n_targets))
        return false;
    struct open_scope open = {.procedure = position.scope->procedure};
    struct position inside = {&open, false, position.in_loop};
    unsigned n_loops = resolver->n_loops;
    for (size_t i = 0; i < statement->with.n_targets; i++)
        if (!names_declare_target(resolver, &open, statement->with.targets[i]))
            return false;
    if (!names_collect(resolver, inside, &statement->with.body))
        return false;
    resolver->n_loops = 0; // `with` may shadow `loop`
    for (size_t i = 0; i < statement->with.n_targets; i++)
        if (!bind_target(resolver, &open, statement->with.targets[i]))
            return false;
    resolver->n_loops = n_loops;
    if (!bind_body(resolver, inside, &statement->with.body))
        return false;
    close_scope(resolver, &open, &statement->with.scope);
    return true;
}

static bool bind_block_in(struct resolver *resolver, struct open_procedure *around,
                          struct statement *statement)
{
    struct open_procedure procedure;
    open_procedure(resolver, &procedure, &statement->block.procedure, around);
    struct open_scope open = {.procedure = &procedure};
    struct position inside = {&open, false, false};
    if (!names_collect(resolver, inside, &statement->block.body) ||
        !bind_body(resolver, inside, &statement->block.body))
        return false;
    close_scope(resolver, &open, &statement->block.scope);
    return true;
}

// A block sees what is outside the template and what the template itself sets; a scoped one all that is
// around.
static bool bind_block(struct resolver *resolver, struct position position, struct statement *statement)
{
    if (statement->block.scoped)
        return bind_block_in(resolver, position.scope->procedure, statement);
    resolver->blocks = parser_grow(resolver->parser, resolver->blocks, resolver->n_blocks,
                                   &resolver->blocks_capacity, sizeof *resolver->blocks);
    if (!resolver->blocks)
        return false;
    resolver->blocks[resolver->n_blocks++] = statement;
    return true;
}

static bool bind_if(struct resolver *resolver, struct position position, struct statement *statement)
{
    position.in_branch = true;
    for (size_t i = 0; i < statement->condition.n_branches; i++) {
        struct branch *branch = &statement->condition.branches[i];
        if (!bind_expression(resolver, position, branch->test) ||
            !bind_body(resolver, position, &branch->body))
            return false;
    }
    return true;
}

static bool bind_statement(struct resolver *resolver, struct position position, struct statement *statement)
{
    const struct binding *binding;
    switch (statement->kind) {
    case STATEMENT_OUTPUT:
        return bind_list(resolver, position, statement->output.items, statement->output.n_items);
    case STATEMENT_SET:
        return bind_expression(resolver, position, statement->set.value) &&
               bind_target(resolver, position.scope, statement->set.target);
    case STATEMENT_SET_BLOCK:
        return bind_target(resolver, position.scope, statement->set.target) &&
               bind_scope(resolver, position, &statement->set.body, statement->set.value,
                          &statement->set.scope);
    case STATEMENT_IF:
        return bind_if(resolver, position, statement);
    case STATEMENT_FOR:
        return bind_for(resolver, position, statement);
    case STATEMENT_MACRO:
        binding = resolver->innermost[statement->macro.definition->name_id];
        statement->macro.definition->place = names_place(position.scope, binding);
        return bind_macro(resolver, position, statement->macro.definition);
    case STATEMENT_CALL:
        return bind_macro(resolver, position, statement->macro.definition) &&
               bind_expression(resolver, position, statement->macro.call);
    case STATEMENT_GENERATION:
        return bind_macro(resolver, position, statement->macro.definition);
    case STATEMENT_FILTER:
        return bind_scope(resolver, position, &statement->filter.body, statement->filter.filter,
                          &statement->filter.scope);
    case STATEMENT_WITH:
        return bind_with(resolver, position, statement);
    case STATEMENT_AUTOESCAPE:
        return bind_scope(resolver, position, &statement->with.body, statement->with.autoescape,
                          &statement->with.scope);
    case STATEMENT_BLOCK:
        return bind_block(resolver, position, statement);
    case STATEMENT_BREAK:
    case STATEMENT_CONTINUE:
        if (!position.in_loop)
            return parser_fail(resolver->parser, statement->line, "'%s' outside a loop",
                               statement->kind == STATEMENT_BREAK ? "break" : "continue");
        return true;
    case STATEMENT_UNAVAILABLE:
        return bind_expression(resolver, position, statement->unavailable.source);
    }
    return true;
}

static bool bind_body(struct resolver *resolver, struct position position, const struct statements *body)
{
    for (size_t i = 0; i < body->n_items; i++)
        if (!bind_statement(resolver, position, body->items[i]))
            return false;
    return true;
}

static bool resolve_root(struct resolver *resolver)
{
    struct template *template = resolver->template;
    struct open_procedure procedure;
    open_procedure(resolver, &procedure, &template->procedure, NULL);
    struct open_scope open = {.procedure = &procedure};
    struct position position = {&open, false, false};
    resolver->root = &open;
    if (!names_collect(resolver, position, &template->body) ||
        !bind_body(resolver, position, &template->body))
        return false;
    close_scope(resolver, &open, &template->scope);
    resolver->root = NULL;
    return true;
}

bool scope_resolve(struct parser *parser)
{
    struct resolver resolver = {.parser = parser, .template = parser->template};
    if (!parser_name(parser, TEXT("loop"), &resolver.loop_name))
        return false;
    size_t n_names = parser->template->n_names;
    resolver.innermost = parser_allocate(parser, n_names * sizeof *resolver.innermost);
    parser->template->exported = parser_allocate(parser, n_names * sizeof *parser->template->exported);
    if (!resolver.innermost || !parser->template->exported)
        return false;
    memset(parser->template->exported, 0xFF, n_names * sizeof *parser->template->exported);
    if (!resolve_root(&resolver))
        return false;
    for (size_t i = 0; i < resolver.n_blocks; i++) // which may hold more blocks
        if (!bind_block_in(&resolver, NULL, resolver.blocks[i]))
            return false;
    return true;
}

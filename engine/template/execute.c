#include "engine/template/evaluate.h"
#include "engine/template/loop.h"
#include "engine/template/represent.h"

static void execute_output(struct rendering *rendering, const struct statement *statement)
{
    for (size_t i = 0; i < statement->output.n_items; i++) {
        const struct expression *expression = statement->output.items[i];
        rendering->failing.line = expression->line;
        if (expression->kind == EXPRESSION_LITERAL && expression->literal.kind == OBJECT_STRING) {
            buffer_add_text(&rendering->text, expression->literal.text);
            rendering_spend(rendering, 1 + expression->literal.text.size / 64);
        } else {
            struct object value = evaluate_expression(rendering, expression);
            represent_add_str(rendering, &value);
        }
        rendering_check_text(rendering);
    }
}

static void execute_set(struct rendering *rendering, const struct statement *statement)
{
    evaluate_check_target(rendering, statement->set.target);
    struct object value = evaluate_expression(rendering, statement->set.value);
    evaluate_assign(rendering, statement->set.target, &value);
}

// Runs the body, passes its text through the filter, and stores the result in the variable or the output. A
// break or continue discards the text.
static enum flow execute_block(struct rendering *rendering, const struct statement *statement)
{
    size_t start = rendering->text.size;
    evaluate_enter_scope(rendering, &statement->set.scope);
    enum flow flow = execute_statements(rendering, &statement->set.body);
    if (flow != FLOW_NEXT) {
        rendering_cut(rendering, start);
        return flow;
    }
    struct object text = rendering_take(rendering, start);
    if (statement->set.value)
        text = evaluate_filter(rendering, statement->set.value, &text);
    rendering->failing.line = statement->line;
    if (statement->kind == STATEMENT_SET_BLOCK) {
        evaluate_assign(rendering, statement->set.target, &text);
        return flow;
    }
    if (text.kind != OBJECT_STRING)
        rendering_fail(rendering, "the block gave a %s where text is needed", object_type_name(&text));
    represent_add_str(rendering, &text);
    rendering_check_text(rendering);
    return flow;
}

static enum flow execute_if(struct rendering *rendering, const struct statement *statement)
{
    for (size_t i = 0; i < statement->condition.n_branches; i++) {
        const struct branch *branch = &statement->condition.branches[i];
        struct object test = object_bool(true);
        if (branch->test)
            test = evaluate_expression(rendering, branch->test);
        if (object_truth(&test))
            return execute_statements(rendering, &branch->body);
    }
    return FLOW_NEXT;
}

static enum flow run_body(struct rendering *rendering, struct loop *loop)
{
    const struct statement *statement = loop->statement;
    rendering->scope.activation->slots[statement->loop.loop_slot] =
        (struct object){.kind = OBJECT_LOOP, .loop = loop};
    evaluate_assign(rendering, statement->loop.target, &loop->current);
    evaluate_enter_scope(rendering, &statement->loop.scope);
    return execute_statements(rendering, &statement->loop.body);
}

static enum flow run_loop(struct rendering *rendering, struct loop *loop)
{
    bool ran_through = false; // the body reached its end: a break or continue does not count
    for (enum flow flow = FLOW_NEXT; flow != FLOW_BREAK && loop_next(rendering, loop);) {
        flow = run_body(rendering, loop);
        ran_through = ran_through || flow == FLOW_NEXT;
    }
    if (ran_through || !loop->statement->loop.otherwise.n_items)
        return FLOW_NEXT;
    evaluate_enter_scope(rendering, &loop->statement->loop.otherwise_scope);
    return execute_statements(rendering, &loop->statement->loop.otherwise);
}

// Runs a recursive loop over its items in a new activation.
static enum flow run_recursive(struct rendering *rendering, struct loop *loop, struct activation *around)
{
    const struct statement *statement = loop->statement;
    struct activation *outside = rendering->scope.activation;
    rendering->scope.activation = call_activation_create(rendering, &statement->loop.procedure, around);
    evaluate_enter_scope(rendering, &statement->loop.around);
    loop->activation = rendering->scope.activation;
    loop_start(rendering, loop);
    enum flow flow = run_loop(rendering, loop);
    rendering->scope.activation = outside;
    return flow;
}

struct object loop_recurse(struct rendering *rendering, struct loop *loop, const struct object *over)
{
    if (!loop->statement->loop.is_recursive)
        rendering_fail(rendering, "The loop must have the 'recursive' marker to be called recursively.");
    struct loop *inner = rendering_allocate(rendering, sizeof *inner);
    *inner = (struct loop){.statement = loop->statement, .iterable = *over, .depth0 = loop->depth0 + 1};
    size_t start = rendering->text.size;
    run_recursive(rendering, inner, loop->activation->around);
    return rendering_take(rendering, start);
}

static enum flow execute_for(struct rendering *rendering, const struct statement *statement)
{
    struct loop *loop = rendering->scope.spare_loops;
    if (loop)
        rendering->scope.spare_loops = loop->next_spare;
    else
        loop = rendering_allocate(rendering, sizeof *loop);
    *loop = (struct loop){.statement = statement, .activation = rendering->scope.activation};
    loop->iterable = evaluate_expression(rendering, statement->loop.iterable);
    if (statement->loop.is_recursive)
        return run_recursive(rendering, loop, rendering->scope.activation);
    evaluate_enter_scope(rendering, &statement->loop.around);
    loop_start(rendering, loop);
    enum flow flow = run_loop(rendering, loop);
    if (!statement->loop.uses_loop) { // a body that reads `loop` may have stored it
        loop->next_spare = rendering->scope.spare_loops;
        rendering->scope.spare_loops = loop;
    }
    return flow;
}

static struct object make_macro(struct rendering *rendering, const struct statement *statement)
{
    struct macro *macro = rendering_allocate(rendering, sizeof *macro);
    *macro = (struct macro){statement->macro, rendering->scope.activation};
    return (struct object){.kind = OBJECT_MACRO, .macro = macro};
}

static void execute_macro(struct rendering *rendering, const struct statement *statement)
{
    *evaluate_place(rendering->scope.activation, statement->macro->target->name.place) =
        make_macro(rendering, statement);
}

static void execute_call(struct rendering *rendering, const struct statement *statement)
{
    struct object caller = make_macro(rendering, statement);
    struct object text = evaluate_call_with(rendering, statement->macro->call, &caller);
    represent_add_str(rendering, &text);
    rendering_check_text(rendering);
}

static enum flow execute_with(struct rendering *rendering, const struct statement *statement)
{
    size_t n = statement->with.n_targets;
    struct object *values = rendering_allocate_array(rendering, n + 1, sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = evaluate_expression(rendering, statement->with.values[i]);
    evaluate_enter_scope(rendering, &statement->with.scope);
    for (size_t i = 0; i < n; i++)
        evaluate_assign(rendering, statement->with.targets[i], &values[i]);
    return execute_statements(rendering, &statement->with.body);
}

static enum flow execute_one(struct rendering *rendering, const struct statement *statement)
{
    switch (statement->kind) {
    case STATEMENT_OUTPUT:
        execute_output(rendering, statement);
        return FLOW_NEXT;
    case STATEMENT_SET:
        execute_set(rendering, statement);
        return FLOW_NEXT;
    case STATEMENT_SET_BLOCK:
    case STATEMENT_FILTER:
        return execute_block(rendering, statement);
    case STATEMENT_IF:
        return execute_if(rendering, statement);
    case STATEMENT_FOR:
        return execute_for(rendering, statement);
    case STATEMENT_MACRO:
        execute_macro(rendering, statement);
        return FLOW_NEXT;
    case STATEMENT_CALL:
        execute_call(rendering, statement);
        return FLOW_NEXT;
    case STATEMENT_WITH:
        return execute_with(rendering, statement);
    case STATEMENT_GENERATION:
        evaluate_enter_scope(rendering, &statement->set.scope);
        return execute_statements(rendering, &statement->set.body);
    case STATEMENT_BREAK:
        return FLOW_BREAK;
    case STATEMENT_CONTINUE:
        break;
    }
    return FLOW_CONTINUE;
}

enum flow execute_statements(struct rendering *rendering, const struct statements *statements)
{
    enum flow flow = FLOW_NEXT;
    uint32_t line = rendering->failing.line;
    rendering_enter(rendering);
    for (size_t i = 0; i < statements->n_items && flow == FLOW_NEXT; i++) {
        rendering->failing.line = statements->items[i]->line;
        rendering_spend(rendering, 1);
        flow = execute_one(rendering, statements->items[i]);
    }
    rendering_leave(rendering);
    rendering->failing.line = line;
    return flow;
}

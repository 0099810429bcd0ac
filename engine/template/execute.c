#include "engine/template/execute.h"
#include "engine/template/codepoints.h"
#include "engine/template/evaluate.h"
#include "engine/template/loop.h"
#include "engine/template/represent.h"

static enum flow fail_at(struct rendering *rendering, uint32_t line)
{
    if (!rendering->error_line)
        rendering->error_line = line;
    return FLOW_FAILED;
}

static enum flow execute_output(struct rendering *rendering, struct activation *activation,
                                const struct statement *statement)
{
    for (size_t i = 0; i < statement->output.n_items; i++) {
        const struct expression *expression = statement->output.items[i];
        struct object value;
        if (expression->kind == EXPRESSION_LITERAL && expression->literal.kind == OBJECT_STRING) {
            buffer_add_text(&rendering->text, expression->literal.text);
            if (!rendering_spend(rendering, 1 + expression->literal.text.size / 64) ||
                !rendering_check_text(rendering))
                return fail_at(rendering, expression->line);
            continue;
        }
        if (!evaluate(rendering, activation, expression, &value) || !represent_add_str(rendering, &value) ||
            !rendering_check_text(rendering))
            return fail_at(rendering, expression->line);
    }
    return FLOW_NEXT;
}

enum flow execute_captured(struct rendering *rendering, struct activation *activation,
                           const struct statements *statements, struct object *string)
{
    size_t start = rendering->text.size;
    enum flow flow = execute(rendering, activation, statements);
    if (flow == FLOW_NEXT)
        return rendering_take(rendering, start, string) ? FLOW_NEXT : FLOW_FAILED;
    if (flow != FLOW_FAILED)
        rendering_cut(rendering, start);
    return flow;
}

static enum flow execute_set(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    struct object value;
    if (!evaluate_check_target(rendering, activation, statement->set.target) ||
        !evaluate(rendering, activation, statement->set.value, &value) ||
        !evaluate_assign(rendering, activation, statement->set.target, &value))
        return FLOW_FAILED;
    return FLOW_NEXT;
}

// The text of the body, through the filter.
static enum flow execute_filtered(struct rendering *rendering, struct activation *activation,
                                  const struct statement *statement, struct object *value)
{
    if (!evaluate_enter_scope(rendering, activation, &statement->set.scope))
        return FLOW_FAILED;
    enum flow flow = execute_captured(rendering, activation, &statement->set.body, value);
    if (flow == FLOW_NEXT && statement->set.value &&
        !evaluate_filter(rendering, activation, statement->set.value, value, value))
        return FLOW_FAILED;
    return flow;
}

static enum flow execute_set_block(struct rendering *rendering, struct activation *activation,
                                   const struct statement *statement)
{
    struct object value;
    enum flow flow = execute_filtered(rendering, activation, statement, &value);
    if (flow == FLOW_NEXT && !evaluate_assign(rendering, activation, statement->set.target, &value))
        return FLOW_FAILED;
    return flow;
}

static enum flow execute_filter(struct rendering *rendering, struct activation *activation,
                                const struct statement *statement)
{
    struct object text;
    enum flow flow = execute_filtered(rendering, activation, statement, &text);
    if (flow != FLOW_NEXT)
        return flow;
    if (text.kind != OBJECT_STRING)
        rendering_set_error(rendering, "the block gave a %s where text is needed", object_type_name(&text));
    else if (represent_add_str(rendering, &text) && rendering_check_text(rendering))
        return FLOW_NEXT;
    return fail_at(rendering, statement->line);
}

static enum flow execute_if(struct rendering *rendering, struct activation *activation,
                            const struct statement *statement)
{
    for (size_t i = 0; i < statement->condition.n_branches; i++) {
        const struct branch *branch = &statement->condition.branches[i];
        struct object test;
        if (branch->test) {
            if (!evaluate(rendering, activation, branch->test, &test))
                return FLOW_FAILED;
            if (!object_truth(&test))
                continue;
        }
        return execute(rendering, activation, &branch->body);
    }
    return FLOW_NEXT;
}

static enum flow run_body(struct rendering *rendering, struct loop *loop)
{
    const struct statement *statement = loop->statement;
    struct activation *activation = loop->activation;
    activation->slots[statement->loop.loop_slot] = (struct object){.kind = OBJECT_LOOP, .loop = loop};
    if (!evaluate_assign(rendering, activation, statement->loop.target, &loop->current) ||
        !evaluate_enter_scope(rendering, activation, &statement->loop.scope))
        return fail_at(rendering, statement->line);
    return execute(rendering, activation, &statement->loop.body);
}

static enum flow run_loop(struct rendering *rendering, struct loop *loop)
{
    const struct statement *statement = loop->statement;
    bool ran_through = false, more = true; // the body reached its end: a break or continue does not count
    for (enum flow flow = FLOW_NEXT; flow != FLOW_BREAK;) {
        if (!loop_next(rendering, loop, &more))
            return fail_at(rendering, statement->line);
        if (!more)
            break;
        flow = run_body(rendering, loop);
        if (flow == FLOW_FAILED)
            return flow;
        ran_through = ran_through || flow == FLOW_NEXT;
    }
    if (ran_through || !statement->loop.otherwise.n_items)
        return FLOW_NEXT;
    if (!evaluate_enter_scope(rendering, loop->activation, &statement->loop.otherwise_scope))
        return FLOW_FAILED;
    return execute(rendering, loop->activation, &statement->loop.otherwise);
}

static struct loop *create_loop(struct rendering *rendering)
{
    struct loop *loop = rendering->spare_loops;
    if (!loop)
        return rendering_allocate(rendering, sizeof *loop);
    rendering->spare_loops = loop->next_spare;
    return loop;
}

static enum flow execute_for(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    struct loop *loop = create_loop(rendering);
    if (!loop)
        return FLOW_FAILED;
    *loop = (struct loop){.statement = statement, .activation = activation};
    if (!evaluate(rendering, activation, statement->loop.iterable, &loop->iterable))
        return FLOW_FAILED;
    if (!loop_start(rendering, loop))
        return fail_at(rendering, statement->line);
    enum flow flow = run_loop(rendering, loop);
    if (!statement->loop.uses_loop) { // a `loop` that the body reads may be kept
        loop->next_spare = rendering->spare_loops;
        rendering->spare_loops = loop;
    }
    return flow;
}

static enum flow execute_macro(struct rendering *rendering, struct activation *activation,
                               const struct statement *statement)
{
    struct macro *macro = rendering_allocate(rendering, sizeof *macro);
    if (!macro)
        return fail_at(rendering, statement->line);
    *macro = (struct macro){statement->macro, activation};
    *evaluate_place(activation, statement->macro->target->name.place) =
        (struct object){.kind = OBJECT_MACRO, .macro = macro};
    return FLOW_NEXT;
}

static enum flow execute_one(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    switch (statement->kind) {
    case STATEMENT_OUTPUT:
        return execute_output(rendering, activation, statement);
    case STATEMENT_SET:
        return execute_set(rendering, activation, statement);
    case STATEMENT_SET_BLOCK:
        return execute_set_block(rendering, activation, statement);
    case STATEMENT_FILTER:
        return execute_filter(rendering, activation, statement);
    case STATEMENT_IF:
        return execute_if(rendering, activation, statement);
    case STATEMENT_FOR:
        return execute_for(rendering, activation, statement);
    case STATEMENT_MACRO:
        return execute_macro(rendering, activation, statement);
    case STATEMENT_GENERATION:
        return evaluate_enter_scope(rendering, activation, &statement->set.scope)
                   ? execute(rendering, activation, &statement->set.body)
                   : FLOW_FAILED;
    case STATEMENT_BREAK:
        return FLOW_BREAK;
    case STATEMENT_CONTINUE:
        break;
    }
    return FLOW_CONTINUE;
}

enum flow execute(struct rendering *rendering, struct activation *activation,
                  const struct statements *statements)
{
    if (!rendering_enter(rendering))
        return FLOW_FAILED;
    enum flow flow = FLOW_NEXT;
    for (size_t i = 0; i < statements->n_items && flow == FLOW_NEXT; i++) {
        if (rendering_spend(rendering, 1))
            flow = execute_one(rendering, activation, statements->items[i]);
        else
            flow = fail_at(rendering, statements->items[i]->line);
    }
    rendering_leave(rendering);
    return flow;
}
